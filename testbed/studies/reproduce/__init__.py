"""Reproduction of the papers: their tables and figures from theory, twin and cluster, with one command each.

``testbed reproduce --list`` names the studies, ``testbed reproduce NAME`` computes one; from Python:

    >>> from testbed.studies.reproduce import reproduce
    >>> result = reproduce("zero-queueing-delay", quick=True)
    >>> print(result)  # the table; result.rows has the numbers

How to add a study
==================
Write a module with a subclass of ``Study`` (testbed.studies.reproduce.study), about a page, and name it in
``testbed.studies.reproduce.registry``. It has

* a description: ``name``, ``paper``, ``shows`` (and which figure or table that is), ``takes``, and the meaning of its
  settings (``columns``) and its numbers (``quantities``), with units;
* ``points(quick)``: the points at which numbers are computed. A ``Point`` has settings, and the scenario that the twin
  (and with ``--cluster`` the cluster) runs there, if any. Points that differ only in the number that is taken from a
  run (a queue length, a time) give an equal scenario, which is then run once. Points that only draw a theory's line
  say so;
* ``theory(settings)``: the theory's numbers at a point;
* ``measure(settings, scenario, measurements)``: the numbers from one run (``testbed.studies.reproduce.measured``);
* ``figures(rows)``: the plots, drawn by ``testbed.studies.reproduce.curves.curves``;
* ``remarks(rows)``: remarks for readers.

Numbers of the paper, or of others, go to ``reference/<name>.csv``, with their source. The testbed does the rest:
replications on all cores, intervals, CSV, table, interruption. ``tests/testbed/studies/reproduce/test_studies.py`` runs
every registered study in a tiny form; add the values that its theory must give.
"""

from testbed.studies.reproduce.registry import UnknownStudyError, studies, study
from testbed.studies.reproduce.reproducing import Reproduction, compute, reproduce
from testbed.studies.reproduce.study import Point, Row, Study

__all__ = ["Point", "Reproduction", "Row", "Study", "UnknownStudyError", "compute", "reproduce", "studies", "study"]
