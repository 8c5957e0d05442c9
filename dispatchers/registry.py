"""The registry of dispatching policies: those of this package, and those that other installed packages add.

Another package adds its policy class by an entry point:

    [project.entry-points."loadbalance_testbed.policies"]
    my-policy = "my_package.my_module:MyPolicy"
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points

from dispatchers.batch_filling import BatchFilling
from dispatchers.batch_sampling import BatchSampling
from dispatchers.hedge import Hedge
from dispatchers.join_idle_queue import JoinIdleQueue
from dispatchers.join_shortest_queue import JoinShortestQueue
from dispatchers.late_binding import LateBinding
from dispatchers.least_outstanding import LeastOutstanding
from dispatchers.per_task_power_of_d import PerTaskPowerOfD
from dispatchers.per_task_power_of_kd import PerTaskPowerOfKD
from dispatchers.policy import Policy
from dispatchers.power_of_d import PowerOfD
from dispatchers.random_routing import Random
from dispatchers.redundancy import RedundancyD
from dispatchers.round_robin import RoundRobin
from dispatchers.static import Static
from dispatchers.tied import Tied

GROUP = "loadbalance_testbed.policies"
BUILT_IN: tuple[type[Policy], ...] = (
    Random,
    RoundRobin,
    JoinShortestQueue,
    LeastOutstanding,
    PowerOfD,
    JoinIdleQueue,
    BatchFilling,
    BatchSampling,
    PerTaskPowerOfD,
    PerTaskPowerOfKD,
    LateBinding,
    Static,
    Hedge,
    RedundancyD,
    Tied,
)


@cache
def policies() -> dict[str, type[Policy]]:
    """Return all policies by name. Raises TypeError when an entry point is not a Policy or takes a name twice."""
    found = {policy.name: policy for policy in BUILT_IN}
    for point in entry_points(group=GROUP):
        try:
            policy = point.load()
        except Exception as error:  # whatever another package's module does when it is imported
            warnings.warn(f"the policy {point.name!r} of {point.value!r} can't be loaded: {error!r}", stacklevel=2)
            continue
        if not (isinstance(policy, type) and issubclass(policy, Policy)):
            raise TypeError(f"entry point {point.name!r} of {point.value!r} is not a dispatchers.policy.Policy")
        if found.get(policy.name, policy) is not policy:
            raise TypeError(f"two policies are called {policy.name!r}: {found[policy.name]!r} and {policy!r}")
        found[policy.name] = policy
    return found
