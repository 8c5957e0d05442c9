"""What the studies of stealing and sharing have in common: the paper's sizes, and a cluster that steals or shares."""

from __future__ import annotations

from typing import Any

import msgspec

from testbed.scenario import Scenario
from testbed.studies.reproduce.scenarios import scenario
from testbed.workload.distributions import Erlang, Exponential, Hyperexponential

SERVERS, FEW = 1000, 200
Size = Erlang | Exponential | Hyperexponential
#: The paper's sizes by the names that the studies' tables give them; H2(SCV, f) is hyperexponential.
SIZES: dict[str, Size] = {
    "Erlang-5": Erlang(phases=5),
    "exponential": Exponential(),
    "H2(5, 0.5)": Hyperexponential(scv=5.0, f=0.5),
    "H2(25, 0.5)": Hyperexponential(scv=25.0, f=0.5),
    "H2(25, 0.1)": Hyperexponential(scv=25.0, f=0.1),
    "H2(25, 0.9)": Hyperexponential(scv=25.0, f=0.9),
}


def balanced(
    policy: str,
    load: float,
    size: Size,
    probe_rate: float,
    quick: bool,
    *,
    moves: str = "newest",
    on_cluster: bool = False,
) -> Scenario:
    """Return servers that steal or share with clocks of rate ``probe_rate``, behind random routing.

    There are ``SERVERS`` of them, or ``FEW`` if the runs are to be quick or are on the cluster. They are measured for
    at least half of the time that they need to settle.
    """
    warmup = settling_time(load, size.scv, probe_rate)
    kind: Any = msgspec.to_builtins(size)
    return scenario(
        servers=FEW if quick or on_cluster else SERVERS,
        workload={"load": load, "size": kind},
        dispatch={"policy": "random"},
        balance={"policy": policy, "probe_rate": probe_rate, "moves": moves},
        warmup=warmup,
        duration=max(60.0 if quick else 150.0, warmup / 2),
        replications=3 if quick or on_cluster else 5,
    )


def settling_time(load: float, scv: float, probe_rate: float) -> float:
    """Return a time after which servers that began empty are as if they had always been there.

    A rule fitted to the mean field in time (``transient_mean_field``): its mean queue is then within 0.3 % of the
    steady one, at loads from 0.5 to 0.9, SCV from 0.2 to 25 and clock rates r from 1 to 10. ``load`` in (0, 1).
    """
    removal_rate = (1 - load) * probe_rate
    return (1 + scv) * max(6.0, (5 + 4 / (1 - load)) / (1 + removal_rate - load))
