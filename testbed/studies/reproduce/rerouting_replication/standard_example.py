"""The paper's standard example, which all its studies are about: two pools alike, two types, each slow in one pool.

The paper has 10 servers and sizes of mean 10; here the mean size is the time unit. Its thresholds and latencies are ten
times ours, its arrival rates are our arrival rates per server.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.optimize import lsq_linear

from testbed.core.records import Measurements
from testbed.measure.copies import NominalPool, pool_uses
from testbed.measure.summary import measured_window
from testbed.scenario import Scenario, decode
from testbed.theory.rerouting_replication import (
    FullRedundancy,
    Knowledge,
    KnownSizes,
    Model,
    Noisy,
    Policy,
    Replicate,
    Reroute,
    Revealed,
    StabilityBound,
    ZeroRedundancy,
    signal_matrix,
    stability_bound,
)
from testbed.workload.distributions import Exponential, Pareto

POOLS = ("one", "two")
IDENTICAL, INDEPENDENT = "exponential, identical", "exponential, i.i.d."
HEAVY_IDENTICAL, HEAVY_INDEPENDENT = "Pareto(10/9), identical", "Pareto(10/9), i.i.d."
Dependence = Literal["identical", "independent"]
#: The distributions of the sizes of a job in the two pools, by their names in the studies' tables.
SIZES: Mapping[str, tuple[Exponential | Pareto, Dependence]] = {
    IDENTICAL: (Exponential(), "identical"),
    INDEPENDENT: (Exponential(), "independent"),
    HEAVY_IDENTICAL: (Pareto(index=10 / 9, minimum=0.1), "identical"),
    HEAVY_INDEPENDENT: (Pareto(index=10 / 9, minimum=0.1), "independent"),
}
#: The paper's abbreviations. "Known" types are sent where they are fast, and stay there.
POLICIES: Mapping[str, Policy] = {
    "ZRed": ZeroRedundancy(),
    "FRed": FullRedundancy(),
    "Rer": Reroute(),
    "Rep": Replicate(),
    "KS": KnownSizes(),
    "Known": ZeroRedundancy(),
}
POLICY_MEANING = (
    "Rer: rerouting, Rep: replication, with the best thresholds; ZRed: no redundancy; FRed: full redundancy; KS: sizes "
    "are known, types are not"
)
SIZES_MEANING = (
    "the distribution of the sizes, and whether a job has one size or independent ones in the two pools; mean 1"
)
#: Where sizes have no variance, a mean over 10^5 jobs is not reliable: there only theory covers these policies.
FINITE_VARIANCE: Mapping[str, tuple[str, ...]] = {
    IDENTICAL: ("ZRed", "FRed", "Rer", "Rep", "KS"),
    INDEPENDENT: ("ZRed", "FRed", "Rer", "Rep", "KS"),
    HEAVY_INDEPENDENT: ("FRed", "Rep", "KS"),
}


def example(sizes: str, r_slow: float, servers: int = 5, first_type: float = 0.5) -> Model:
    """Return the model with ``servers`` in each pool, and probability ``first_type`` of the first type."""
    size, dependence = SIZES[sizes]
    speeds = ((1.0, r_slow), (r_slow, 1.0))
    return Model((servers, servers), (first_type, 1 - first_type), speeds, size, dependence)


def bound(
    policy: str, sizes: str, r_slow: float, signal: str = "noisy", q: float = 0.5, first_type: float = 0.5
) -> StabilityBound:
    """Return the stability bound, in jobs per time unit; see ``knowledge`` on ``signal`` and ``q``."""
    # The signals are the same at both ends; searched for once.
    return _bound(policy, sizes, r_slow, signal if 0.5 < q < 1 else "noisy", q, first_type)


@cache
def _bound(policy: str, sizes: str, r_slow: float, signal: str, q: float, first_type: float) -> StabilityBound:
    known: Knowledge = "types" if policy == "Known" else knowledge(signal, q)
    return stability_bound(example(sizes, r_slow, first_type=first_type), POLICIES[policy], known)


def knowledge(signal: str, q: float) -> Knowledge:
    """Return what the dispatcher knows: noisy, the right type with probability q; revealed, it with 2 q - 1.

    Otherwise it gets a wrong type, or nothing. Where jobs without information are split evenly, a fraction q goes to
    the right pool under both.
    """
    if q == 0.5:
        return "nothing"
    return Revealed(2 * q - 1) if signal == "revealed" else Noisy(q)


def scenario(
    policy: str,
    sizes: str,
    r_slow: float,
    thresholds: npt.ArrayLike | None,
    assignment: npt.ArrayLike | None,
    *,
    load: float,
    servers: int = 5,
    signal: str = "noisy",
    q: float = 0.5,
    warmup: float,
    duration: float,
    replications: int,
) -> Scenario:
    """Return the example as a scenario.

    ``thresholds``: by pool, in time units; ``assignment``: alpha_ij, the fraction of type-j jobs that start in pool i,
    shape (2, 2); neither for KS. ``load``: arrivals per server and time unit. ``q``, ``signal``: as in ``knowledge``.
    """
    size, dependence = SIZES[sizes]
    distribution: Any = msgspec.to_builtins(size)
    dispatch: dict[str, Any] = {"policy": "static", "knows": "sizes"}
    tau: Any = "rational"
    if thresholds is not None and assignment is not None:
        limits = np.ravel(thresholds).tolist()
        tau = {name: "inf" if limit == np.inf else limit for name, limit in zip(POOLS, limits, strict=True)}
        dispatch |= _knowledge(np.array(assignment, dtype=np.float64), signal, q)
    return decode(
        {
            "name": "x",
            "run": {"time_unit": "100ms", "warmup": warmup, "duration": duration, "replications": replications},
            "cluster": {"pools": [{"name": name, "servers": servers, "queue": "central"} for name in POOLS]},
            "workload": {
                "load": load,
                "load_per": "server",
                "size": distribution,
                "dependence": dependence,
                "types": [
                    {"name": "a", "probability": 0.5, "speed": {"two": r_slow}},
                    {"name": "b", "probability": 0.5, "speed": {"one": r_slow}},
                ],
            },
            "dispatch": dispatch,
            "threshold": {"action": "replicate" if policy in ("FRed", "Rep") else "reroute", "tau": tau},
        }
    )


def _knowledge(assignment: npt.NDArray[np.float64], signal: str, q: float) -> dict[str, Any]:
    """Return what the dispatcher knows, and the fractions of the pools by signal that give the assignment by type."""
    # alpha_ij = sum_k Q_jk beta_ik, with beta a probability.
    signals = signal_matrix(knowledge(signal, q), types=2)
    first = lsq_linear(signals, assignment[0], bounds=(0.0, 1.0), method="bvls").x.round(12).tolist()
    fractions = [dict(zip(POOLS, (beta, round(1 - beta, 12)), strict=True)) for beta in first]
    if len(fractions) == 1:
        return {"knows": "nothing", "assignment": fractions[0]}
    knows = {"revealed": round(2 * q - 1, 12)} if signal == "revealed" else {"noisy": q}
    return {"knows": knows, "assignment": dict(zip(("a", "b", "unknown"), fractions, strict=False))}


def service_used(scenario: Scenario, measurements: Measurements) -> list[float]:
    """Return the mean processing time that the completed jobs of the window used in each pool, in time units."""
    pools = [NominalPool(pool.name, pool.servers, requirement=None) for pool in scenario.pools]
    window = measured_window(measurements, scenario.run.warmup, scenario.horizon)
    uses = pool_uses(measurements.columns, measurements.copies, pools, scenario.rate, window)
    return [float("nan") if use.service_requirement.mean is None else use.service_requirement.mean for use in uses]
