"""Theory of jobs of several tasks in a scenario: the mean field of testbed.theory.parallel_jobs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from testbed.theory.cluster_model import ClusterModel
from testbed.theory.parallel_jobs import MeanField, mean_field, number_of_probes
from testbed.theory.prediction import Formula, NoTheoryError
from testbed.theory.queue_aware_policies import power_of_d_choices
from testbed.theory.service import is_exponential

#: What the mean field calls a scenario's policy, and where it comes from.
_NAMES = {
    "random": ("random", "M/M/1; Wang et al. 2019"),
    "round-robin": ("round-robin", "D/M/1"),
    "jsq": ("jsq", "Liu and Ying 2020"),
    "least-outstanding": ("jsq", "Liu and Ying 2020"),
    "jiq": ("jiq", "Lu, Xie, Kliot, Geller, Larus and Greenberg 2011"),
    "power-of-d": ("per-task-power-of-d", "Mitzenmacher 2001; Vvedenskaya, Dobrushin and Karpelevich 1996"),
    "per-task-power-of-d": ("per-task-power-of-d", "Mitzenmacher 2001; Ying, Srikant and Kang 2017"),
    "per-task-power-of-kd": ("per-task-power-of-kd", "Mitzenmacher 2001; Ying, Srikant and Kang 2017"),
    "batch-filling": ("batch-filling", "Ying, Srikant and Kang 2017; Weng and Wang 2021"),
    "batch-sampling": ("batch-sampling", "Ying, Srikant and Kang 2017"),
    "late-binding": ("late-binding", "Ousterhout, Wendell, Zaharia and Stoica 2013 (the policy)"),
}
_BLIND = ("random", "round-robin")
_NO_WAITING = ("jsq", "least-outstanding", "jiq")


def jobs_of_tasks(model: ClusterModel) -> Formula:
    """Return the mean field of the model's policy for jobs of a fixed number of tasks.

    Raises NoTheoryError where the limit is not derived: another arrival process than Poisson, sizes that are not
    exponential, servers that differ, a random number of tasks, or what the policy's own limit leaves out.
    """
    tasks = model.tasks.most
    if tasks == 1 and (model.servers == 1 or model.policy != "late-binding"):
        return _single_tasks(model)
    load = _require_covered(model, tasks)
    name, source = _NAMES[model.policy]
    if model.policy == "batch-sampling" and number_of_probes(tasks, model.parameters.d, model.servers) == tasks:
        name, source = _NAMES["random"]  # every sampled server gets a task, and none is asked
    buffer = model.pools[0].buffer
    try:
        field = mean_field(name, load, tasks, _probe_overhead(model, tasks), buffer)
    except (ValueError, ArithmeticError) as error:
        raise NoTheoryError(f"{model.policy} with jobs of {tasks} tasks: {error}") from None
    mean = model.pools[0].service.mean
    holds = tasks > 1 and buffer is not None
    return Formula(
        f"{model.policy}, jobs of {tasks} task{'s' if tasks > 1 else ''}, N → ∞",
        source,
        "limit",
        field.steady_state().scaled(mean),
        tuple(_notes(model, field, mean)),
        probing=_probing(model, tasks) + holds,
        blind=model.policy in _BLIND and not holds,
        lower_bound=field.inherent_delay * mean,
    )


def _single_tasks(model: ClusterModel) -> Formula:
    """Return a batch policy for jobs of one task: the power of d choices, with a d that is rounded up."""
    late = model.policy == "late-binding"
    d: float = model.parameters.d
    if model.policy != "per-task-power-of-d":
        d = number_of_probes(1, d, model.servers)
    timeout = None if late else model.parameters.timeout
    power_of_d = SimpleNamespace(d=d, replacement=False, timeout=timeout)
    formula = power_of_d_choices(replace(model, parameters=power_of_d))
    return replace(formula, probing=1.0, blind=False) if late else formula


def _require_covered(model: ClusterModel, tasks: int) -> float:
    """Return the load as a fraction of what the servers can do, or raise NoTheoryError."""
    if model.policy not in _NAMES:
        raise NoTheoryError(f"{model.policy} has a theory for jobs of one task only")
    if model.tasks.scv > 0:
        raise NoTheoryError("jobs have a formula for a fixed number of tasks only")
    if not model.poisson:
        raise NoTheoryError("jobs of several tasks have a formula for Poisson arrivals only")
    if not model.identical_servers or len(set(getattr(model.parameters, "weights", None) or ())) > 1:
        raise NoTheoryError("jobs of several tasks have a formula for servers of the same speed, buffer and share only")
    service = model.pools[0].service
    if not is_exponential(service) or len({speed for _, speed in service.types}) > 1:
        raise NoTheoryError("jobs of several tasks have a formula for exponential service times only")
    if model.servers == 1:
        raise NoTheoryError("jobs of several tasks have a formula for many servers only")
    if model.dispatchers > 1 and model.policy in ("round-robin", "jiq", "least-outstanding"):
        raise NoTheoryError(f"{model.policy} with jobs of several tasks has a formula for one dispatcher only")
    if model.policy == "round-robin" and model.servers % tasks:
        raise NoTheoryError(
            f"round robin has a formula where the {tasks} tasks of a job divide {model.servers} servers"
        )
    timeout = getattr(model.parameters, "timeout", None)
    if timeout is not None and timeout <= 2 * model.mean_delay:
        raise NoTheoryError(f"no formula for a timeout of {timeout:g} that ends before the probes' replies come")
    return model.rate * tasks * service.mean / model.servers


def _probe_overhead(model: ClusterModel, tasks: int) -> float | None:
    """Return the probes per task as the mean field counts them, capped by the number of servers."""
    d = getattr(model.parameters, "d", None)
    if d is None:
        return None
    if model.policy in ("power-of-d", "per-task-power-of-d"):
        return min(float(d), float(model.servers))
    return number_of_probes(tasks, d, model.servers) / tasks


def _probing(model: ClusterModel, tasks: int) -> float:
    """Return the share of jobs that wait for two messages before they are placed."""
    if model.policy in ("random", "round-robin", "jiq", "least-outstanding"):
        return 0.0
    if model.policy in ("jsq", "late-binding"):
        return 1.0
    overhead = _probe_overhead(model, tasks)
    assert overhead is not None
    if model.policy in ("power-of-d", "per-task-power-of-d"):
        return 1.0 - max(2.0 - overhead, 0.0) ** tasks  # a job waits unless each of its tasks samples one server
    unneeded = tasks if model.policy == "batch-sampling" else 1
    return 1.0 if overhead * tasks > unneeded + 1e-9 else 0.0


def _notes(model: ClusterModel, field: MeanField, mean: float) -> list[str]:
    tasks, servers = field.tasks, model.servers
    notes = [
        f"a job's inherent delay T*, the largest of its {tasks} size{'s' if tasks > 1 else ''}, has mean "
        f"{field.inherent_delay * mean:.4g}; the relative queueing delay E[T - T*] / E[T*] is "
        f"{max(field.relative_queueing_delay, 0.0):.4g}"
    ]
    if field.probe_overhead not in (0.0, float("inf")) and model.policy not in _NO_WAITING:
        # A sample of one server is not asked, so that the probes are fewer where d is small.
        notes.append(f"the policy samples {field.probe_overhead:.4g} servers per task")
    if field.drop_probability > 0:
        notes.append(f"of accepted jobs; a share {field.drop_probability:.4g} of the jobs is dropped, whole")
    if model.policy == "random":
        notes.append(
            f"a finite cluster lies below the limit, which takes a job's tasks for independent; here N = {servers}"
            if not model.parameters.replacement and tasks > 1
            else f"the limit takes a job's tasks for independent; here N = {servers}"
        )
    elif model.policy == "round-robin":
        notes.append("the limit is D/M/1 at each server; a finite cluster has E_(N/k)/M/1, which is a little larger")
    elif model.policy in _NO_WAITING or field.probe_overhead * tasks >= servers:
        spare = servers * (1 - field.load) ** 2 / tasks
        notes.append(
            "a finite cluster lies above the limit, and far above it while N (1 - load)^2 / k is below about 2; here "
            f"it is {spare:.3g}"
        )
    else:
        notes.append(
            f"a finite cluster lies above the limit, the more the larger k, d and the load; here N = {servers}. With "
            "k = 10 and load 0.9 it is 2 to 7 % at N = 100 and below 1 % at N = 1000"
        )
    if model.policy == "power-of-d" and tasks > 1:
        notes.append("tasks of a job do not see each other, which makes no difference in the limit")
    if model.policy == "late-binding" and model.mean_delay > 0:
        notes.append("a server waits two message delays for each task, so that its load is higher than the formula's")
    return notes
