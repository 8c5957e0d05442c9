"""Reports of runs, sweeps and validations, each as one HTML file, and comparisons of runs.

``page`` defines the parts of a page and renders them as HTML, ``drawing`` draws the plots. ``run``, ``sweep`` and
``validation`` make the pages; ``provenance`` describes how to reproduce the numbers. ``comparison`` compares runs and
variants.
"""
