"""The papers, reproduced: their tables and figures from theory, twin and cluster, with one command each.

``testbed reproduce --list`` names the studies, ``testbed reproduce NAME`` computes one; from Python:

    >>> from testbed.studies.reproduce import reproduce
    >>> result = reproduce("zero-queueing-delay", quick=True)
    >>> print(result)  # the table; result.rows has the numbers

How a study is added
====================
Write a module with a subclass of ``Study`` (testbed.studies.reproduce.study), about a page, and name it in
``testbed.studies.reproduce.registry``. It says

* what it is: ``name``, ``paper``, ``shows`` (and which figure or table that is), ``takes``, and what its settings
  (``columns``) and its numbers (``quantities``) mean, with units;
* ``points(quick)``: where something is computed. A ``Point`` has settings, and the scenario that the twin (and with
  ``--cluster`` the cluster) runs there, if any; points that differ only in what is read off a run (a queue length, a
  time) give an equal scenario, which is then run once. Points that are only there for a theory's line say so;
* ``theory(settings)``: what theory says at a point;
* ``measure(settings, scenario, measurements)``: what one run says there (``testbed.studies.reproduce.measured``);
* ``figures(rows)``: the plots, by ``testbed.studies.reproduce.plots.curves``;
* ``remarks(rows)``: what a reader should know.

Numbers of the paper, or of others, go to ``reference/<name>.csv``, with where they are from. All else is done for it:
replications over all cores, intervals, CSV, table, interruption. ``tests/testbed/reproduce/test_studies.py`` runs every
registered study in a tiny form; add what its theory must give.
"""

from testbed.studies.reproduce.computing import Reproduction, compute
from testbed.studies.reproduce.registry import UnknownStudyError, studies, study
from testbed.studies.reproduce.reproducing import reproduce
from testbed.studies.reproduce.study import Point, Row, Study

__all__ = ["Point", "Reproduction", "Row", "Study", "UnknownStudyError", "compute", "reproduce", "studies", "study"]
