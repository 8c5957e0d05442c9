"""The server agent: one queue, one task in service at a time.

A task of size x and type k is served for x / speed[k] time units. Deadlines chain: the environment's ``now`` is the
time at which the finished service was due, and the next one starts then. With a buffer of b tasks, the one in service
included, a task that finds b tasks is dropped and its dispatcher told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from servers.balancer import Balancer
from servers.queues import Discipline, FirstComeFirstServed
from testbed.core.agent import Agent, Environment
from testbed.core.messages import Assign, Done, Dropped, Idle, Message, MovedTask, PeerDown, Probe, ProbeReply


class QueueLengthMeter(Protocol):
    """Where a server reports changes of its queue length (testbed.core.records.Occupancy)."""

    def change(self, old: int, new: int, now: float, /) -> None:
        """Note that a queue length goes from ``old`` to ``new`` at time ``now``."""


class Server(Agent):
    """Serves tasks one by one.

    ``speeds[k]`` is the speed for type-k tasks. ``idle_report_to`` lists the dispatchers of which one, chosen
    uniformly, is told whenever the server becomes idle; empty where the policy needs no such reports. A report stands
    until its dispatcher uses it by placing a task: while one stands the server makes no other, so it is known as idle
    to at most one dispatcher (Lu et al. 2011). ``dispatchers`` are told when the server notices the death of others.
    """

    HANDLES: ClassVar[dict[type[Message], str]] = {Assign: "on_assign", Probe: "on_probe"}

    def __init__(
        self,
        env: Environment,
        address: int,
        *,
        speeds: Sequence[float],
        meter: QueueLengthMeter,
        buffer: int | None = None,
        idle_report_to: Sequence[int] = (),
        dispatchers: Sequence[int] = (),
    ) -> None:
        super().__init__(env, address)
        self.queue_length = 0  # tasks at the server, the one in service included
        self.probes_idle = 0  # probes answered that found the server idle
        self.probes_busy = 0
        #: Each with the time of its arrival here, how long it had waited elsewhere before, and its position then.
        self._waiting: Discipline[tuple[float, float, Assign, int]] = FirstComeFirstServed()
        self._balancer: Balancer | None = None
        self._slownesses = [1.0 / speed for speed in speeds]
        self._meter = meter
        self._buffer = buffer if buffer is not None else float("inf")
        self._idle_report_to = idle_report_to
        self._dispatchers = dispatchers
        self._reported_to: int | None = None
        if idle_report_to:
            self._choose = env.stream(f"server/{address}/idle reports").integer
        self._in_service: Assign
        self._wait = 0.0
        self._service = 0.0
        self._position = 1
        self._finish = self.on_finish

    def start(self) -> None:
        """Begin idle."""
        self._become_idle()

    def attach(self, balancer: Balancer) -> None:
        """Let ``balancer`` move waiting tasks from and to this server."""
        self._balancer = balancer

    def on_down(self, first: int, last: int) -> None:
        """Note that servers ``first`` to ``last`` have died."""
        if self._balancer is not None:
            self._balancer.on_down(first, last)
        for dispatcher in self._dispatchers:
            self.env.send(PeerDown(dispatcher, self.address, first, last))

    def on_up(self, first: int, last: int) -> None:
        """Note that servers ``first`` to ``last`` are there again."""
        if self._balancer is not None:
            self._balancer.on_up(first, last)

    def report_idle_to(self, dispatchers: Sequence[int]) -> None:
        """From now on tell these dispatchers of being idle; none if there are none."""
        self._idle_report_to = dispatchers
        self._reported_to = None
        if dispatchers:
            self._choose = self.env.stream(f"server/{self.address}/idle reports").integer
            if not self.queue_length:
                self._report_idle()

    def on_probe(self, probe: Probe) -> None:
        """Answer with the queue length."""
        if self.queue_length:
            self.probes_busy += 1
        else:
            self.probes_idle += 1
        self.env.send(ProbeReply(probe.sender, self.address, probe.job, self.queue_length, probe.round))

    def on_assign(self, task: Assign) -> None:
        """Serve the task now, queue it, or drop it when the buffer is full."""
        env = self.env
        now = env.now
        length = self.queue_length
        if task.sender == self._reported_to:
            self._reported_to = None
        if length == 0:
            self._serve(task, 0.0, 1, now)
        elif length >= self._buffer and type(task) is Assign:  # a Commit has its place
            env.send(Dropped(task.sender, self.address, task.job, task.task))
            return
        else:
            self._waiting.push((now, 0.0, task, length + 1))
        self.queue_length = length + 1
        self._meter.change(length, length + 1, now)
        if self._balancer is not None:
            self._balancer.on_arrival(length, task.job, task.task)

    def _serve(self, task: Assign, wait: float, position: int, now: float) -> None:
        self._in_service = task
        self._wait = wait
        self._position = position
        self._service = service = task.size * self._slownesses[task.job_type]
        self.env.call_at(now + service, self._finish)

    def on_finish(self) -> None:
        """Report the finished task and serve the next one from this instant on."""
        env = self.env
        now = env.now
        task = self._in_service
        wait, service, position = self._wait, self._service, self._position
        env.send(Done(task.sender, self.address, task.job, task.task, wait, service, position, env.lateness))
        length = self.queue_length
        self.queue_length = length - 1
        self._meter.change(length, length - 1, now)
        if length > 1:
            arrived, waited, task, position = self._waiting.pop()
            self._serve(task, now - arrived + waited, position, now)
            if length == 2 and self._balancer is not None:
                self._balancer.on_none_waiting()
        else:
            self._become_idle()

    def _become_idle(self) -> None:
        self._report_idle()
        if self._balancer is not None:
            self._balancer.on_idle()

    # --- moving waiting tasks ---

    def release(self, newest: bool) -> MovedTask:
        """Give up a waiting task, the newest or the oldest. Raises IndexError when none waits."""
        return self._released(self._waiting.pop_newest() if newest else self._waiting.pop())

    def release_task(self, job: int, task: int) -> MovedTask | None:
        """Give up a certain task, or return None when it does not wait here any more."""
        for item in self._waiting:
            if item[2].job == job and item[2].task == task:
                self._waiting.remove(item)
                return self._released(item)
        return None

    def _released(self, item: tuple[float, float, Assign, int]) -> MovedTask:
        now = self.env.now
        arrived, waited, task, _ = item
        length = self.queue_length
        self.queue_length = length - 1
        self._meter.change(length, length - 1, now)
        moves = task.moves + 1
        return MovedTask(task.sender, task.job, task.task, task.job_type, task.size, now - arrived + waited, moves)

    def is_waiting(self, job: int, task: int) -> bool:
        """Whether a certain task waits here."""
        return any(item.job == job and item.task == task for _, _, item, _ in self._waiting)

    def take(self, moved: MovedTask) -> None:
        """Own a task that has come from another server, where it waited ``moved.waited``; also above the buffer."""
        now = self.env.now
        task = Assign(self.address, moved.dispatcher, moved.job, moved.task, moved.job_type, moved.size, moved.moves)
        length = self.queue_length
        if length == 0:
            self._serve(task, moved.waited, 1, now)
        else:
            self._waiting.push((now, moved.waited, task, length + 1))
        self.queue_length = length + 1
        self._meter.change(length, length + 1, now)
        if self._balancer is not None:
            self._balancer.on_arrival(length, task.job, task.task)

    def _report_idle(self) -> None:
        if self._idle_report_to and self._reported_to is None:
            self._reported_to = self._idle_report_to[self._choose(len(self._idle_report_to))]
            self.env.send(Idle(self._reported_to, self.address))
