"""Faults planted in the node processes of a cluster, which import this as they start if PYTHONPATH says so.

TESTBED_PLANTED says which: timers that are late, and deadlines that do not chain.
"""

from __future__ import annotations

import os
import sys

LATE_SECONDS = 0.002

planted = os.environ.get("TESTBED_PLANTED", "")
if sys.orig_argv[-1].startswith("node-"):
    if "late timers" in planted:
        from testbed.runtime.timerfd import TimerFd

        arm = TimerFd.arm
        TimerFd.arm = lambda self, when: arm(self, when + LATE_SECONDS)
    if "do not chain" in planted:
        from servers.service_clock import ServiceClock

        start = ServiceClock.start

        def from_the_present(self, task, wait, position, now):
            return start(self, task, wait, position, self._env.clock())

        ServiceClock.start = from_the_present
