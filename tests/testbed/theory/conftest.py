"""Scenarios to be predicted, and their predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testbed.scenario import ClusterSettings, Dispatch, JobType, Pool, Scenario, WorkloadSettings
from testbed.scenario.policies import policies
from testbed.theory.predict import NoPrediction, Prediction, predict
from testbed.workload.arrivals import Poisson
from testbed.workload.distributions import Exponential


def make_scenario(
    policy: str,
    *,
    servers: int = 40,
    buffer: int | None = None,
    pools: list[Pool] | None = None,
    types: list[JobType] | None = None,
    load: float = 0.8,
    dispatchers: int = 1,
    message_delay: Any = 0.0,
    arrivals: Any = None,
    size: Any = None,
    **parameters: Any,
) -> Scenario:
    return Scenario(
        name="test",
        cluster=ClusterSettings(
            dispatchers=dispatchers,
            message_delay=message_delay,
            pools=pools or [Pool(servers=servers, buffer=buffer)],
        ),
        workload=WorkloadSettings(
            load=load,
            load_per="server",
            arrivals=arrivals or Poisson(),
            size=size or Exponential(),
            types=types or [JobType(name="default", probability=1.0)],
        ),
        dispatch=Dispatch(policy, policies()[policy].Parameters(**parameters)),
    )


@pytest.fixture
def scenario() -> Callable[..., Scenario]:
    """Return what makes a scenario of a policy and of settings, by default of 40 servers at load 0.8."""
    return make_scenario


@pytest.fixture
def predicted() -> Callable[..., Prediction]:
    """Return what gives the prediction for such a scenario, which must have one."""

    def of(policy: str, **settings: Any) -> Prediction:
        prediction = predict(make_scenario(policy, **settings))
        assert isinstance(prediction, Prediction), prediction
        return prediction

    return of


@pytest.fixture
def reason() -> Callable[..., str]:
    """Return what says why such a scenario has no prediction."""

    def of(policy: str, **settings: Any) -> str:
        prediction = predict(make_scenario(policy, **settings))
        assert isinstance(prediction, NoPrediction), prediction
        return prediction.reason

    return of
