"""Calibration of the probe rate: the rate of the servers' clocks that gives the overall probe rate of a scenario.

The overall probe rate R_o is the cost of a policy's probes: probes per server and time unit, averaged over time.
Policies are compared at the same R_o. A server's clock runs only while the server is idle (stealing) or has waiting
tasks (sharing), so the clock's rate r is larger. The mean field gives r in the limit of many servers; in a finite
cluster sharing then sends more probes than R_o, far more near its limit load^2 / (1 - load). Runs of the twin (a
simulation of the same agents) on the scenario's own workload find the r that gives R_o in this cluster, with these
arrivals and sizes.
"""

from __future__ import annotations

import hashlib
import json
import math
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import platformdirs

from testbed.measure.probes import Calibration, overall_probe_rate
from testbed.measure.summary import measured_window
from testbed.runtime.twin import simulate
from testbed.scenario import ScenarioError, resolved
from testbed.theory.policy_theory import theory_of_policy
from testbed.theory.queue_oblivious_policies import RandomRouting
from testbed.theory.stealing_sharing import probe_rate_for

if TYPE_CHECKING:
    from testbed.scenario import Balance, Scenario

#: The relative difference from R_o at which the search ends. A run with n probes has itself a relative standard error
#: of about 1 / sqrt(n): a difference of half of that ends the search too, and twice of it is accepted at its end.
TOLERANCE = 0.005
MOST_RUNS = 10


def mean_field_probe_rate(scenario: Scenario) -> float:
    """Return the clocks' rate in the limit of many servers; infinite if sharing never sends that many probes.

    The limit is that of random routing of Poisson arrivals (Van Houdt 2019). Raises ValueError where it has no such
    rate, or the size distribution is not phase-type.
    """
    balance = scenario.balance
    assert balance is not None
    assert balance.overall_probe_rate is not None
    assert balance.policy != "hybrid", "a valid scenario asks for no overall rate of a hybrid"
    size = scenario.workload.size
    if scenario.load >= 1:
        raise ValueError("the mean field needs a load below 1")
    return probe_rate_for(balance.policy, scenario.load, size.scaled(1.0 / size.mean), balance.overall_probe_rate)


def check_calibration(scenario: Scenario) -> None:
    """Raise ScenarioError where the scenario's probe rate is to come from the mean field, and the mean field has none.

    Whoever plans runs calls it for each of them, so that the error comes before anything starts.
    """
    balance = scenario.balance
    if balance is not None and balance.calibration == "mean-field" and _needs_calibration(balance):
        _in_mean_field(scenario)


def _needs_calibration(balance: Balance) -> bool:
    return balance.overall_probe_rate is not None and balance.probe_rate is None


def _in_mean_field(scenario: Scenario) -> float:
    assert scenario.balance is not None
    try:
        rate = mean_field_probe_rate(scenario)
    except ValueError as error:
        raise ScenarioError(str(error), key="balance.calibration", value="mean-field") from None
    if math.isinf(rate):
        raise ScenarioError(
            "sharing never sends that many probes, however fast its clocks: in the mean field limit at most "
            f"{scenario.load**2 / (1 - scenario.load):.4g}; ask for fewer",
            key="balance.overall_probe_rate",
            value=scenario.balance.overall_probe_rate,
        )
    return rate


def calibrated(scenario: Scenario, replication: int) -> tuple[Scenario, Calibration | None]:
    """Return the scenario with a probe rate, and its calibration; None where the scenario needs no calibration.

    Raises ScenarioError when no rate gives the overall probe rate of the scenario.
    """
    balance = scenario.balance
    if balance is None or not _needs_calibration(balance):
        return scenario, None
    if balance.calibration == "mean-field":
        found = Calibration(_in_mean_field(scenario), None, 0)
    else:
        found = _cached(scenario, replication) or _on_twin(scenario, replication)
        _cache(scenario, replication, found)
    return with_probe_rate(scenario, found.probe_rate), found


def with_probe_rate(scenario: Scenario, rate: float) -> Scenario:
    """Return the scenario with its servers' clocks at that rate."""
    assert scenario.balance is not None
    return msgspec.structs.replace(scenario, balance=msgspec.structs.replace(scenario.balance, probe_rate=rate))


def _on_twin(scenario: Scenario, replication: int) -> Calibration:
    """Find the root of (overall rate at r) - wanted by the secant method in logarithms, kept inside its bracket."""
    assert scenario.balance is not None
    wanted = scenario.balance.overall_probe_rate
    assert wanted is not None
    share = min(max(1.0 - scenario.load, 0.02), 0.98)
    guess = wanted / (share if scenario.balance.policy == "stealing" else scenario.load * scenario.load)
    if scenario.load < 1 and isinstance(theory_of_policy(scenario.policy_class), RandomRouting):
        try:
            mean_field = mean_field_probe_rate(scenario)
            guess = mean_field if math.isfinite(mean_field) else guess
        except (ValueError, ArithmeticError):
            pass  # a first guess; the twin decides
    tried: list[tuple[float, float]] = []  # log r, log of overall rate over wanted
    x = math.log(guess)
    for runs in range(1, MOST_RUNS + 1):
        measurements = simulate(with_probe_rate(scenario, math.exp(x)), replication)
        window = measured_window(measurements, scenario.run.warmup, scenario.horizon)
        overall = overall_probe_rate(measurements, scenario.servers, window) or 0.0
        y = math.log(overall / wanted) if overall > 0 else -3.0
        tried.append((x, y))
        noise = 1.0 / math.sqrt(max(1.0, wanted * scenario.servers * scenario.run.duration))
        if abs(y) <= max(TOLERANCE, 0.5 * noise):
            return Calibration(math.exp(x), overall, runs)
        x = _next(tried)
    x, y = min(tried, key=lambda one: abs(one[1]))
    if abs(y) <= 2 * noise:
        return Calibration(math.exp(x), wanted * math.exp(y), runs)
    rates = ", ".join(f"{math.exp(y) * wanted:.4g} at {math.exp(x):.4g}" for x, y in tried[-3:])
    raise ScenarioError(
        f"no probe rate was found that gives it: the twin sends {rates}; choose a rate that the policy can reach, or "
        "set balance.probe_rate",
        key="balance.overall_probe_rate",
        value=wanted,
    )


def _next(tried: list[tuple[float, float]]) -> float:
    below = max(((x, y) for x, y in tried if y < 0), default=None)
    above = min(((x, y) for x, y in tried if y > 0), default=None)
    if below is None or above is None or below[0] >= above[0]:
        x, y = tried[-1]
        return x - max(-3.0, min(3.0, y if len(tried) == 1 else 1.5 * y))
    (x0, y0), (x1, y1) = below, above
    secant = x0 - y0 * (x1 - x0) / (y1 - y0)
    margin = 0.02 * (x1 - x0)
    return min(max(secant, x0 + margin), x1 - margin)


def _cache_file(scenario: Scenario, replication: int) -> Path:
    alone = msgspec.structs.replace(scenario, name="x", variants=[])
    # Other versions may have other streams or policies, which need another rate.
    key = f"{version('loadbalance-testbed')} {resolved(alone)} {replication}"
    digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    return Path(platformdirs.user_cache_dir("loadbalance-testbed")) / "calibrations" / f"{digest}.json"


def _cached(scenario: Scenario, replication: int) -> Calibration | None:
    try:
        kept = msgspec.json.decode(_cache_file(scenario, replication).read_bytes(), type=Calibration)
    except (OSError, msgspec.DecodeError):
        return None
    return msgspec.structs.replace(kept, cached=True)


def _cache(scenario: Scenario, replication: int, found: Calibration) -> None:
    file = _cache_file(scenario, replication)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(msgspec.to_builtins(found)))
    except OSError:
        pass  # without a cache the next run calibrates again
