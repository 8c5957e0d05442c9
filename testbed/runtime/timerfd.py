"""A timer that wakes the process up at a time on the monotonic clock, more exactly than trio's own sleep.

trio waits with ``epoll``, whose timeout is a whole number of milliseconds, rounded up: a sleeper wakes 0.5 to 1 ms late
at the median. A ``timerfd`` is a file descriptor that becomes readable at an absolute time, by the kernel's
high-resolution timers. To wait for it costs no more than to wait for a socket, and it wakes within about 0.1 ms. Python
has ``os.timerfd_create`` from 3.13 on; the two calls that are needed are made through ctypes, which works on 3.11 too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from typing import Protocol

import trio
from typing_extensions import override

TFD_TIMER_ABSTIME = 1
TFD_NONBLOCK = 0o4000
TFD_CLOEXEC = 0o2000000
CLOCK_MONOTONIC = 1


class WakeUpTimer(Protocol):
    """One timer on the clock ``time.monotonic``."""

    exact: bool  # late by far less than a millisecond

    def arm(self, when: float) -> None:
        """Set the timer to ``when``, in seconds, in place of any earlier setting; a past time expires at once."""

    async def wait(self) -> None:
        """Wait until the timer expires; once for each setting."""

    def close(self) -> None:
        """Release the timer's resources."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSetting(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class TimerFd(WakeUpTimer):
    """A Linux timerfd."""

    exact = True

    def __init__(self) -> None:
        self._settime = ctypes.CDLL(None, use_errno=True).timerfd_settime
        self._fd: int = ctypes.CDLL(None, use_errno=True).timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._setting = _TimerSetting()
        self._pointer = ctypes.byref(self._setting)

    @override
    def arm(self, when: float) -> None:
        value = self._setting.value
        seconds = int(when) if when > 0 else 0
        value.seconds = seconds
        value.nanoseconds = max(1, int((when - seconds) * 1e9))  # all zeros would mean "never"
        self._settime(self._fd, TFD_TIMER_ABSTIME, self._pointer, None)

    @override
    async def wait(self) -> None:
        await trio.lowlevel.wait_readable(self._fd)
        # Nothing to read: it was set to a later time since the wake-up. The caller looks at its deadlines anyway.
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)

    @override
    def close(self) -> None:
        trio.lowlevel.notify_closing(self._fd)
        os.close(self._fd)


class SleepUntil(WakeUpTimer):
    """A timer on trio's own timeouts, for systems without timerfd; up to a millisecond or two late."""

    exact = False

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._to_trio = trio.current_time() - time.monotonic()
        self._when = float("inf")

    @override
    def arm(self, when: float) -> None:
        self._when = self._scope.deadline = when + self._to_trio

    @override
    async def wait(self) -> None:
        self._scope = trio.CancelScope(deadline=self._when)
        with self._scope:
            await trio.sleep_forever()
        self._when = float("inf")

    @override
    def close(self) -> None:
        pass


def finest_timer() -> WakeUpTimer:
    """Return the most exact timer that this system has."""
    return TimerFd() if sys.platform == "linux" else SleepUntil()
