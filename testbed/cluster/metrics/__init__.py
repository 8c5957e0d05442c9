"""Prometheus metrics of a cluster's processes, where they are found, and how their last values are not lost.

Agents never touch a metric. A collector reads what they write anyway, only when scraped, and each scrape is served by
a thread of its own. Metrics are in seconds, as Prometheus' conventions ask; the rest of the testbed keeps to time
units. Which run and process a series is of is said by the labels of its target (testbed.cluster.metrics.discovery).
"""
