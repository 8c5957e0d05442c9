"""Theory of the policies that probe for all tasks of a job: of one task they are the power of d choices."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from typing_extensions import override

from testbed.theory.cluster_model import ClusterModel
from testbed.theory.jobs_of_tasks import JobsOfTasks, SamplesForEachTask, SamplesForTheJob
from testbed.theory.parallel_jobs import MeanField, number_of_probes
from testbed.theory.prediction import Formula
from testbed.theory.queue_aware_policies import power_of_d_choices
from testbed.theory.queue_oblivious_policies import RANDOM


class _OneTask(JobsOfTasks):
    """Policies that place a single task by the power of d choices, with a d that is rounded up."""

    fills_servers = True

    @override
    def formula(self, model: ClusterModel) -> Formula:
        return _power_of_d(model, number_of_probes(1, model.parameters.d, model.servers), model.parameters.timeout)


class BatchFilling(_OneTask, SamplesForTheJob):
    """Batch-filling, by water filling of the sampled queues."""

    mean_field = "batch-filling"
    mean_field_source = "Ying, Srikant and Kang 2017; Weng and Wang 2021"


class BatchSampling(_OneTask, SamplesForTheJob):
    """Batch-sampling: one task for each of the shortest sampled queues."""

    mean_field = "batch-sampling"
    mean_field_source = "Ying, Srikant and Kang 2017"

    @override
    def mean_field_of(self, model: ClusterModel) -> tuple[str, str]:
        if number_of_probes(model.tasks.most, model.parameters.d, model.servers) == model.tasks.most:
            return RANDOM.mean_field_of(model)  # every sampled server gets a task, and none is asked
        return super().mean_field_of(model)

    @override
    def placed_unasked(self, model: ClusterModel) -> int:
        return model.tasks.most


class PerTaskPowerOfD(_OneTask, SamplesForEachTask):
    """Power of d for each task."""

    mean_field = "per-task-power-of-d"
    mean_field_source = "Mitzenmacher 2001; Ying, Srikant and Kang 2017"

    @override
    def formula(self, model: ClusterModel) -> Formula:
        return _power_of_d(model, model.parameters.d, model.parameters.timeout)


class PerTaskPowerOfKD(_OneTask, SamplesForTheJob):
    """Power of k d for each task."""

    mean_field = "per-task-power-of-kd"
    mean_field_source = "Mitzenmacher 2001; Ying, Srikant and Kang 2017"


class LateBinding(SamplesForTheJob):
    """Late binding: reservations at the sampled servers."""

    fills_servers = True
    mean_field = "late-binding"
    mean_field_source = "Ousterhout, Wendell, Zaharia and Stoica 2013 (the policy)"

    @override
    def formula(self, model: ClusterModel) -> Formula:
        if model.servers > 1:
            return self.formula_for_tasks(model)
        formula = _power_of_d(model, number_of_probes(1, model.parameters.d, model.servers), None)
        return replace(formula, probing=1.0, queue_oblivious=False)

    @override
    def stability_bound_of_identical_servers(self, model: ClusterModel) -> tuple[float, str]:
        if model.mean_delay == 0:
            return super().stability_bound_of_identical_servers(model)
        size = model.size.mean
        bound = size / (size * model.pools[0].slowness + 2 * model.mean_delay)
        return bound, "each task takes its server two message delays beside its service"

    @override
    def probing(self, model: ClusterModel) -> float:
        return 1.0

    @override
    def notes_on_limit(self, model: ClusterModel, field: MeanField) -> list[str]:
        notes = super().notes_on_limit(model, field)
        if model.mean_delay > 0:
            notes.append(
                "a server waits two message delays for each task, so that its load is higher than the formula's"
            )
        return notes


def _power_of_d(model: ClusterModel, d: float, timeout: float | None) -> Formula:
    return power_of_d_choices(replace(model, parameters=SimpleNamespace(d=d, replacement=False, timeout=timeout)))


BATCH_FILLING = BatchFilling()
BATCH_SAMPLING = BatchSampling()
PER_TASK_POWER_OF_D = PerTaskPowerOfD()
PER_TASK_POWER_OF_KD = PerTaskPowerOfKD()
LATE_BINDING = LateBinding()
