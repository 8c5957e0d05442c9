"""Studies: sweeps, validation and reproduction, each made of many runs.

A study plans its runs (testbed.studies.plan) and keeps their results. The engine (testbed.studies.engine) makes the
runs: those on real processes one after the other, those of the twin on all cores.
"""
