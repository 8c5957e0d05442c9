"""A case of the studies of latencies: one threshold for both pools, at a rate of arrivals or an effective load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from testbed.scenario import Scenario
from testbed.studies.reproduce.rerouting_replication.standard_example import (
    IDENTICAL,
    INDEPENDENT,
    POLICIES,
    example,
    knowledge,
    scenario,
)
from testbed.theory.rerouting_replication import Approximation, mean_latency, service_requirement, signal_matrix

R_SLOW = 0.4
SIZES_OF: Mapping[str, str] = {"identical": IDENTICAL, "i.i.d.": INDEPENDENT}
#: The settings that the studies of latencies begin with.
COLUMNS: Mapping[str, str] = {
    "servers": "servers of each of the two pools",
    "replicas": "whether a job has one size (identical) or independent ones (i.i.d.) in the two pools; exponential",
    "policy": "Rer: rerouting, Rep: replication; with an infinite threshold no redundancy",
    "q": "probability that the dispatcher gets the right type, else the wrong one; 1/2: types are unknown",
}
LOAD_MEANING = "effective load: the fraction of time in which servers are busy"
TAU_MEANING = "threshold of both pools, in time units (the mean size) of received processing"


@dataclass(frozen=True)
class Case:
    """``servers`` in each pool; ``q``: probability that the dispatcher gets the right type; ``rate``: per server."""

    servers: int
    replicas: str
    policy: str
    q: float
    rate: float
    tau: float

    @classmethod
    def with_load(cls, servers: int, replicas: str, policy: str, q: float, load: float, tau: float) -> Case:
        """Return the case at the rate that gives this effective load."""
        return cls(servers, replicas, policy, q, load / cls(servers, replicas, policy, q, 1.0, tau).load, tau)

    @cached_property
    def load(self) -> float:
        """The effective load, of both pools alike."""
        model = example(SIZES_OF[self.replicas], R_SLOW, self.servers)
        used = service_requirement(model, POLICIES[self.policy], self._assignment, (self.tau, self.tau))
        return float(2 * self.rate * used.max())

    def latency(self, *, stretched: bool = False) -> float:
        """Return the approximate mean latency, of single servers also with stretched service."""
        several: Approximation = "pollaczek-khinchine" if self.servers == 1 else "several-servers"
        return mean_latency(
            example(SIZES_OF[self.replicas], R_SLOW, self.servers),
            POLICIES[self.policy],
            self._assignment,
            (self.tau, self.tau),
            rate=2 * self.servers * self.rate,
            approximation="stretched" if stretched else several,
        ).overall

    @property
    def can_be_stretched(self) -> bool:
        """Whether the correction is made for this case."""
        return self.policy == "Rep" and self.servers == 1

    def scenario(self, jobs: float, replications: int) -> Scenario:
        """Return the scenario with runs of about ``jobs`` jobs in total."""
        duration = jobs / replications / (2 * self.servers * self.rate)
        return scenario(
            self.policy,
            SIZES_OF[self.replicas],
            R_SLOW,
            (self.tau, self.tau),
            self._assignment,
            load=self.rate,
            servers=self.servers,
            q=self.q,
            warmup=min(20 / (1 - self.load) ** 2, duration / 4),
            duration=duration,
            replications=replications,
        )

    @property
    def _assignment(self) -> npt.NDArray[np.float64]:
        """alpha_ij if a job goes to the pool that is fast by its signal; half to each pool without signals."""
        signals = signal_matrix(knowledge("noisy", self.q), types=2)
        return signals.T if signals.shape[1] == 2 else np.full((2, 2), 0.5)
