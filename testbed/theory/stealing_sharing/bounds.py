"""What holds for every job size: where sharing, or stealing, is always best, and the limit of few probes.

Each docstring says whether its result is proved, derived from Van Houdt (2019), or conjectured.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from testbed.theory.argument_checks import require_count, require_load
from testbed.theory.stealing_sharing.comparison import require_overall_probe_rate
from testbed.theory.stealing_sharing.unit_size import unit_size_mean_field
from testbed.workload.distribution import DistributionBase


def sharing_always_best(load: float, overall_probe_rate: float) -> bool:
    """Return whether sharing is best for every phase-type size: lam <= 1/2, or R_o >= lam^2 / (1 - lam).

    Proved from u2 < min(lam, lam^2 / delta). Tight: a hyperexponential size with f -> 0 and SCV -> infinity has u2 up
    to that bound, so that outside this region stealing is best for some size.
    Raises ValueError for a load outside (0, 1) or a negative or infinite R_o.
    """
    require_load(load)
    require_overall_probe_rate(overall_probe_rate)
    return load <= 0.5 or overall_probe_rate >= load**2 / (1 - load)


def stealing_always_best(load: float, overall_probe_rate: float) -> bool:
    """Return whether stealing is best for every phase-type size: iff it is best for unit sizes.

    CONJECTURED (the reconstruction of a conjecture that the paper announces): unit sizes have the smallest u2, which no
    one of some 80,000 random phase-type sizes contradicted. That it is necessary is proved: Erlang sizes come as close
    to unit sizes as one likes. Raises as ``unit_size_mean_field`` does.
    """
    require_load(load)
    require_overall_probe_rate(overall_probe_rate)
    return unit_size_mean_field(load, overall_probe_rate).pending_probability > 1 - load


def vanishing_rate_load_boundary(size: DistributionBase) -> float:
    """Return lam*_0, the load above which stealing is best as R_o -> 0: the root of lam h(lam) = 1 - lam.

    h is the Laplace transform of the size, which may be any distribution of mean 1 in ``testbed.workload``, not only
    phase-type. Derived: without probes u2 = 1 - (1 - lam) / h(lam), the classical M/G/1 queue. In (1/2, 0.659046].
    Raises ValueError if the mean is not 1.
    """
    if abs(size.mean - 1) > 1e-9:
        raise ValueError(f"the mean size is {size.mean:.10g}, but must be 1, the time unit: use `size.scaled`")
    return _crossing(size.laplace_transform)


def vanishing_rate_load_bounds(scv: float | None = None, phases: int | None = None) -> tuple[float, float]:
    """Return bounds on lam*_0 (see ``vanishing_rate_load_boundary``) for all sizes with this SCV, or phases, or both.

    Without either: (1/2, 0.659046), the upper end taken by unit sizes (proved, from h(lam) > exp(-lam)).
    With ``phases`` = n the upper end is that of Erlang-n. With ``scv`` the lower end is above 1/2, from
    ``h(lam) <= (SCV + exp(-lam (1 + SCV))) / (1 + SCV)``. Derived.
    Raises ValueError for a negative SCV, a number of phases below 1, or an SCV below 1/n, which n phases can't have.
    """
    if scv is not None and not (math.isfinite(scv) and scv >= 0):
        raise ValueError(f"the SCV is {scv}; give a number of at least 0")
    if phases is not None:
        require_count("phases", phases)
        if scv is not None and scv < (1 - 1e-9) / phases:
            raise ValueError(f"the SCV is {scv}, but {phases} phases have an SCV of at least {1 / phases:g}")
    low = 0.5
    if scv is not None:
        low = _crossing(lambda s: (scv + math.exp(-s * (1 + scv))) / (1 + scv))
    if phases is None:
        return low, _crossing(lambda s: math.exp(-s))
    return low, _crossing(lambda s: math.exp(-phases * math.log1p(s / phases)))


def _crossing(transform: Callable[[float], float]) -> float:
    """Return the root of lam h(lam) = 1 - lam, for a Laplace transform h of mean 1."""
    return float(brentq(lambda load: load * transform(load) - (1 - load), 0.5, 1.0, xtol=1e-15))
