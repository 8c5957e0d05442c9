"""Theory of policies that place copies of a job on several servers: redundancy-d, tied requests, hedges."""

from __future__ import annotations

import math

from testbed.theory.cluster_model import ClusterModel
from testbed.theory.prediction import Formula, NoTheoryError
from testbed.theory.queue_oblivious_policies import random_routing
from testbed.theory.redundancy import redundancy_on_completion, redundancy_on_start
from testbed.theory.service import is_exponential
from testbed.workload.distributions import Exponential

#: The policies of this module.
COPYING = ("hedge", "redundancy-d", "tied")


def copies_on_start(model: ClusterModel) -> int | None:
    """Return how many copies wait for the first of them to start; None if copies are served at the same time."""
    if model.policy == "tied":
        return min(2, model.servers)
    if model.policy == "redundancy-d" and model.parameters.cancel == "on-start":
        return min(int(model.parameters.d), model.servers)
    return None


def copies_on_completion(model: ClusterModel) -> int | None:
    """Return how many copies are served until the first of them is done; None if that is not fixed beforehand."""
    if model.policy == "redundancy-d" and model.parameters.cancel == "on-completion":
        return min(int(model.parameters.d), model.servers)
    if model.policy == "hedge":
        delay = float(model.parameters.delay)
        if delay == math.inf or model.servers == 1:
            return 1
        return 2 if delay == 0 else None
    return None


def copies_cost_nothing(model: ClusterModel) -> bool:
    """Return whether a job's copies together take as much service as one would, on identical servers.

    So it is if only one is served; and if the time that is left of a service doesn't depend on how long it has lasted,
    for one server or for several that serve independent copies. Messages must take no time.
    """
    if model.mean_delay > 0 or not model.identical_servers:
        return False
    alone = copies_on_start(model) is not None or copies_on_completion(model) == 1
    return alone or (is_exponential(model.pools[0].service) and model.dependence in ("independent", 0.0))


def fills_servers(model: ClusterModel) -> bool:
    """Return whether the policy places copies, and is known to keep identical servers stable up to full use."""
    fixed = copies_on_start(model) is not None or copies_on_completion(model) is not None
    return fixed and copies_cost_nothing(model)


def copies_may_save(model: ClusterModel) -> bool:
    """Return whether a job's copies together may take less service than one would: all the policy's copies count.

    The one that is done first had the smallest of independent sizes. Only if these are exponential what it saved is
    what the others have received until then.
    """
    fixed = copies_on_completion(model)
    served_together = fixed != 1 and (copies_on_start(model) is None or model.mean_delay > 0)
    several = model.policy in COPYING and model.servers > 1 and served_together
    return several and model.dependence not in ("identical", 1.0) and not isinstance(model.size, Exponential)


def copies_everywhere(model: ClusterModel) -> bool:
    """Return whether every server gets an identical copy of every job at once: all serve the same job at any time."""
    alike = model.dependence in ("identical", 1.0) and model.identical_servers and model.mean_delay == 0
    return alike and copies_on_completion(model) == model.servers


def copying(model: ClusterModel) -> Formula:
    """Return redundancy-d: exact for independent exponential copies until completion, a limit for cancel on start.

    A hedge after no time at all is redundancy-2, and one that never comes is random routing; tied requests are
    redundancy-2 with cancel on start. Raises NoTheoryError for all else.
    """
    until_start, until_done = copies_on_start(model), copies_on_completion(model)
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
