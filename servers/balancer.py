"""How servers move waiting tasks among themselves: the protocol of stealing and sharing.

A balancer belongs to one server. Its *triggers* (servers.triggers) decide when to probe other servers; the balancer
sends the probes, answers those of others, moves the tasks and survives every race:

* a stale answer: the thief has received work since it asked (the stolen task then queues, and counts as late), or the
  offered task has started (the balancer withdraws the offer);
* two thieves at one victim, two offers to one idle server: each gets the answer that fits the state when it arrives,
  and an accepted offer reserves the idle server for one task;
* the death of the other side, in every state (servers.exchange).

Source of the two policies: Van Houdt, "Randomized Work Stealing versus Sharing in Large-scale Systems with
Non-exponential Job Sizes", IEEE/ACM ToN 27(5), 2019.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from servers.exchange import Event, Exchange, State
from testbed.core.messages import (
    NO_JOB,
    Accepted,
    Message,
    Moved,
    Offer,
    Probe,
    ProbeReply,
    Received,
    Refused,
    Steal,
    Transfer,
    Withdrawn,
)

if TYPE_CHECKING:
    from servers.server import Server

# What is counted: indices into ``Tally.counts``, whose names are testbed.core.records.COUNTED.
PROBES: Final = 0  # probes sent: Steal and Offer, or the queue-length probes that precede a Steal
YES: Final = 1  # probes answered by tasks, or by the promise to take one
NO: Final = 2
MOVED: Final = 3  # tasks moved
LATE: Final = 4  # tasks moved to a server that had received other work before they arrived
WITHDRAWN: Final = 5  # offers accepted when no task waited any more
STOLEN: Final = 6  # tasks moved by stealing
SHARED: Final = 7

MOST: Final = 1000  # tasks in one Transfer, which must fit into a frame


class Tally(Protocol):
    """Where a balancer counts (testbed.core.records.Occupancy)."""

    counts: list[int]


class Trigger:
    """Decides when its server probes others: one method per event; by default it does nothing."""

    def on_idle(self) -> None:
        """The server has become idle."""

    def on_busy(self) -> None:
        """The idle server has received a task."""

    def on_queued(self, job: int, task: int) -> None:
        """A task has arrived that must wait; it may be the first one that waits."""

    def on_none_waiting(self) -> None:
        """The last waiting task has left the queue."""

    def on_failed(self, exchange: Exchange) -> None:
        """An exchange that this server began has failed."""


class Balancer:
    """One server's part in moving tasks.

    ``servers``: number of servers in the cluster, at addresses 0..servers-1; ``recovers``: whether dispatchers dispatch
    lost tasks again, for which they need a report of every move. ``half``: a thief gets half of the waiting tasks,
    rounded up, but at most ``MOST``, instead of one. ``choices``: a thief first probes that many others for their queue
    length and steals from the longest queue. ``newest``: which waiting task moves first.
    """

    HANDLES: ClassVar[dict[type[Message], str]] = {
        Steal: "on_steal",
        Offer: "on_offer",
        Accepted: "on_accepted",
        Refused: "on_refused",
        Withdrawn: "on_withdrawn",
        Transfer: "on_transfer",
        Received: "on_received",
        ProbeReply: "on_probe_reply",
    }

    def __init__(
        self,
        server: Server,
        *,
        servers: int,
        tally: Tally,
        recovers: bool = False,
        half: bool = False,
        choices: int = 1,
        newest: bool = True,
    ) -> None:
        self.server = server
        self.env = server.env
        self.address = server.address
        self.rng = server.env.stream(f"server/{server.address}/balancing")
        self.triggers: list[Trigger] = []
        self.exchanges: dict[int, Exchange] = {}  # the open ones, by number
        self._servers = servers
        self._recovers = recovers
        self._counts = tally.counts
        self._half = half
        self._choices = min(choices, servers - 1)
        self._newest = newest
        self._next_number = server.address
        self._promised_to: Exchange | None = None
        self._down: list[range] = []
        #: Exchanges still without a victim, by number, and the queue lengths of the candidates, -1 while unknown.
        self._surveys: dict[int, tuple[Exchange, dict[int, int]]] = {}
        server.handlers.update({kind: getattr(self, method) for kind, method in self.HANDLES.items()})

    # --- what happens at the server ---

    def on_idle(self) -> None:
        """The server has become idle."""
        for trigger in self.triggers:
            trigger.on_idle()

    def on_arrival(self, found: int, job: int, task: int) -> None:
        """A task has come to the server, where ``found`` tasks were before it."""
        for trigger in self.triggers:
            if found:
                trigger.on_queued(job, task)
            else:
                trigger.on_busy()

    def on_none_waiting(self) -> None:
        """The last waiting task has left the queue."""
        for trigger in self.triggers:
            trigger.on_none_waiting()

    # --- probing ---

    def _number(self) -> int:
        number = self._next_number
        self._next_number = number + self._servers
        return number

    def _target(self) -> int:
        """Return another server, uniformly chosen."""
        other = self.rng.integer(self._servers - 1)
        return other + (other >= self.address)

    def _is_down(self, server: int) -> bool:
        return any(server in servers for servers in self._down)

    def steal(self, tries: int = 1) -> None:
        """Ask another server for waiting tasks."""
        if self._servers < 2:
            return
        if self._choices > 1:
            self._survey(tries)
            return
        self._counts[PROBES] += 1
        self._send_steal(Exchange(self._number(), self._target(), State.ASKING, tries))

    def _send_steal(self, exchange: Exchange) -> None:
        if self._is_down(exchange.peer):
            self._end_soon(exchange)
            return
        self.exchanges[exchange.number] = exchange
        self.env.send(Steal(exchange.peer, self.address, exchange.number))

    def offer(self, tries: int = 1, certain: tuple[int, int] | None = None) -> None:
        """Ask another server whether it is idle and would take a waiting task; a ``certain`` one, by job and task."""
        if self._servers < 2:
            return
        self._counts[PROBES] += 1
        exchange = Exchange(self._number(), self._target(), State.OFFERING, tries)
        exchange.offered = certain
        if self._is_down(exchange.peer):
            self._end_soon(exchange)
            return
        self.exchanges[exchange.number] = exchange
        self.env.send(Offer(exchange.peer, self.address, exchange.number))

    def _end_soon(self, exchange: Exchange) -> None:
        """End an exchange with a dead server. Not at once: a trigger that probes again would recurse."""
        self.env.call_at(self.env.now, partial(self._fail, exchange, Event.PEER_DOWN))

    def _fail(self, exchange: Exchange, event: Event) -> None:
        exchange.advance(event)
        self._counts[NO] += 1
        for trigger in self.triggers:
            trigger.on_failed(exchange)

    # --- choosing a victim by queue length ---

    def _survey(self, tries: int) -> None:
        others = [s + (s >= self.address) for s in self.rng.sample(self._servers - 1, self._choices)]
        self._counts[PROBES] += self._choices
        exchange = Exchange(self._number(), others[0], State.ASKING, tries)
        live = [server for server in others if not self._is_down(server)]
        self._counts[NO] += self._choices - max(len(live), 1)  # the last of the probes ends with the exchange
        if not live:
            self._end_soon(exchange)
            return
        self._surveys[exchange.number] = exchange, dict.fromkeys(live, -1)
        for server in live:
            self.env.send(Probe(server, self.address, NO_JOB, exchange.number))

    def on_probe_reply(self, reply: ProbeReply) -> None:
        """Note a queue length; after the last one, steal from the longest queue."""
        self._note_queue_length(reply.round, reply.sender, reply.queue_length)

    def _note_queue_length(self, number: int, server: int, queue_length: int) -> None:
        exchange, queue_lengths = self._surveys[number]
        queue_lengths[server] = queue_length
        if -1 in queue_lengths.values():
            return
        del self._surveys[number]
        exchange.peer = max(queue_lengths, key=queue_lengths.__getitem__)  # the first of the longest: a random order
        self._counts[NO] += len(queue_lengths) - 1
        if queue_lengths[exchange.peer] < 2 or self.server.queue_length:
            self._fail(exchange, Event.REFUSED)
        else:
            self._send_steal(exchange)

    # --- answering ---

    def on_steal(self, steal: Steal) -> None:
        """Hand over waiting tasks, or refuse."""
        waiting = self.server.queue_length - 1
        if waiting < 1:
            self.env.send(Refused(steal.sender, self.address, steal.exchange))
            return
        exchange = Exchange(steal.exchange, steal.sender, State.SENT)
        self.exchanges[exchange.number] = exchange
        count = min(ceil(waiting / 2), MOST) if self._half else 1
        exchange.tasks = [self.server.release(self._newest) for _ in range(count)]
        self._send_tasks(exchange)

    def on_offer(self, offer: Offer) -> None:
        """Accept and wait for the task if the server is idle and not promised to another; else refuse."""
        if self.server.queue_length or self._promised_to is not None:
            self.env.send(Refused(offer.sender, self.address, offer.exchange))
            return
        self._promised_to = Exchange(offer.exchange, offer.sender, State.PROMISED)
        self.exchanges[offer.exchange] = self._promised_to
        self.env.send(Accepted(offer.sender, self.address, offer.exchange))

    # --- answers ---

    def on_refused(self, refused: Refused) -> None:
        """Note that an exchange has failed."""
        self._fail(self.exchanges.pop(refused.exchange), Event.REFUSED)

    def on_accepted(self, accepted: Accepted) -> None:
        """Send the offered task if it still waits; else take the offer back."""
        self._counts[YES] += 1
        exchange = self.exchanges[accepted.exchange]
        server = self.server
        if exchange.offered is not None:
            moved = server.release_task(*exchange.offered)
        else:
            moved = server.release(self._newest) if server.queue_length > 1 else None
        if moved is None:
            exchange.advance(Event.ACCEPTED_TOO_LATE)
            del self.exchanges[accepted.exchange]
            self._counts[WITHDRAWN] += 1
            self.env.send(Withdrawn(exchange.peer, self.address, exchange.number))
        else:
            exchange.advance(Event.ACCEPTED)
            exchange.tasks = [moved]
            self._send_tasks(exchange)

    def _send_tasks(self, exchange: Exchange) -> None:
        self.env.send(Transfer(exchange.peer, self.address, exchange.number, list(exchange.tasks)))
        if self.server.queue_length == 1:
            self.on_none_waiting()

    def on_withdrawn(self, withdrawn: Withdrawn) -> None:
        """Stop waiting for the task that was offered."""
        self.exchanges.pop(withdrawn.exchange).advance(Event.WITHDRAWN)
        self._promised_to = None

    def on_transfer(self, transfer: Transfer) -> None:
        """Own the tasks from now on; notify their former server and their dispatchers."""
        exchange = self.exchanges.pop(transfer.exchange)
        if exchange.state is State.ASKING:
            self._counts[YES] += 1
            self._counts[STOLEN] += len(transfer.tasks)
        else:
            self._counts[SHARED] += len(transfer.tasks)
        exchange.advance(Event.TRANSFER)
        if exchange is self._promised_to:
            self._promised_to = None
        self._counts[MOVED] += len(transfer.tasks)
        if self.server.queue_length:
            self._counts[LATE] += len(transfer.tasks)
        self.env.send(Received(transfer.sender, self.address, transfer.exchange))
        for task in transfer.tasks:
            self.env.send(Moved(task.dispatcher, self.address, task.job, task.task, self.address, task.moves))
            self.server.take(task)

    def on_received(self, received: Received) -> None:
        """Forget the tasks that have arrived."""
        exchange = self.exchanges.pop(received.exchange)
        exchange.advance(Event.RECEIVED)
        self._report_moves(exchange)

    def _report_moves(self, exchange: Exchange) -> None:
        """Tell dispatchers where their tasks went: the new server may die before it reports."""
        if self._recovers:
            for task in exchange.tasks:
                self.env.send(Moved(task.dispatcher, self.address, task.job, task.task, exchange.peer, task.moves))

    # --- servers that go down and come up ---

    def on_up(self, first: int, last: int) -> None:
        """Resume with servers ``first`` to ``last``."""
        self._down = [down for down in self._down if down != range(first, last + 1)]

    def on_down(self, first: int, last: int) -> None:
        """End all exchanges with servers ``first`` to ``last``; report the tasks that were sent to them."""
        down = range(first, last + 1)
        self._down.append(down)
        for number, (_, queue_lengths) in list(self._surveys.items()):
            for server in [server for server in queue_lengths if server in down]:
                if number in self._surveys:
                    self._note_queue_length(number, server, 0)
        for exchange in [exchange for exchange in self.exchanges.values() if exchange.peer in down]:
            del self.exchanges[exchange.number]
            if exchange is self._promised_to:
                self._promised_to = None
            if exchange.state in (State.ASKING, State.OFFERING):
                self._fail(exchange, Event.PEER_DOWN)
            elif exchange.advance(Event.PEER_DOWN) is State.MISSING:
                self._report_moves(exchange)
