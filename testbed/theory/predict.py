"""From a scenario to what queueing theory predicts for it.

``POLICIES`` maps a policy's name to its theory: a function of the ClusterModel that returns a Formula, or raises
NoTheoryError with the reason why the scenario is not covered. A new policy's theory is one more entry. For jobs of
several tasks all of them go to testbed.theory.jobs_of_tasks, and where tasks move to testbed.theory.moving_tasks.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.theory.cluster_model import ClusterModel, ScenarioLike
from testbed.theory.copies import copying
from testbed.theory.jobs_of_tasks import jobs_of_tasks
from testbed.theory.moving_tasks import moving_tasks
from testbed.theory.pools import pool_notes, pool_requirements
from testbed.theory.prediction import Formula, NoPrediction, NoTheoryError, Prediction
from testbed.theory.queue_aware_policies import (
    join_idle_queue,
    join_shortest_queue,
    least_outstanding,
    power_of_d_choices,
)
from testbed.theory.queue_oblivious_policies import random_routing, round_robin_routing
from testbed.theory.stability import Stability, stability_bound
from testbed.theory.static_assignment import static_assignment
from testbed.theory.steady_state import Tail

__all__ = [
    "POLICIES",
    "NoPrediction",
    "Prediction",
    "Stability",
    "pool_notes",
    "pool_requirements",
    "predict",
    "predicted_tail",
    "stability_bound",
]

POLICIES: dict[str, Callable[[ClusterModel], Formula]] = {
    "random": random_routing,
    "round-robin": round_robin_routing,
    "power-of-d": power_of_d_choices,
    "jsq": join_shortest_queue,
    "least-outstanding": least_outstanding,
    "jiq": join_idle_queue,
    "static": static_assignment,
    "redundancy-d": copying,
    "tied": copying,
    "hedge": copying,
    "batch-filling": jobs_of_tasks,
    "batch-sampling": jobs_of_tasks,
    "per-task-power-of-d": jobs_of_tasks,
    "per-task-power-of-kd": jobs_of_tasks,
    "late-binding": jobs_of_tasks,
}


def predict(scenario: ScenarioLike) -> Prediction | NoPrediction:
    """Return the predicted response time of a scenario (testbed.scenario.Scenario), or why there is none."""
    try:
        model = ClusterModel.of(scenario)
        return _formula(scenario, model).prediction(model)
    except NoTheoryError as error:
        return NoPrediction(str(error))


def predicted_tail(scenario: ScenarioLike) -> Tail | None:
    """Return P(response time > t) as a function of t, as it is predicted; None where no distribution is derived."""
    try:
        model = ClusterModel.of(scenario)
        formula = _formula(scenario, model)
        prediction = formula.prediction(model)
    except NoTheoryError:
        return None
    tail = formula.state.response_time_tail
    if tail is None or not prediction.quantiles:
        return None
    shift = prediction.mean_response_time - formula.state.mean_response_time
    return lambda t: tail(t - shift) if t > shift else 1.0


def _formula(scenario: ScenarioLike, model: ClusterModel) -> Formula:
    """Return the theory's formula. Raises NoTheoryError."""
    theory = POLICIES.get(model.policy) if model.balance is None else moving_tasks
    if theory is not None and theory is not moving_tasks and model.tasks.most > 1:
        theory = jobs_of_tasks
    if theory is None:
        raise NoTheoryError(f"no theory is known here for the policy {model.policy!r}")
    stability = stability_bound(scenario)
    if not stability.stable:
        raise NoTheoryError(
            f"unstable: the load {stability.load:.4g} is not below the stability bound {stability.bound:.4g} "
            f"({stability.reason})"
        )
    return theory(model)
