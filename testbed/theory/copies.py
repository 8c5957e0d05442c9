"""Theory of policies that place copies of a job on several servers: redundancy-d, tied requests, hedges."""

from __future__ import annotations

import math

from typing_extensions import override

from testbed.theory.cluster_model import ClusterModel
from testbed.theory.policy_theory import PolicyTheory
from testbed.theory.prediction import Formula, NoTheoryError
from testbed.theory.queue_oblivious_policies import random_routing
from testbed.theory.redundancy import redundancy_on_completion, redundancy_on_start
from testbed.theory.service import is_exponential
from testbed.workload.distributions import Exponential


class CopyTheory(PolicyTheory):
    """A policy that places copies of a job; override one of the first two methods."""

    def copies_on_start(self, model: ClusterModel) -> int | None:
        """Return how many copies wait for the first of them to start; None if copies are served at the same time."""
        return None

    def copies_on_completion(self, model: ClusterModel) -> int | None:
        """Return how many copies are served until the first of them is done; None if that is not fixed beforehand."""
        return None

    @override
    def formula(self, model: ClusterModel) -> Formula:
        return _copying(model, self.copies_on_start(model), self.copies_on_completion(model))

    @override
    def stability_bound(self, model: ClusterModel) -> tuple[float, str]:
        """None is known where copies may save service. Copies that are served in vain are not counted."""
        if self._copies_may_save(model):
            return math.inf, "at most: none is known for copies with independent sizes of this distribution"
        return super().stability_bound(model)

    @override
    def stability_bound_of_identical_servers(self, model: ClusterModel) -> tuple[float, str]:
        if self._copies_everywhere(model):
            return 1 / (model.pools[0].slowness * model.servers), "all servers serve copies of the same job"
        bound, reason = super().stability_bound_of_identical_servers(model)
        fixed = self.copies_on_start(model) is not None or self.copies_on_completion(model) is not None
        return bound, reason.removeprefix("at most: ") if fixed and self.copies_cost_nothing(model) else reason

    @override
    def copies_cost_nothing(self, model: ClusterModel) -> bool:
        """So it is if only one copy is served; and if the time left of a service doesn't depend on how long it lasted.

        That is for one server or for several that serve independent copies. Messages must take no time.
        """
        if model.mean_delay > 0 or not model.identical_servers:
            return False
        alone = self.copies_on_start(model) is not None or self.copies_on_completion(model) == 1
        return alone or (is_exponential(model.pools[0].service) and model.dependence in ("independent", 0.0))

    def _copies_may_save(self, model: ClusterModel) -> bool:
        """Return whether a job's copies together may take less service than one would: all the policy's copies count.

        The one that is done first had the smallest of independent sizes. Only if these are exponential what it saved is
        what the others have received until then.
        """
        fixed = self.copies_on_completion(model)
        served_together = fixed != 1 and (self.copies_on_start(model) is None or model.mean_delay > 0)
        several = model.servers > 1 and served_together
        return several and model.dependence not in ("identical", 1.0) and not isinstance(model.size, Exponential)

    def _copies_everywhere(self, model: ClusterModel) -> bool:
        """Return whether every server gets an identical copy of every job at once: all serve the same job always."""
        alike = model.dependence in ("identical", 1.0) and model.identical_servers and model.mean_delay == 0
        return alike and self.copies_on_completion(model) == model.servers


class RedundancyD(CopyTheory):
    """Redundancy-d, which cancels the other copies when the first starts, or when it is done."""

    @override
    def copies_on_start(self, model: ClusterModel) -> int | None:
        return min(int(model.parameters.d), model.servers) if model.parameters.cancel == "on-start" else None

    @override
    def copies_on_completion(self, model: ClusterModel) -> int | None:
        return min(int(model.parameters.d), model.servers) if model.parameters.cancel == "on-completion" else None


class Tied(CopyTheory):
    """Tied requests: redundancy-2 with cancel on start."""

    @override
    def copies_on_start(self, model: ClusterModel) -> int | None:
        return min(2, model.servers)


class Hedge(CopyTheory):
    """Hedged requests: redundancy-2 without a delay, random routing with one that never ends."""

    @override
    def copies_on_completion(self, model: ClusterModel) -> int | None:
        delay = float(model.parameters.delay)
        if delay == math.inf or model.servers == 1:
            return 1
        return 2 if delay == 0 else None


REDUNDANCY_D = RedundancyD()
TIED = Tied()
HEDGE = Hedge()


def _copying(model: ClusterModel, until_start: int | None, until_done: int | None) -> Formula:
    """Return redundancy-d: exact for independent exponential copies until completion, a limit for cancel on start.

    ``until_start`` copies wait for the first to start, or ``until_done`` are served until the first is done. Raises
    NoTheoryError for all else.
    """
    if 1 in (until_start, until_done):
        return random_routing(model)
    if until_start is None and until_done is None:
        raise NoTheoryError("hedges have a formula for a delay of 0 or inf only: between, copies depend on the queues")
    if not model.poisson:
        raise NoTheoryError(f"{model.policy} has a formula for Poisson arrivals only")
    if not model.identical_servers:
        raise NoTheoryError(f"{model.policy} has a formula for servers of the same speed only")
    service = model.pools[0].service
    if not is_exponential(service):
        raise NoTheoryError(f"{model.policy} has a formula for exponential service times only")
    if model.mean_delay > 0:
        raise NoTheoryError("copies have no formula with message delay: some are served that are cancelled already")
    load = model.rate * service.mean / model.servers
    if until_start is not None:
        state = redundancy_on_start(load, until_start).scaled(service.mean)
        note = (
            "messages that take no time make this the least work among the sampled servers; a finite cluster lies "
            f"above the limit; here N = {model.servers}"
        )
        source = "Hellemans and Van Houdt 2018 (least loaded server selection)"
        return Formula(f"the first of {until_start} copies to start, N → ∞", source, "limit", state, (note,))
    if model.dependence not in ("independent", 0.0):
        raise NoTheoryError(
            "copies that run until the first is done have a formula for independent sizes only "
            '(workload.dependence = "independent")'
        )
    assert until_done is not None
    state = redundancy_on_completion(model.servers, load, until_done).scaled(service.mean)
    source = "Gardner, Harchol-Balter, Scheller-Wolf, Velednitsky and Zbarsky 2017, Theorem 1"
    note = "every time unit of service is as likely to be the last, on one server or on several: copies cost nothing"
    return Formula(f"redundancy-{until_done}", source, "exact", state, (note,))
