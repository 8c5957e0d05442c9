"""Parallel jobs: probe overhead, batch-filling and zero queueing delay (Weng and Wang 2021).

A job of k tasks arrives, a policy places its tasks on servers, and the job is done with its last task. ``mean_field``
gives every policy's limit of many servers; ``many_tasks_limit`` that of many tasks per job after it; ``regime`` says
where a finite system lies among the paper's asymptotic conditions; ``probe_overhead_needed`` how many probes the mean
field wants. The rest is what they are made of: the maximum over a job's tasks, and the space on the probed servers.
Sizes are exponential with mean 1 and times are in mean sizes, unless a function says otherwise.
"""

from testbed.theory.parallel_jobs.conditions import Quantity, Regime, regime
from testbed.theory.parallel_jobs.job_maximum import (
    inherent_delay,
    response_time_at,
    response_time_bound,
    response_time_closed_bound,
)
from testbed.theory.parallel_jobs.many_tasks import (
    largest_queue_length,
    many_tasks_limit,
    probe_overhead_for_positions,
)
from testbed.theory.parallel_jobs.policies import POLICIES, mean_field, probe_overhead_needed
from testbed.theory.parallel_jobs.probed_space import (
    fill_failure_bound,
    fill_failure_probability,
    fill_failure_probability_finite,
    mean_space,
    number_of_probes,
)
from testbed.theory.parallel_jobs.steady_job import MeanField

__all__ = [
    "POLICIES",
    "MeanField",
    "Quantity",
    "Regime",
    "fill_failure_bound",
    "fill_failure_probability",
    "fill_failure_probability_finite",
    "inherent_delay",
    "largest_queue_length",
    "many_tasks_limit",
    "mean_field",
    "mean_space",
    "number_of_probes",
    "probe_overhead_for_positions",
    "probe_overhead_needed",
    "regime",
    "response_time_at",
    "response_time_bound",
    "response_time_closed_bound",
]
