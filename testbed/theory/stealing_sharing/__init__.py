"""Work stealing and work sharing with non-exponential sizes: the mean field, and which of the two is best.

Van Houdt, "Randomized work stealing versus sharing in large-scale systems with non-exponential job sizes" (2019), in
its symbols: lam the load, r the rate of a server's probe clock, R_o the overall probe rate (probes per server and time
unit), SCV the squared coefficient of variation of the sizes. The mean size is the time unit. Jobs go to random servers;
with *stealing* an idle server probes at rate r for one with a waiting task, with *sharing* a server with waiting tasks
probes at rate r for an idle one.

``mean_field`` solves the queue of a typical server among many. ``probe_rate_for`` gives the r for an R_o;
``best_policy``, ``load_boundary`` and ``probe_rate_boundary`` compare the two policies at equal R_o. The rest: bounds
that hold for all sizes, closed forms for exponential and results for unit sizes, the traditional strategies with at
most L probes, and the mean field in time.
"""

from testbed.theory.stealing_sharing.bounds import (
    sharing_always_best,
    stealing_always_best,
    vanishing_rate_load_boundary,
    vanishing_rate_load_bounds,
)
from testbed.theory.stealing_sharing.comparison import (
    best_policy,
    load_boundary,
    probe_rate_boundary,
    probe_rate_for,
)
from testbed.theory.stealing_sharing.exponential import (
    ExponentialMeanField,
    exponential_load_boundary,
    exponential_mean_field,
    exponential_mean_response_time,
    exponential_probe_rate_boundary,
    exponential_probe_rate_for,
)
from testbed.theory.stealing_sharing.finite_size import FiniteSizeCorrection
from testbed.theory.stealing_sharing.mean_field import MeanField, Policy, mean_field
from testbed.theory.stealing_sharing.response_time import Moved
from testbed.theory.stealing_sharing.sizes import Size
from testbed.theory.stealing_sharing.traditional import Traditional, traditional_sharing, traditional_stealing
from testbed.theory.stealing_sharing.transient import TransientMeanField, transient_mean_field
from testbed.theory.stealing_sharing.unit_size import (
    UnitSizeMeanField,
    unit_size_load_boundary,
    unit_size_mean_field,
)

__all__ = [
    "ExponentialMeanField",
    "FiniteSizeCorrection",
    "MeanField",
    "Moved",
    "Policy",
    "Size",
    "Traditional",
    "TransientMeanField",
    "UnitSizeMeanField",
    "best_policy",
    "exponential_load_boundary",
    "exponential_mean_field",
    "exponential_mean_response_time",
    "exponential_probe_rate_boundary",
    "exponential_probe_rate_for",
    "load_boundary",
    "mean_field",
    "probe_rate_boundary",
    "probe_rate_for",
    "sharing_always_best",
    "stealing_always_best",
    "traditional_sharing",
    "traditional_stealing",
    "transient_mean_field",
    "unit_size_load_boundary",
    "unit_size_mean_field",
    "vanishing_rate_load_boundary",
    "vanishing_rate_load_bounds",
]
