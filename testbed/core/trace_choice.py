"""Which jobs are traced: a fraction of them, by their numbers alone, so that all processes and the twin agree."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: 2**32 over the golden ratio: its multiples modulo 2**32 spread evenly over the range (Knuth's multiplicative hash),
#: and so do the chosen jobs.
_MULTIPLIER = 2654435761
_RANGE = 1 << 32


def is_traced(job: int, fraction: float) -> bool:
    """Return whether a job is among the traced ``fraction`` of jobs."""
    return job * _MULTIPLIER % _RANGE < fraction * _RANGE


def are_traced(jobs: npt.NDArray[np.int64], fraction: float) -> npt.NDArray[np.bool_]:
    """Return the same for many jobs, shape (jobs,)."""
    hashed = jobs.astype(np.uint64) * np.uint64(_MULTIPLIER) % np.uint64(_RANGE)
    traced: npt.NDArray[np.bool_] = hashed < fraction * _RANGE
    return traced
