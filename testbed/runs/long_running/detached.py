"""Starting a cluster that outlives the command that starts it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

import msgspec

from testbed.cluster.controller import ClusterError
from testbed.cluster.members import how_it_ended
from testbed.runs.long_running.cluster import Order
from testbed.runs.long_running.register import LongRunningError, State, standing
from testbed.runs.long_running.supervisor import BAD_INPUT

POLL_SECONDS = 0.1


def start(order: Order) -> State:
    """Start the cluster's supervisor and wait until the cluster stands.

    Raises LongRunningError for a name or an output folder that can't be used, and ClusterError when the cluster does
    not come up; an interruption ends it.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "testbed.runs.long_running.supervisor", order.name],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            pass_fds=[order.page.descriptor] if order.page is not None else [],
            start_new_session=True,  # the terminal's signals, and its end, are not for it
        )
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(order))
            process.stdin.close()
            while process.poll() is None:
                for state in standing():
                    if state.name == order.name and state.pid == process.pid:
                        process.returncode = 0  # it is left to itself: no warning that it was not waited for
                        return state
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
        said.seek(0)
        text = said.read().decode(errors="replace").strip().removeprefix("error: ")
    if process.returncode == BAD_INPUT:
        raise LongRunningError(text)
    raise ClusterError(text or f"the supervisor {how_it_ended(process.returncode)}, and wrote nothing")
