"""Queueing theory: pure functions, one module per family of formulas or per paper, and the prediction for a scenario.

``baselines`` has the formulas; ``policy_theory`` says what is known of one policy; ``predict`` gives the prediction for
a scenario, or says why there is none; ``stable_load`` gives the largest load that its policy can carry. Nothing here
runs a cluster.
"""

from testbed.theory.predict import NoPrediction, Prediction, Stability, predict, stability_bound

__all__ = ["NoPrediction", "Prediction", "Stability", "predict", "stability_bound"]
