"""Sweeps: a scenario and its variants at many points, in many replications, on the cluster, the twin and in theory."""
