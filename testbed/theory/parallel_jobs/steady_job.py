"""What the mean field says of jobs of several tasks: the form in which every policy's limit is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from testbed.theory.parallel_jobs.job_maximum import ArrayTail, inherent_delay, mean_of_tail
from testbed.theory.steady_state import Floats, SteadyState


@dataclass(frozen=True)
class MeanField:
    """A cluster in the limit of many servers, with jobs of ``tasks`` tasks and exponential sizes of mean 1.

    Times are in mean task sizes. Response times and delays are those of accepted jobs.
    ``probe_overhead`` is what the policy realises, in probes per task (idle reports for JIQ, infinite for JSQ).
    ``queue_length_tail[i]`` is S_i, the fraction of servers with at least i tasks, from S_0 = 1 to where it becomes
    negligible; None for late binding, where tasks are bound to servers only when they start.
    ``drop_probability`` is the fraction of jobs that are dropped, whole.
    """

    policy: str
    load: float
    tasks: int
    probe_overhead: float
    queue_length_tail: Floats | None
    mean_task_response_time: float
    response_time_tail: ArrayTail
    drop_probability: float = 0.0

    @property
    def inherent_delay(self) -> float:
        """E[T*] = H_k."""
        return inherent_delay(self.tasks)

    @cached_property
    def mean_job_response_time(self) -> float:
        """E[T], by quadrature of the response time's tail; computed when first asked for."""
        return mean_of_tail(self.response_time_tail)

    @property
    def relative_queueing_delay(self) -> float:
        """E[T - T*] / E[T*]."""
        return self.mean_job_response_time / self.inherent_delay - 1

    @overload
    def response_time_cdf(self, t: float) -> float: ...
    @overload
    def response_time_cdf(self, t: Floats) -> Floats: ...
    def response_time_cdf(self, t: float | Floats) -> float | Floats:
        """Return P(T <= t): a float for a float, an array of the same shape for an array."""
        times = np.asarray(t, dtype=np.float64)
        late = self.response_time_tail(np.maximum(times.ravel(), 0.0)).reshape(times.shape)
        cdf = np.where(times < 0, 0.0, 1.0 - late)
        return float(cdf) if times.ndim == 0 else cdf

    def quantile(self, probability: float) -> float:
        """Return the response time that a fraction ``probability`` of the accepted jobs stays within.

        Raises ValueError for a probability outside (0, 1 - 1e-9].
        """
        return self.steady_state().quantile(probability)

    def steady_state(self) -> SteadyState:
        """Return the same as a SteadyState, as the formulas for single tasks give it."""
        tail = self.response_time_tail
        return SteadyState(
            self.mean_job_response_time,
            self.queue_length_tail,
            lambda t: float(tail(np.array([max(t, 0.0)]))[0]),
            self.drop_probability,
        )
