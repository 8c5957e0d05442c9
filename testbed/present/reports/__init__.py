"""Reports of runs, sweeps and validations as one HTML file, and comparisons of runs.

``page`` is what a page consists of and how it becomes HTML, ``drawing`` the plots, ``run``, ``sweep`` and
``validation`` what is said of each, ``provenance`` how to make it again. ``comparison`` compares runs and variants.
"""
