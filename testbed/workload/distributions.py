"""The distributions that a scenario can name, as one union tagged by ``kind``: of sizes, gaps and delays."""

from __future__ import annotations

from testbed.workload.elementary import Deterministic, Empirical, Uniform
from testbed.workload.exponential_phases import Erlang, Exponential, Hyperexponential, Hypoexponential
from testbed.workload.heavy_tailed import BoundedPareto, Lognormal, Pareto, Weibull
from testbed.workload.phase_type import PhaseType

Distribution = (
    Exponential
    | Erlang
    | Hypoexponential
    | Hyperexponential
    | PhaseType
    | Pareto
    | BoundedPareto
    | Lognormal
    | Weibull
    | Uniform
    | Deterministic
    | Empirical
)

__all__ = [
    "BoundedPareto",
    "Deterministic",
    "Distribution",
    "Empirical",
    "Erlang",
    "Exponential",
    "Hyperexponential",
    "Hypoexponential",
    "Lognormal",
    "Pareto",
    "PhaseType",
    "Uniform",
    "Weibull",
]
