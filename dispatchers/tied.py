"""Tied requests: two copies of each job that know of each other; the one that starts cancels the other directly.

Both go to servers chosen at random, each with the other's address. The server that starts the first of them cancels the
other one directly, without the dispatcher. Work is only wasted when both start within the time of one message between
the two servers. Then the first of the two copies goes on (servers.copy_server). With messages that
take no time this is redundancy-2 with cancel on start. With one server there is one copy.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from dispatchers.policy import Policy


class Tied(Policy):
    """Two servers chosen at random, whose copies are tied to each other."""

    name = "tied"
    source = "Dean and Barroso 2013 (The Tail at Scale)"
    theory = "testbed.theory.copies:TIED"
    ties = True

    @classmethod
    @override
    def copies(cls, parameters: Any) -> int:
        return 2

    @override
    def place(self, job: int) -> None:
        dispatcher = self.dispatcher
        dispatcher.assign_tied(job, dispatcher.rng.sample(dispatcher.servers, min(2, dispatcher.servers)))
