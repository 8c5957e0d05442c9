"""From a scenario to what queueing theory predicts for it.

The formula comes from the policy's own record (testbed.theory.policy_theory), or where servers move waiting tasks from
testbed.theory.moving_tasks.
"""

from __future__ import annotations

from testbed.scenario import Scenario
from testbed.theory.cluster_model import ClusterModel
from testbed.theory.moving_tasks import moving_tasks
from testbed.theory.policy_theory import NO_THEORY
from testbed.theory.pool_loads import pool_notes, pool_requirements
from testbed.theory.prediction import Formula, NoPrediction, NoTheoryError, Prediction
from testbed.theory.stable_load import Stability, stability_bound, stability_of
from testbed.theory.steady_state import Tail

__all__ = [
    "NoPrediction",
    "Prediction",
    "Stability",
    "pool_notes",
    "pool_requirements",
    "predict",
    "predicted_tail",
    "stability_bound",
]


def predict(scenario: Scenario) -> Prediction | NoPrediction:
    """Return the predicted response time of a scenario, or why there is none."""
    try:
        model = ClusterModel.of(scenario)
        return _formula(model).prediction(model)
    except NoTheoryError as error:
        return NoPrediction(str(error))


def predicted_tail(scenario: Scenario) -> Tail | None:
    """Return P(response time > t) as a function of t, as it is predicted; None where no distribution is derived."""
    try:
        model = ClusterModel.of(scenario)
        formula = _formula(model)
        prediction = formula.prediction(model)
    except NoTheoryError:
        return None
    tail = formula.state.response_time_tail
    if tail is None or not prediction.quantiles:
        return None
    shift = prediction.mean_response_time - formula.state.mean_response_time
    return lambda t: tail(t - shift) if t > shift else 1.0


def _formula(model: ClusterModel) -> Formula:
    """Return the theory's formula. Raises NoTheoryError."""
    theory = model.theory
    if model.balance is None and theory is NO_THEORY:
        return theory.formula(model)  # whose reason comes before that of an unstable scenario
    stability = stability_of(model)
    if not stability.stable:
        raise NoTheoryError(
            f"unstable: the load {stability.load:.4g} is not below the stability bound {stability.bound:.4g} "
            f"({stability.reason})"
        )
    if model.balance is not None:
        return moving_tasks(model)
    return theory.formula(model) if model.tasks.most == 1 else theory.formula_for_tasks(model)
