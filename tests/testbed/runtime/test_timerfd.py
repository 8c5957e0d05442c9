"""Alarms: the fine one on Linux, and the one for other systems."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest
import trio
import trio.testing

from testbed.runtime.timerfd import SleepUntil, TimerFd, WakeUp, wake_up


async def test_it_goes_off_not_before_its_time(alarm: Callable[[], WakeUp]) -> None:
    made = alarm()
    for _ in range(5):
        when = time.monotonic() + 0.005
        made.arm(when)
        with trio.fail_after(10):
            await made.wait()
        # trio's own clock has another origin than the monotonic clock; rounding may cost a few ulps of it.
        assert time.monotonic() >= when - 1e-6
    made.close()


@pytest.mark.parametrize("ago", [0.0, 1e-9, 0.5, 1e9])
async def test_a_moment_in_the_past_goes_off_at_once(alarm: Callable[[], WakeUp], ago: float) -> None:
    made = alarm()
    made.arm(time.monotonic() - ago)  # with the last of them a negative reading, which a timerfd does not know
    with trio.fail_after(5):
        await made.wait()
    made.close()


async def test_setting_it_again_replaces_the_setting(alarm: Callable[[], WakeUp]) -> None:
    made = alarm()
    made.arm(time.monotonic() + 3600)
    soon = time.monotonic() + 0.005
    made.arm(soon)
    with trio.fail_after(10):
        await made.wait()
    assert time.monotonic() >= soon - 1e-6
    made.close()


async def test_it_can_be_set_while_somebody_waits(alarm: Callable[[], WakeUp]) -> None:
    made = alarm()
    made.arm(time.monotonic() + 3600)
    gone_off = trio.Event()

    async def wait() -> None:
        await made.wait()
        gone_off.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        made.arm(time.monotonic() + 0.003)
        with trio.fail_after(10):
            await gone_off.wait()
    made.close()


async def test_it_goes_off_once_for_each_setting(alarm: Callable[[], WakeUp]) -> None:
    made = alarm()
    made.arm(time.monotonic())
    with trio.fail_after(5):
        await made.wait()
    with trio.move_on_after(0.02) as scope:
        await made.wait()
    assert scope.cancelled_caught
    made.close()


async def test_the_finest_alarm_of_the_system_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = wake_up()
    assert isinstance(found, TimerFd) == found.exact == (sys.platform == "linux")
    found.close()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert isinstance(wake_up(), SleepUntil)
    assert not wake_up().exact
