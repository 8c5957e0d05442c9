"""Theory of jobs of several tasks in a scenario: the mean field of testbed.theory.parallel_jobs."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from testbed.theory.cluster_model import ClusterModel
from testbed.theory.parallel_jobs import MeanField, mean_field, number_of_probes
from testbed.theory.policy_theory import PolicyTheory, QueueOblivious
from testbed.theory.prediction import Formula, NoTheoryError
from testbed.theory.service import is_exponential


class JobsOfTasks(PolicyTheory):
    """A policy whose jobs of a fixed number of tasks have a mean field."""

    #: What testbed.theory.parallel_jobs.mean_field calls it, and where it comes from.
    mean_field: ClassVar[str]
    mean_field_source: ClassVar[str]
    #: Whether the mean field holds for several dispatchers.
    several_dispatchers: ClassVar[bool] = True
    #: Whether no job waits in the limit.
    no_waiting: ClassVar[bool] = False

    @override
    def formula_for_tasks(self, model: ClusterModel) -> Formula:
        """Return the mean field of the policy for jobs of a fixed number of tasks, of many servers.

        Raises NoTheoryError where the limit is not derived: another arrival process than Poisson, sizes that are not
        exponential, servers that differ, a random number of tasks, or what the policy's own limit leaves out.
        """
        tasks = model.tasks.most
        load = self.covered_load(model)
        name, source = self.mean_field_of(model)
        buffer = model.pools[0].buffer
        try:
            field = mean_field(name, load, tasks, self.probe_overhead(model), buffer)
        except (ValueError, ArithmeticError) as error:
            raise NoTheoryError(f"{model.policy} with jobs of {tasks} tasks: {error}") from None
        mean = model.pools[0].service.mean
        reserves = tasks > 1 and buffer is not None
        return Formula(
            f"{model.policy}, jobs of {tasks} task{'s' if tasks > 1 else ''}, N → ∞",
            source,
            "limit",
            field.steady_state().scaled(mean),
            (*self._notes(model, field, mean), *self.notes_on_limit(model, field)),
            probing=self.probing(model) + reserves,
            queue_oblivious=isinstance(self, QueueOblivious) and not reserves,
            lower_bound=field.inherent_delay * mean,
        )

    def mean_field_of(self, model: ClusterModel) -> tuple[str, str]:
        """Return the name and the source of the mean field for a scenario."""
        return self.mean_field, self.mean_field_source

    def probe_overhead(self, model: ClusterModel) -> float | None:
        """Return the probes per task as the mean field counts them, at most one for each server; None: no probes."""
        return None

    def probing(self, model: ClusterModel) -> float:
        """Return the fraction of jobs that wait for two messages before they are placed."""
        return 0.0

    def covered_load(self, model: ClusterModel) -> float:
        """Return the load as a fraction of what the servers can do, or raise NoTheoryError."""
        if model.tasks.scv > 0:
            raise NoTheoryError("jobs have a formula for a fixed number of tasks only")
        if not model.poisson:
            raise NoTheoryError("jobs of several tasks have a formula for Poisson arrivals only")
        if not model.identical_servers or len(set(getattr(model.parameters, "weights", None) or ())) > 1:
            raise NoTheoryError(
                "jobs of several tasks have a formula for servers of the same speed, buffer and fraction of jobs only"
            )
        service = model.pools[0].service
        if not is_exponential(service) or len({speed for _, speed in service.types}) > 1:
            raise NoTheoryError("jobs of several tasks have a formula for exponential service times only")
        if model.servers == 1:
            raise NoTheoryError("jobs of several tasks have a formula for many servers only")
        if model.dispatchers > 1 and not self.several_dispatchers:
            raise NoTheoryError(f"{model.policy} with jobs of several tasks has a formula for one dispatcher only")
        timeout = getattr(model.parameters, "timeout", None)
        if timeout is not None and timeout <= 2 * model.mean_delay:
            raise NoTheoryError(f"no formula for a timeout of {timeout:g} that ends before the probes' replies come")
        return model.rate * model.tasks.most * service.mean / model.servers

    def _notes(self, model: ClusterModel, field: MeanField, mean: float) -> list[str]:
        tasks = field.tasks
        notes = [
            f"a job's inherent delay T*, the largest of its {tasks} size{'s' if tasks > 1 else ''}, has mean "
            f"{field.inherent_delay * mean:.4g}; the relative queueing delay E[T - T*] / E[T*] is "
            f"{max(field.relative_queueing_delay, 0.0):.4g}"
        ]
        if field.probe_overhead not in (0.0, float("inf")) and not self.no_waiting:
            # A sample of one server is not asked, so that the probes are fewer where d is small.
            notes.append(f"the policy samples {field.probe_overhead:.4g} servers per task")
        if field.drop_probability > 0:
            notes.append(f"of accepted jobs; a fraction {field.drop_probability:.4g} of the jobs is dropped, whole")
        return notes

    def notes_on_limit(self, model: ClusterModel, field: MeanField) -> list[str]:
        """Return how far a finite cluster is from the limit."""
        servers, tasks = model.servers, field.tasks
        if self.no_waiting or field.probe_overhead * tasks >= servers:
            spare = servers * (1 - field.load) ** 2 / tasks
            return [
                "a finite cluster lies above the limit, and far above it while N (1 - load)^2 / k is below about 2; "
                f"here it is {spare:.3g}"
            ]
        return [
            f"a finite cluster lies above the limit, the more the larger k, d and the load; here N = {servers}. With "
            "k = 10 and load 0.9 it is 2 to 7 % at N = 100 and below 1 % at N = 1000"
        ]


class SamplesForEachTask(JobsOfTasks):
    """Policies that sample d servers for each task by itself."""

    @override
    def probe_overhead(self, model: ClusterModel) -> float:
        return min(float(model.parameters.d), float(model.servers))

    @override
    def probing(self, model: ClusterModel) -> float:
        """A job waits unless each of its tasks samples one server."""
        return 1.0 - max(2.0 - self.probe_overhead(model), 0.0) ** model.tasks.most


class SamplesForTheJob(JobsOfTasks):
    """Policies that sample k d servers for a job of k tasks."""

    @override
    def probe_overhead(self, model: ClusterModel) -> float:
        tasks = model.tasks.most
        return number_of_probes(tasks, model.parameters.d, model.servers) / tasks

    @override
    def probing(self, model: ClusterModel) -> float:
        return 1.0 if self.probe_overhead(model) * model.tasks.most > self.placed_unasked(model) + 1e-9 else 0.0

    def placed_unasked(self, model: ClusterModel) -> int:
        """Return the size of a sample whose servers are not asked, since the choice is clear."""
        return 1
