"""A cluster that outlives the command that starts it: the command's side, and the supervisor's.

``python -m testbed.cli.detached`` is the supervisor. It runs in a session of its own, and reads its Order from its
standard input.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import traceback
from typing import TextIO

import msgspec
from typing_extensions import override

from testbed.cluster.members import how_it_ended
from testbed.cluster.processes import ClusterError
from testbed.present.dash.reporter import start_cluster_page
from testbed.runs.display import Silent
from testbed.runs.execution import execute
from testbed.runs.long_running.cluster import LongRunningCluster, Order
from testbed.runs.long_running.register import LongRunningError, State, running
from testbed.runs.run_folder import OutputError
from testbed.scenario import ScenarioError

POLL_SECONDS = 0.1

#: Where the supervisor writes, among the logs of the cluster's processes.
LOG = "supervisor.log"

#: The supervisor's exit status when its order can't be carried out.
BAD_INPUT = 2


def start(order: Order) -> State:
    """Start the cluster's supervisor and wait until the cluster runs.

    Raises LongRunningError for a name or an output folder that can't be used, and ClusterError when the cluster does
    not start. An interruption ends the supervisor.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "testbed.cli.detached", order.name],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=[order.page.descriptor] if order.page is not None else [],
            start_new_session=True,  # so that the terminal's signals, and its end, do not reach the supervisor
        )
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(order))
            process.stdin.close()
            while process.poll() is None:
                for state in running():
                    if state.name == order.name and state.pid == process.pid:
                        process.returncode = 0  # it keeps running: prevents Popen's warning that it was not awaited
                        return state
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
        output.seek(0)
        text = output.read().decode(errors="replace").strip().removeprefix("error: ")
    if process.returncode == BAD_INPUT:
        raise LongRunningError(text)
    raise ClusterError(text or f"the supervisor {how_it_ended(process.returncode)} without any output")


class _Logged(Silent):
    """Writes announcements to the log of a detached cluster."""

    @override
    def announce(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Supervise a detached cluster. Errors go to its log and to the command that started it."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    outputs: list[TextIO] = [sys.stderr]

    def report(text: str) -> None:
        for output in outputs:
            print(text, file=output, flush=True)

    try:
        cluster = LongRunningCluster(order, _Logged(), start_cluster_page)
        log = os.open(cluster.logs / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        outputs.append(os.fdopen(os.dup(2), "w"))
        os.dup2(log, 2)
        os.dup2(log, 1)
        execute(cluster)
    except (ClusterError, OutputError, ScenarioError, LongRunningError) as error:
        report(f"error: {error}")
        raise SystemExit(1 if isinstance(error, ClusterError) else BAD_INPUT) from None
    except Exception:
        report(traceback.format_exc().rstrip())
        raise SystemExit(1) from None
    for failure in cluster.result.failures:
        report(f"error: {failure}")
    if cluster.result.failures:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
