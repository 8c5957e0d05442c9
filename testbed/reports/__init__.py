"""Reports of runs and sweeps as one HTML file, and comparisons of runs.

``page`` is what a page consists of and how it becomes HTML, ``drawing`` the plots, ``run`` and ``sweep`` what is said
of each, ``provenance`` how to make it again. ``comparison`` compares runs and variants.
"""
