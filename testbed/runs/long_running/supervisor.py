"""The supervisor of a detached cluster: ``python -m testbed.runs.long_running.supervisor``.

It is a session of its own, and reads its Order from its standard input.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TextIO

import msgspec

from testbed.cluster.controller import ClusterError
from testbed.runs.display import Silent
from testbed.runs.execution import execute
from testbed.runs.long_running.cluster import LongRunningCluster, Order
from testbed.runs.long_running.register import LongRunningError
from testbed.runs.run_folder import OutputError
from testbed.scenario import ScenarioError

#: Where it writes, among the logs of the cluster's processes.
LOG = "supervisor.log"

#: Its exit status when it can't do what it was ordered.
BAD_INPUT = 2


class _Logged(Silent):
    """Announces what the log of a detached cluster is to say."""

    def announce(self, text: str) -> None:
        """Write it to the log."""
        print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Be the supervisor of a detached cluster. What goes wrong is in its log, and told to who started it."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    hearers: list[TextIO] = [sys.stderr]

    def tell(text: str) -> None:
        for hearer in hearers:
            print(text, file=hearer, flush=True)

    try:
        cluster = LongRunningCluster(order, _Logged())
        log = os.open(cluster.logs / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        hearers.append(os.fdopen(os.dup(2), "w"))
        os.dup2(log, 2)
        os.dup2(log, 1)
        execute(cluster)
    except (ClusterError, OutputError, ScenarioError, LongRunningError) as error:
        tell(f"error: {error}")
        raise SystemExit(1 if isinstance(error, ClusterError) else BAD_INPUT) from None
    except Exception:
        tell(traceback.format_exc().rstrip())
        raise SystemExit(1) from None
    for failure in cluster.result.failures:
        tell(f"error: {failure}")
    if cluster.result.failures:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
