"""A long-running cluster: its controller, its control socket, its entry in the register, and its saved result."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import trio

from testbed.cluster.connecting import BACKLOG, accept_connections
from testbed.cluster.control import Channel
from testbed.cluster.controller import Controller
from testbed.cluster.metrics.discovery import TargetGroup, serve_discovery
from testbed.cluster.observing import Observer, theory_of
from testbed.cluster.snapshot import Snapshot
from testbed.core.messages import ProtocolError
from testbed.core.records import Measurements
from testbed.measure.empty_start import automatic_start
from testbed.measure.summary import summarise
from testbed.runs.display import Display
from testbed.runs.experiment import keep_records
from testbed.runs.long_running.changes import changed
from testbed.runs.long_running.control import (
    REQUEST,
    Changed,
    Down,
    Follow,
    Refused,
    Request,
    Saved,
    Set,
    Snapshots,
    Status,
    StatusReply,
)
from testbed.runs.long_running.lifetime import LongRunning
from testbed.runs.long_running.register import NEVER_STARTED, Claim, LongRunningError, ProcessEntry, State
from testbed.runs.long_running.rolling import KEPT_ROWS, RollingRecords, kept_since
from testbed.runs.nominal import nominal
from testbed.runs.probe_rate import calibrated
from testbed.runs.result import Result, VariantRun
from testbed.runs.run_folder import OutputError, RunFolder, replace_file
from testbed.scenario import Scenario, ScenarioError, decode, resolved
from testbed.theory.predict import predict

ANSWER_SECONDS = 1.0  # for the last answers
PAGE_SECONDS = 15.0  # for the live page to end


class PageOrder(msgspec.Struct):
    """Where to serve the live page: the descriptor of a listening socket, its host, and the page's secret."""

    descriptor: int
    host: str
    token: str | None


class Order(msgspec.Struct):
    """The cluster to run: a scenario without variants, as TOML, and the output folder.

    ``http_sd``: the loopback port of its service discovery; 0 for a free one. ``page``: where to serve its live page,
    if it has one.
    """

    name: str
    variant: str
    scenario: str
    output: str
    http_sd: int = 0
    page: PageOrder | None = None


#: Starts the process that serves the page of the cluster with that name; returns it and the page's address.
StartPage = Callable[[str, PageOrder], tuple[subprocess.Popen[bytes], str]]


class LongRunningCluster:
    """A cluster that runs from ``run`` until ``stop``; ``result`` then holds its measurements.

    The constructor claims the name and makes the run folder: raises LongRunningError and OutputError. A second ``stop``
    does not wait until the jobs have finished.
    """

    def __init__(self, order: Order, display: Display, start_page: StartPage) -> None:
        self.scenario = decode(tomllib.loads(order.scenario), source="the scenario")
        self._order = order
        self._display = display
        self._start_page = start_page
        self._claim = Claim.take(order.name)
        self._lifetime: LongRunning | None = None
        self._controller: Controller | None = None
        try:
            http_sd = self._serve_discovery(order.http_sd)
            self._folder = RunFolder(self.scenario, Path(order.output), KEPT_ROWS)
        except (OutputError, LongRunningError):
            self._claim.release()
            raise
        self.state = State(
            name=order.name,
            pid=os.getpid(),
            started=time.time(),
            scenario=self.scenario.name,
            variant=order.variant,
            time_unit_seconds=self.scenario.run.time_unit_seconds,
            run_folder=str(self._folder.path),
            http_sd=http_sd,
        )
        self.result = Result(self.scenario, self._folder.path)
        self.logs = self._claim.folder / "logs"
        self._snapshot: Snapshot | None = None
        self._followers: set[trio.MemorySendChannel[Snapshot]] = set()
        self._observer: Observer | None = None
        self._shut_down = trio.Event()
        self._saved = trio.Event()
        self._waiting = 0  # connections that wait for the end
        self._changing = trio.Lock()
        self._settled = 0.0  # model time of the last change of settings
        self._page: subprocess.Popen[bytes] | None = None

    def _serve_discovery(self, port: int) -> str:
        """Serve Prometheus' service discovery on a port, 0 for a free one; return its address."""

        def targets() -> list[TargetGroup]:
            return self._controller.metrics_targets() if self._controller is not None else []

        try:
            return f"http://127.0.0.1:{serve_discovery(targets, port)}/"
        except OSError as error:
            raise LongRunningError(
                f"port {port} for service discovery: {error.strerror}; choose another one with --http-sd"
            ) from None

    def stop(self) -> None:
        """Drain and end; when called again, end now."""
        if self._shut_down.is_set():
            self.result.interrupted = True
            if self._controller is not None:
                self._controller.stop()
        self._shut_down.set()

    async def run(self) -> None:
        """Run until shut down, and save the result. Raises ClusterError when the cluster does not come up."""
        ended: str | None = NEVER_STARTED
        listener = self._listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept_connections, listener, nursery, self._serve)
            try:
                with self._folder:
                    ended = await self._run_cluster()
            finally:
                listener.close()
                self.state.ended = ended
                if ended is not None:
                    self._claim.write(self.state)
                self._claim.release(remove=ended is None)
            # Clients that have shut the cluster down get their answers when nothing is left to do.
            self._saved.set()
            with trio.move_on_after(ANSWER_SECONDS):
                while self._waiting:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        if self._page is not None:  # it ends by itself when browsers have been told of the end
            with trio.move_on_after(PAGE_SECONDS):
                await trio.to_thread.run_sync(self._page.wait, abandon_on_cancel=True)
            self._page.kill()

    async def _run_cluster(self) -> str | None:
        """Return what went wrong, if anything did."""
        self.scenario, calibration = await trio.to_thread.run_sync(calibrated, self.scenario, 0)
        prediction = await trio.to_thread.run_sync(predict, self.scenario)
        run = VariantRun(self.state.variant, 0, self.scenario, prediction, calibration=calibration)
        theory = theory_of(self.scenario, prediction)
        self._observer = Observer(self.scenario, run.variant, 0, theory=theory)
        records = RollingRecords(self._folder.path / "records")
        labels = {"run": self._folder.path.name, "variant": run.variant, "replication": "0", "cluster": self.state.name}

        async def save(measurements: Measurements) -> None:
            await trio.to_thread.run_sync(self._save, run, measurements)

        self._lifetime = lifetime = LongRunning(self.scenario, self._display.announce)
        self._controller = controller = Controller(
            self.scenario,
            0,
            labels=labels,
            theory=theory,
            lifetime=lifetime,
            save=save,
            announce=self._display.announce,
            observe=self._observe,
            records=records,
            logs=self.logs,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drain_when_shut_down, lifetime, controller)
            try:
                await controller.run()
            finally:
                shutil.copytree(self.logs, self._folder.path / "logs", dirs_exist_ok=True)
            shutil.rmtree(self._folder.path / "records")
            nursery.cancel_scope.cancel()
        return controller.failure

    async def _drain_when_shut_down(self, lifetime: LongRunning, controller: Controller) -> None:
        await self._shut_down.wait()
        await lifetime.drain(controller)

    def _save(self, run: VariantRun, measurements: Measurements) -> None:
        scenario = self.scenario
        asked = nominal(scenario)
        if scenario.dispatch.policy != run.scenario.dispatch.policy:
            run.variant = scenario.dispatch.policy
        run.scenario = self.result.scenario = scenario
        run.prediction = prediction = predict(scenario)
        run.cluster_measurements = measurements
        run.cluster = summarise(
            measurements,
            asked,
            variant=run.variant,
            replication=0,
            time_unit_seconds=scenario.run.time_unit_seconds,
            window=self._window(measurements, asked.relaxation_time),
            began=self._settled,
            prediction=msgspec.to_builtins(prediction),
            calibration=run.calibration,
        )
        replace_file(self._folder.path / "scenario.toml", resolved(scenario).encode())
        keep_records(self._folder, run)
        self._folder.close_records()
        self._folder.write_summaries([run.cluster])
        self.result.runs.append(run)

    def _window(self, measurements: Measurements, relaxation: float | None) -> tuple[float, float]:
        """Return the measured time: under the present settings, warmed up, and as far back as records and slices go."""
        stop = measurements.stopped_at
        starts = [self._settled, kept_since(measurements)]
        if len(measurements.occupancy_edges):
            starts.append(float(measurements.occupancy_edges[0]))
        least = self.scenario.horizon - self.scenario.run.duration
        if self.scenario.run.warmup == "auto":
            began = min(max(starts), stop)
            return automatic_start(measurements.columns, (began, stop), least, relaxation), stop
        warm = max(starts) + least
        return (warm if warm < stop else min(max(starts), stop)), stop

    # --- what others see of it ---

    def _observe(self, controller: Controller) -> None:
        assert self._observer is not None
        self._snapshot = snapshot = self._observer.snapshot(controller.members, controller.incidents)
        processes = [ProcessEntry(p.name, p.pid, p.restarts, p.metrics) for p in snapshot.processes]
        if processes != self.state.processes:
            self.state.processes = processes
            if self._page is None and self._order.page is not None:
                self._page, self.state.dash = self._start_page(self.state.name, self._order.page)
            self._claim.write(self.state)
            self._folder.write_targets(controller.metrics_targets())
        self._display.show(snapshot)
        for follower in list(self._followers):
            try:
                follower.send_nowait(snapshot)
            except trio.WouldBlock:  # it is slow, and misses this snapshot
                continue
            except trio.BrokenResourceError:
                self._followers.discard(follower)

    # --- the control socket ---

    def _listen(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(os.fspath(self._claim.folder / "control"))
        sock.listen(BACKLOG)
        sock.setblocking(False)
        return sock

    async def _serve(self, sock: socket.socket) -> None:
        channel: Channel[Request] = Channel(trio.SocketStream(trio.socket.from_stdlib_socket(sock)), REQUEST)
        try:
            while (request := await channel.receive()) is not None:
                if isinstance(request, Status):
                    await channel.send(StatusReply(self.state, self._snapshot))
                elif isinstance(request, Set):
                    await channel.send(await self._change(request.settings))
                elif isinstance(request, Down):
                    self._waiting += 1
                    try:
                        self._shut_down.set()
                        await self._saved.wait()
                        failure = self._controller.failure if self._controller is not None else None
                        await channel.send(Saved(str(self._folder.path), failure))
                    finally:
                        self._waiting -= 1
                elif isinstance(request, Follow):
                    await self._follow(channel)
        except (ProtocolError, trio.BrokenResourceError):
            pass
        finally:
            await channel.aclose()

    async def _follow(self, channel: Channel[Request]) -> None:
        sender, receiver = trio.open_memory_channel[Snapshot](1)
        self._followers.add(sender)
        try:
            async for snapshot in receiver:
                await channel.send(Snapshots(snapshot))
        finally:
            self._followers.discard(sender)

    async def _change(self, settings: dict[str, Any]) -> Changed | Refused:
        controller, lifetime, observer = self._controller, self._lifetime, self._observer
        up = controller is not None and controller.started and not self._shut_down.is_set()
        if controller is None or lifetime is None or observer is None or not up:
            return Refused("the cluster is starting, or shutting down")
        async with self._changing:
            try:
                scenario = changed(self.scenario, settings)
            except (ScenarioError, LongRunningError) as error:
                return Refused(str(error))
            prediction = await trio.to_thread.run_sync(predict, scenario)
            theory = theory_of(scenario, prediction)
            at = await lifetime.change(controller, scenario, theory)
            self.scenario = scenario
            self._settled = at
            observer.restart(scenario, theory, at)
            self._folder.write_targets(controller.metrics_targets())
        what = f"load {scenario.load:.4g}, policy {_with_parameters(scenario)}"
        if scenario.load >= theory.stability_bound:
            what += f" (unstable: the stability bound is {theory.stability_bound:.4g}, and the queues will grow)"
        self._display.announce(f"{what} from time {at:.1f} on")
        return Changed(at, what)


def _with_parameters(scenario: Scenario) -> str:
    parameters: Any = scenario.dispatch.parameters
    defaults = msgspec.structs.asdict(type(parameters)())
    found = msgspec.structs.asdict(parameters)
    settings = ", ".join(f"{key} = {value}" for key, value in found.items() if value != defaults[key])
    return scenario.dispatch.policy + (f" with {settings}" if settings else "")
