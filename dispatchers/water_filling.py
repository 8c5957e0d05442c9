"""Water-filling: tasks one by one to a currently shortest queue, each queue's length raised by the task it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace


def fill(servers: Sequence[int], queue_lengths: Mapping[int, int], tasks: int) -> list[int]:
    """Return the servers of ``tasks`` tasks, in the order of their placement.

    ``servers`` are in uniformly random order, which breaks the ties: where the last tasks may go to one of several
    equal queues, each set of these is equally likely. Servers whose queue length is not known are left out; when none
    is known all count as empty. Costs O(servers + tasks log servers).
    """
    known = [(queue_lengths[server], i, server) for i, server in enumerate(servers) if server in queue_lengths]
    if not known:
        known = [(0, i, server) for i, server in enumerate(servers)]
    heapify(known)
    placed = []
    for _ in range(tasks):
        length, i, server = known[0]
        placed.append(server)
        heapreplace(known, (length + 1, i, server))
    return placed
