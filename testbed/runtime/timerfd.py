"""Waking up at a moment of the monotonic clock, more finely than trio's own sleep.

trio waits with ``epoll``, whose timeout is a whole number of milliseconds, rounded up: a sleeper wakes 0.5 to 1 ms late
at the median. A ``timerfd`` is a file descriptor that becomes readable at an absolute time with the kernel's
high-resolution timers, so waiting for it like for a socket costs nothing more and wakes within about 0.1 ms. Python has
``os.timerfd_create`` from 3.13 on; the three calls that we need are made through ctypes, which works on 3.11 too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from typing import Protocol

import trio

TFD_TIMER_ABSTIME = 1
TFD_NONBLOCK = 0o4000
TFD_CLOEXEC = 0o2000000
CLOCK_MONOTONIC = 1


class WakeUp(Protocol):
    """One alarm, set for a moment of ``time.monotonic``."""

    exact: bool

    def arm(self, when: float) -> None:
        """Set the alarm for ``when`` seconds on the monotonic clock, replacing any earlier setting."""

    async def wait(self) -> None:
        """Wait until the alarm goes off."""

    def close(self) -> None:
        """Give back what the alarm holds."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSetting(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class TimerFd:
    """An alarm on a Linux timerfd."""

    exact = True

    def __init__(self) -> None:
        self._settime = ctypes.CDLL(None, use_errno=True).timerfd_settime
        self._fd: int = ctypes.CDLL(None, use_errno=True).timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._setting = _TimerSetting()
        self._pointer = ctypes.byref(self._setting)

    def arm(self, when: float) -> None:
        """Set the alarm. A moment that is past goes off at once; an all-zero setting would mean "never"."""
        value = self._setting.value
        seconds = int(when) if when > 0 else 0
        value.seconds = seconds
        value.nanoseconds = max(1, int((when - seconds) * 1e9))
        self._settime(self._fd, TFD_TIMER_ABSTIME, self._pointer, None)

    async def wait(self) -> None:
        """Wait until the alarm goes off."""
        await trio.lowlevel.wait_readable(self._fd)
        # Nothing to read: it was re-armed for later since the wake-up. The caller looks at its deadlines anyway.
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)

    def close(self) -> None:
        """Close the file descriptor."""
        trio.lowlevel.notify_closing(self._fd)
        os.close(self._fd)


class SleepUntil:
    """An alarm on trio's own timeouts, for systems without timerfd; up to a millisecond or two late."""

    exact = False

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._to_trio = trio.current_time() - time.monotonic()
        self._when = float("inf")

    def arm(self, when: float) -> None:
        """Set the alarm."""
        self._when = self._scope.deadline = when + self._to_trio

    async def wait(self) -> None:
        """Wait until the alarm goes off."""
        self._scope = trio.CancelScope(deadline=self._when)
        with self._scope:
            await trio.sleep_forever()
        self._when = float("inf")

    def close(self) -> None:
        """Nothing to give back."""


def wake_up() -> WakeUp:
    """Return the finest alarm that this system has."""
    return TimerFd() if sys.platform == "linux" else SleepUntil()
