"""The service time at a server: a size divided by the server's speed, over the job types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import block_diag

from testbed.theory.steady_state import Floats


class ServiceTime(Protocol):
    """What the formulas ask of a size or service-time distribution; testbed.workload.distributions fit."""

    @property
    def mean(self) -> float:
        """The mean, in time units."""

    @property
    def second_moment(self) -> float:
        """The second moment, in squared time units; may be infinite."""

    def phase_type(self) -> tuple[Floats, Floats] | None:
        """Return (alpha, S), or None for a distribution that is not phase-type."""


@dataclass(frozen=True)
class ServiceMixture:
    """A service time that is ``size / speed`` with the job type's speed; ``types`` holds (probability, speed).

    A type that can't be served has speed 0, and makes the moments infinite unless no jobs are of it.
    """

    size: ServiceTime
    types: tuple[tuple[float, float], ...]

    @property
    def mean(self) -> float:
        """The mean, in time units."""
        return self.size.mean * self.slowness

    @property
    def slowness(self) -> float:
        """Mean service time over mean size: sum over the types of probability / speed."""
        return sum(p / speed if speed else math.inf for p, speed in self.types if p)

    @property
    def second_moment(self) -> float:
        """The second moment, in squared time units; may be infinite."""
        return self.size.second_moment * sum(p / speed**2 if speed else math.inf for p, speed in self.types if p)

    def phase_type(self) -> tuple[Floats, Floats] | None:
        """Return (alpha, S): each type's phases side by side, or None for a size that is not phase-type."""
        phases = self.size.phase_type()
        if phases is None:
            return None
        alpha, S = phases
        speeds = _merged(self.types)
        return np.concatenate([p * alpha for p, _ in speeds]), np.asarray(block_diag(*[v * S for _, v in speeds]))


def is_exponential(service: ServiceTime) -> bool:
    """Return whether the service time is exponential: phase-type with a single phase."""
    phases = service.phase_type()
    return phases is not None and len(phases[0]) == 1


def _merged(types: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the types with those of equal speed made one: fewer phases, and one phase stays one phase."""
    fractions: dict[float, float] = {}
    for probability, speed in types:
        if probability > 0:
            fractions[speed] = fractions.get(speed, 0.0) + probability
    return [(probability, speed) for speed, probability in fractions.items()]
