"""Queueing theory: pure functions, one module per family of formulas or per paper, and the prediction for a scenario.

``baselines`` has the formulas; ``predict`` maps a scenario to one of them, or says why none fits; ``stability`` gives
the largest load that its policy can carry. Nothing here runs a cluster, and of the project only testbed.workload is
imported.
"""

from testbed.theory.predict import NoPrediction, Prediction, Stability, predict, stability_bound

__all__ = ["NoPrediction", "Prediction", "Stability", "predict", "stability_bound"]
