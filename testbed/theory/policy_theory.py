"""What theory knows of one dispatching policy.

A policy class names its record by its attribute ``theory``, as "module:attribute"; the record is an instance of a
subclass of PolicyTheory. A policy of another package brings its theory in the same way, in a module of its own, which
the processes of a cluster never import:

    class MyTheory(PolicyTheory):
        def formula(self, model: ClusterModel) -> Formula:
            if not model.poisson:
                raise NoTheoryError("my policy has a formula for Poisson arrivals only")
            return Formula("my limit", "My paper, equation 7", "limit", SteadyState(...))

    MY_POLICY = MyTheory()
"""

from __future__ import annotations

import math
from pkgutil import resolve_name
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from testbed.scenario.policies import PolicyLike
from testbed.theory.prediction import Formula, NoTheoryError

if TYPE_CHECKING:
    from testbed.theory.cluster_model import ClusterModel, PoolModel


class PolicyTheory:
    """What theory knows of a policy; override what is known."""

    #: Whether the policy is known to keep identical servers stable up to full use.
    fills_servers: ClassVar[bool] = False

    def formula(self, model: ClusterModel) -> Formula:
        """Return the formula for jobs of one task. Raises NoTheoryError, with the reason, where there is none."""
        raise NoTheoryError(f"no theory is known here for the policy {model.policy!r}")

    def formula_for_tasks(self, model: ClusterModel) -> Formula:
        """Return the formula for jobs of several tasks. Raises NoTheoryError, with the reason, where there is none."""
        raise NoTheoryError(f"{model.policy} has a theory for jobs of one task only")

    def stability_bound(self, model: ClusterModel) -> tuple[float, str]:
        """Return the largest load, in work per server per time unit, and where it comes from; without thresholds.

        Where the true bound may be lower the reason begins with "at most".
        """
        if model.same_speeds:
            return self.stability_bound_of_identical_servers(model)
        return model.capacity(), "at most: all servers busy with the job types that suit them best"

    def stability_bound_of_identical_servers(self, model: ClusterModel) -> tuple[float, str]:
        """Return what ``stability_bound`` does, where all servers have the same speeds."""
        reason = "identical servers, all busy"
        return 1 / model.pools[0].slowness, reason if self.fills_servers else f"at most: {reason}"

    def copies_cost_nothing(self, model: ClusterModel) -> bool:
        """Return whether a job's copies together take as much service as one would, on identical servers."""
        return model.copies == 1

    def fractions(self, model: ClusterModel) -> list[tuple[PoolModel, float, int]]:
        """Return (pool, fraction of the jobs per server, servers); by symmetry of equal servers, the same for all.

        Servers without jobs are left out.
        """
        return [(pool, 1 / model.servers, pool.servers) for pool in model.pools]

    def pool_notes(self, model: ClusterModel) -> list[str]:
        """Return what more there is to say than the effective load of each pool."""
        return []


class QueueOblivious(PolicyTheory):
    """A policy that sends each server a fixed fraction of the jobs, whatever the queues: override ``fractions``."""

    @override
    def stability_bound(self, model: ClusterModel) -> tuple[float, str]:
        """The server with the most work for its speed decides, unless servers move waiting tasks to others."""
        if model.balance is not None:
            return super().stability_bound(model)
        # A pool with buffers can't overflow; its fraction does not limit the others.
        limits = [
            (model.load / (model.rate * model.tasks.mean * fraction * pool.taken(model.mean_delay)), pool.name)
            for pool, fraction, _ in self.fractions(model)
            if pool.buffer is None
        ]
        if not limits:
            return math.inf, "only servers with finite buffers get jobs"
        bound, name = min(limits)
        return bound, f"the fixed fraction of jobs that a server of pool {name} gets takes all its time"

    def arrival_dispersion(self, fraction: float, dispersion: float) -> float:
        """Return the variance over mean of the arrivals at a server with that fraction of the jobs, in a long time.

        ``dispersion`` is that of the whole cluster. By default jobs are chosen at random.
        """
        return 1 + fraction * (dispersion - 1)


NO_THEORY = PolicyTheory()


def theory_of_policy(policy: type[PolicyLike]) -> PolicyTheory:
    """Return what theory knows of a policy, NO_THEORY where the policy itself names none.

    A subclass does not inherit the record: it may place jobs in another way. Raises TypeError for what is no record.
    """
    name = vars(policy).get("theory", "")
    if not name:
        return NO_THEORY
    found = resolve_name(name)
    if not isinstance(found, PolicyTheory):
        raise TypeError(f"the theory of {policy.name!r}, {name}, is not a testbed.theory.policy_theory.PolicyTheory")
    return found
