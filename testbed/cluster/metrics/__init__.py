"""Prometheus metrics of a cluster's processes: collecting, serving until the last values have been read, discovery.

Agents never touch a metric. A collector reads their counters and records when scraped, and a thread of its own serves
each scrape. Metrics are in seconds, as Prometheus' conventions ask; the rest of the testbed uses time units. The labels
of a target name the run and the process of its series (testbed.cluster.metrics.discovery).
"""
