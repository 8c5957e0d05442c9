"""On which side of the conditions for zero queueing delay a finite system lies (Weng and Wang 2021).

The theorems speak of N -> infinity with load 1 - beta N^-alpha, k and d growing with N, in orders whose constants are
not known. A finite system satisfies none of them in the letter: what can be done is to evaluate each ratio that must
tend to 0 or to infinity, and each bound whose constants are known, and to say which are anywhere near.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from testbed.theory.argument_checks import require_count, require_load
from testbed.theory.parallel_jobs.batch_filling import batch_filling
from testbed.theory.parallel_jobs.job_maximum import inherent_delay, response_time_bound
from testbed.theory.parallel_jobs.many_tasks import largest_queue_length, probe_overhead_for_positions
from testbed.theory.parallel_jobs.probed_space import (
    fill_failure_bound,
    fill_failure_probability,
    fill_failure_probability_finite,
    mean_space,
    number_of_probes,
)
from testbed.theory.steady_state import Floats

Side = Literal["achievability", "impossibility", "neither"]

#: What "much less than 1" is taken to mean for a finite system; "much more than 1" is its inverse. A convention.
MUCH_LESS = 0.1
#: With more tasks the mean field of the finite k is not computed.
MOST_TASKS = 500
#: With more servers, probing without replacement is not told apart from independent queues.
MOST_SERVERS = 1_000_000

UNKNOWN_CONSTANTS = (
    "C in E[(S_1 + ... + S_b - h (1 - ε/2))^+] <= C / (√N ln N) (theorem 3.1), and with it the probability of bad "
    "states and the resulting bound on E[T]",
    "the constant in d = ω(1/(ε ln k)) (theorem 3.2)",
    "the constants in d = exp(o(ln N / ln k)) and k = exp(o(√ln N)) (theorems 3.3 and 3.4)",
)


@dataclass(frozen=True)
class Quantity:
    """One quantity of the conditions: its value, what is wanted of it, and whether it is so.

    ``satisfied`` is None where nothing is wanted: the value stands for itself.
    """

    quantity: str
    value: float
    wanted: str
    satisfied: bool | None
    explanation: str


@dataclass(frozen=True)
class Regime:
    """A finite system's place among the asymptotic conditions; printing it gives a readable account.

    ``side`` is "achievability" or "impossibility" if all ratios of that side's theorems are what they should be (much
    less meaning at most MUCH_LESS), else "neither": then the theorems say nothing about the system.
    """

    servers: int
    tasks: int
    load: float
    probe_overhead: float
    side: Side
    reason: str
    quantities: tuple[Quantity, ...]
    unknown_constants: tuple[str, ...] = UNKNOWN_CONSTANTS

    def value(self, quantity: str) -> float:
        """Return the value of the quantity of that name. Raises KeyError for an unknown one."""
        return next(self._named(quantity)).value

    def satisfied(self, quantity: str) -> bool | None:
        """Return whether the quantity of that name is as wanted. Raises KeyError for an unknown one."""
        return next(self._named(quantity)).satisfied

    def _named(self, quantity: str) -> Iterator[Quantity]:
        found = [q for q in self.quantities if q.quantity == quantity]
        if not found:
            raise KeyError(f"no quantity {quantity!r}; one of {', '.join(q.quantity for q in self.quantities)}")
        return iter(found)

    def __str__(self) -> str:
        lines = [
            f"N = {self.servers} servers, k = {self.tasks} tasks, load {self.load:g}, "
            f"{self.probe_overhead:g} probes per task: {self.side}",
            self.reason,
            "",
        ]
        width = max(len(q.quantity) for q in self.quantities)
        wanted = max(len(q.wanted) for q in self.quantities)
        marks = {True: "yes", False: "no", None: ""}
        for q in self.quantities:
            lines.append(
                f"{q.quantity:{width}}  {q.value:<10.4g}  {q.wanted:{wanted}}  {marks[q.satisfied]:3}  {q.explanation}"
            )
        lines += ["", "Constants that the theorems leave unknown:"]
        lines += [f"- {constant}" for constant in self.unknown_constants]
        return "\n".join(lines)


def regime(servers: int, tasks: int, load: float, probe_overhead: float) -> Regime:
    """Return where ``servers`` N, ``tasks`` k, ``load`` 1 - ε and ``probe_overhead`` d lie among the conditions.

    The policy is batch-filling with m = min(N, ceil(k d)) probes, sizes are exponential with mean 1. The threshold is
    h = ceil(8 / (ε d)). For k up to MOST_TASKS the bounds are also evaluated in the mean field's state, and
    for N up to MOST_SERVERS in a state of N servers like it.
    Raises ValueError for fewer than 2 servers or 2 tasks (single tasks: see power_of_d) and other bad values.
    """
    require_count("servers", servers)
    require_count("tasks", tasks)
    require_load(load)
    if servers < 2 or tasks < 2:
        raise ValueError("the conditions are for parallel jobs: give at least 2 servers and 2 tasks")
    probes = number_of_probes(tasks, probe_overhead, servers)
    d = probes / tasks
    h = math.ceil(8 / ((1 - load) * d) - 1e-9)
    achievable = _achievability(servers, tasks, load, d, h)
    impossible = _impossibility(servers, tasks, load, d)
    side, reason = _side(achievable, impossible)
    rest = _mean_field_of_many_tasks(load, d, h)
    if tasks <= MOST_TASKS:
        S = batch_filling(load, tasks, probes, None)
        assert S.queue_length_tail is not None
        delay = _value(
            "mean field: E[T - T*]/E[T*]",
            S.relative_queueing_delay,
            "relative queueing delay of the limit N → ∞ with this k, load and d, which a finite N exceeds",
        )
        rest = [*rest, delay, *_filling(servers, tasks, probes, load, h, S.queue_length_tail)]
    return Regime(servers, tasks, load, d, side, reason, (*achievable, *impossible, *rest))


def _value(quantity: str, value: float, explanation: str) -> Quantity:
    return Quantity(quantity, value, "", None, explanation)


def _much_less(quantity: str, value: float, explanation: str) -> Quantity:
    return Quantity(quantity, value, "<< 1", value <= MUCH_LESS, explanation)


def _much_more(quantity: str, value: float, explanation: str) -> Quantity:
    return Quantity(quantity, value, ">> 1", value >= 1 / MUCH_LESS, explanation)


def _achievability(N: int, k: int, load: float, d: float, h: int) -> list[Quantity]:
    """Return the ratios of theorems 3.1 and 3.2, under which batch-filling has zero queueing delay."""
    ε = 1 - load
    log_N, log_k = math.log(N), math.log(k)
    α = -math.log(ε) / log_N
    of_level = max(1, math.floor(log_k))
    return [
        Quantity("α = -ln ε / ln N", α, "in (0, 1/2)", 0 < α < 0.5, "with β = 1: spare capacity ε = N^-α"),
        _much_more("ε √N", ε * math.sqrt(N), "sub-Halfin-Whitt: spare servers outnumber the fluctuations of the load"),
        _much_less("k ln²N / (√N ε)", k * log_N**2 / (math.sqrt(N) * ε), "jobs small beside the spare capacity"),
        Quantity(
            "k / (ln k ln N)", k / (log_k * log_N), ">= 1", k >= log_k * log_N, "jobs large enough: k/ln k = Ω(ln N)"
        ),
        _value("h = ceil(8/(ε d))", h, "the threshold: least level at which theorem 3.1's condition on d holds"),
        _much_less("h / ln k", h / log_k, "the threshold must be o(ln k), so that positions up to h cost no delay"),
        Quantity(
            "8/(ε floor(ln k))",
            8 / (ε * of_level),
            f"<= d = {d:g}",
            8 / (ε * of_level) <= d,
            f"theorem 3.1's condition on d for h = {of_level}, no more than ln k: already beyond o(ln k)",
        ),
        _much_more("d ε ln k", d * ε * log_k, "theorem 3.2: d = ω(1/(ε ln k))"),
        _value(
            "1/(√N ln N)",
            1 / (math.sqrt(N) * log_N),
            "theorem 3.1's bound on E[(ΣS_i - h(1-ε/2))^+], up to its constant C; it holds only where all above does",
        ),
    ]


def _impossibility(N: int, k: int, load: float, d: float) -> list[Quantity]:
    """Return the ratios of theorems 3.3 and 3.4, under which queueing delay cannot vanish."""
    log_N, log_k = math.log(N), math.log(k)
    return [
        _much_less(
            "ln d ln k / ln N",
            max(0.0, math.log(d)) * log_k / log_N,
            "d = exp(o(ln N / ln k)): too few probes (0 for d <= 1)",
        ),
        _much_less("ln k / √ln N", log_k / math.sqrt(log_N), "k = exp(o(√ln N)): jobs small enough for the theorem"),
        Quantity(
            "λ^d", load**d, "", None, "single tasks: the probability of waiting with power of d, as N → ∞ (for compare)"
        ),
    ]


def _side(achievable: list[Quantity], impossible: list[Quantity]) -> tuple[Side, str]:
    missing = [q.quantity for q in achievable if q.satisfied is False]
    failing = [q.quantity for q in impossible if q.satisfied is False]
    if not missing:
        return "achievability", "all ratios of theorems 3.1 and 3.2 are as wanted: batch-filling's delay vanishes."
    if not failing:
        return (
            "impossibility",
            "the ratios of theorems 3.3 and 3.4 are as wanted: queueing delay does not vanish with so few probes.",
        )
    return (
        "neither",
        f"neither theorem says anything here. Achievability lacks: {'; '.join(missing)}. Impossibility lacks: "
        f"{'; '.join(failing)}. Compare with the mean field instead.",
    )


def _mean_field_of_many_tasks(load: float, d: float, h: int) -> list[Quantity]:
    return [
        _value("Q_max (k → ∞)", largest_queue_length(load, d), "longest queue of the mean field of very many tasks"),
        _value("d for Q_max <= 2", probe_overhead_for_positions(load, 2), "(ε^(-1/2) - 1)/λ, as k → ∞"),
        _value(
            "d for Q_max <= h",
            probe_overhead_for_positions(load, h),
            f"(ε^(-1/h) - 1)/λ at h = {h}, where theorem 3.1 asks for 8/(ε h) = {8 / ((1 - load) * h):.4g}",
        ),
    ]


def _filling(N: int, k: int, m: int, load: float, h: int, S: Floats) -> list[Quantity]:
    """Return what Lemmas 4.1 and 4.2 give at the threshold, and what filling to the level ln k takes."""
    quantities = [
        _much_less(
            "B(h)/H_k - 1",
            response_time_bound([h] * min(k, m)) / inherent_delay(k) - 1,
            "Lemma 4.1: bound on the relative delay of a job whose tasks are all at positions up to h",
        ),
        _much_less(
            "exp(-k/(4h))",
            math.exp(-k / (4 * h)),
            "Lemma 4.2 in every state with twice the space needed, M >= 2k: bound on P(FILL_h fails)",
        ),
    ]
    typical = _typical_state(N, S) if N <= MOST_SERVERS else None
    for level in sorted({h, max(1, round(math.log(k)))}):
        M = mean_space(S, m, level)
        quantities += [
            Quantity(
                f"M/k at level {level}", M / k, ">= 1", k <= M, "mean free positions of the probed servers, per task"
            ),
            _much_less(
                f"bound on P(FILL_{level} fails)",
                fill_failure_bound(S, k, m, level),
                "Lemma 4.2's Chernoff bound with the mean field's queue lengths",
            ),
            _much_less(
                f"P(FILL_{level} fails)",
                fill_failure_probability(S, k, m, level),
                "exact for independent queue lengths of the mean field",
            ),
        ]
        if typical is not None:
            quantities.append(
                _much_less(
                    f"P(FILL_{level} fails), {N} servers",
                    fill_failure_probability_finite(typical, k, m, level),
                    "exact for N servers whose queue lengths are the mean field's, probed without replacement",
                )
            )
    return quantities


def _typical_state(N: int, S: Floats) -> list[int]:
    """Return N queue lengths of which a fraction S_i, rounded, is at least i long."""
    longer = np.rint(N * S[1:]).astype(int)
    lengths = np.zeros(N, dtype=int)
    for count in longer.tolist():
        lengths[:count] += 1
    return lengths.tolist()
