"""Wake-up timers: the exact one on Linux, and the one for other systems."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest
import trio
import trio.testing

from testbed.runtime.timerfd import SleepUntil, TimerFd, WakeUpTimer, finest_timer


async def test_it_expires_not_before_its_time(make_timer: Callable[[], WakeUpTimer]) -> None:
    made = make_timer()
    for _ in range(5):
        when = time.monotonic() + 0.005
        made.arm(when)
        with trio.fail_after(10):
            await made.wait()
        # trio's own clock has another origin than the monotonic clock; rounding may cost a few ulps of it.
        assert time.monotonic() >= when - 1e-6
    made.close()


@pytest.mark.parametrize("ago", [0.0, 1e-9, 0.5, 1e9])
async def test_a_time_that_is_past_expires_at_once(make_timer: Callable[[], WakeUpTimer], ago: float) -> None:
    made = make_timer()
    made.arm(time.monotonic() - ago)  # with the last of them a negative reading, which a timerfd does not know
    with trio.fail_after(5):
        await made.wait()
    made.close()


async def test_setting_it_again_replaces_the_setting(make_timer: Callable[[], WakeUpTimer]) -> None:
    made = make_timer()
    made.arm(time.monotonic() + 3600)
    soon = time.monotonic() + 0.005
    made.arm(soon)
    with trio.fail_after(10):
        await made.wait()
    assert time.monotonic() >= soon - 1e-6
    made.close()


async def test_it_can_be_set_while_somebody_waits(make_timer: Callable[[], WakeUpTimer]) -> None:
    made = make_timer()
    made.arm(time.monotonic() + 3600)
    expired = trio.Event()

    async def wait() -> None:
        await made.wait()
        expired.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        made.arm(time.monotonic() + 0.003)
        with trio.fail_after(10):
            await expired.wait()
    made.close()


async def test_it_expires_once_for_each_setting(make_timer: Callable[[], WakeUpTimer]) -> None:
    made = make_timer()
    made.arm(time.monotonic())
    with trio.fail_after(5):
        await made.wait()
    with trio.move_on_after(0.02) as scope:
        await made.wait()
    assert scope.cancelled_caught
    made.close()


async def test_the_most_exact_timer_of_the_system_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = finest_timer()
    assert isinstance(found, TimerFd) == found.exact == (sys.platform == "linux")
    found.close()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert isinstance(finest_timer(), SleepUntil)
    assert not finest_timer().exact
