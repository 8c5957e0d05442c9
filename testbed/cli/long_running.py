"""The commands for long-running clusters: ``testbed up``, ``ps``, ``logs``, ``set`` and ``down``."""

from __future__ import annotations

import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console

from testbed.cli.app import INTERRUPTED, ScenarioArgument, announce_unstable, app, fail, finish, read
from testbed.cli.running import display_for
from testbed.cli.watching import LOOPBACK, HostOption, PortOption, TokenOption, open_page, print_page, require_page
from testbed.scenario import ScenarioError, resolved, variants

if TYPE_CHECKING:
    from testbed.cluster.snapshot import Snapshot
    from testbed.runs.long_running import State
    from testbed.scenario import Scenario

NameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="the cluster's name; not needed if only one is running")
]
FOLLOW_SECONDS = 0.2


@app.command()
def up(
    scenario: ScenarioArgument,
    name: Annotated[str | None, typer.Option(help="a name for the cluster \\[default: the scenario's name]")] = None,
    variant: Annotated[str | None, typer.Option(help="the variant to run \\[default: the scenario itself]")] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="return as soon as the cluster runs")] = False,
    output: Annotated[Path, typer.Option(help="create the run folder in this folder")] = Path("runs"),
    http_sd: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="loopback port of the HTTP service discovery for Prometheus; 0: any free port",
        ),
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show only the results")] = False,
    dash: Annotated[
        bool, typer.Option("--dash", help="serve a page in the browser that shows the cluster and can change it")
    ] = False,
    host: HostOption = LOOPBACK,
    port: PortOption = 0,
    token: TokenOption = None,
) -> None:
    """Start a scenario's cluster and keep it running until `testbed down`, or Ctrl-C in the foreground.

    Exit status: 0 when it ran until it was shut down, 1 when it did not start or something broke it, 2 for bad input.
    """
    from testbed.cli.detached import start
    from testbed.cluster.processes import ClusterError
    from testbed.present.dash.reporter import start_cluster_page
    from testbed.runs.execution import execute
    from testbed.runs.long_running.cluster import LongRunningCluster, Order, PageOrder
    from testbed.runs.long_running.register import NAME, LongRunningError
    from testbed.runs.probe_rate import check_calibration
    from testbed.runs.run_folder import OutputError

    require_page(dash, host, port, token)
    settings = read(scenario)
    chosen, base = _variant(settings, variant)
    console = Console(stderr=True)
    display = display_for(console, quiet, live=not detach)
    if variant is None and settings.variants:
        others = ", ".join(f'"{other.name}"' for other in settings.variants)
        display.announce(f"the cluster runs {chosen} only; choose another variant with --variant: {others}")
    if settings.sweep is not None:
        display.announce("the scenario's sweep is ignored")
    named = name or settings.name.replace(" ", "-")
    if name is None and not NAME.fullmatch(named):
        fail(
            f"the scenario's name {settings.name!r} can't be a cluster's name; set one with --name: letters, digits, "
            "_, . and -, at most 64"
        )
    order = Order(named, chosen, resolved(base), str(output.absolute()), http_sd)
    address = None
    if dash:
        place = open_page(host, port, token)
        address = place.address
        order.page = PageOrder(place.sock.detach(), host, token)
    try:
        check_calibration(base)
        announce_unstable(base, display)
        if detach:
            try:
                state = start(order)
            except KeyboardInterrupt:
                print("interrupted: the cluster was starting, and was shut down", file=sys.stderr)
                raise typer.Exit(INTERRUPTED) from None
            if address is not None:
                print_page(address)
            print(f"{state.name} is running; `testbed ps` shows it, `testbed down {state.name}` ends it")
            return
        cluster = LongRunningCluster(order, display, start_cluster_page)
        if address is not None:
            print_page(address)
        with display:
            execute(cluster)
    except (OutputError, ScenarioError, LongRunningError) as error:
        fail(error)
    except ClusterError as error:
        fail(error, 1)
    finish(cluster.result)


def _variant(scenario: Scenario, wanted: str | None) -> tuple[str, Scenario]:
    """Return the name and the settings of the variant, or of the scenario itself, as a scenario without variants."""
    found = dict(variants(msgspec.structs.replace(scenario, sweep=None)))
    if wanted is not None and wanted not in found:
        fail(f'there is no variant "{wanted}"; the variants are: {", ".join(found)}')
    chosen = wanted if wanted is not None else next(iter(found))
    # A long-running cluster continues after the death of a process, and must not lose the jobs of that process.
    cluster = msgspec.structs.replace(found[chosen].cluster, on_failure="redispatch")
    return chosen, msgspec.structs.replace(found[chosen], cluster=cluster, variants=[], sweep=None)


@app.command()
def ps() -> None:
    """List the long-running clusters: age, load, job rate, response time, processes and their metrics addresses."""
    from testbed.runs.long_running import LongRunningError, clusters, connect
    from testbed.runs.long_running.register import clean
    from testbed.runs.tables import new_table, print_line, print_table, standard_output

    table = new_table("long-running clusters; recent mean response times, in time units")
    for heading in ("cluster", "scenario", "policy", "age", "load", "jobs/s", "mean", "theory", "in system"):
        table.add_column(heading, justify="left" if heading in ("cluster", "scenario", "policy") else "right")
    processes = new_table("processes")
    for heading in ("cluster", "process", "pid", "restarts", "CPU", "metrics"):
        processes.add_column(heading, justify="left" if heading in ("cluster", "process", "metrics") else "right")
    pages = []
    try:
        gone = clean()
        for state in clusters():
            if state.dash is not None:
                pages.append(f"{state.name}: page {state.dash}")
            snapshot = None
            try:
                with connect(state.name) as client:
                    snapshot = client.status().snapshot
            except LongRunningError as error:
                print(f"warning: {error}", file=sys.stderr)
            table.add_row(state.name, state.scenario, *_figures(state, snapshot))
            for process in snapshot.processes if snapshot is not None else ():
                alive = str(process.pid) if process.alive else "dead"
                cpu = f"{process.cpu_share:.0%}"
                processes.add_row(state.name, process.name, alive, str(process.restarts), cpu, process.metrics or "-")
    except LongRunningError as error:
        fail(error)
    console = standard_output()
    if table.row_count:
        print_table(console, table)
        print_table(console, processes)
        for page in pages:
            print_line(console, page)
    else:
        console.print("no cluster is running; start one with `testbed up`")
    for line in gone:
        print_line(console, line)


def _figures(state: State, snapshot: Snapshot | None) -> list[str]:
    from testbed.runs.tables import number

    if snapshot is None:
        return ["-", _age(state), *["-"] * 5]
    return [
        snapshot.policy,
        _age(state),
        f"{snapshot.load:.4g}",
        f"{snapshot.jobs_per_second:,.0f}",
        number(snapshot.recent.mean),
        number(snapshot.theory.mean if snapshot.theory is not None else None),
        str(snapshot.in_system),
    ]


def _age(state: State) -> str:
    seconds = int(time.time() - state.started)
    days, rest = divmod(seconds, 86400)
    hours, minutes, seconds = rest // 3600, rest // 60 % 60, rest % 60
    return f"{days}d {hours}h" if days else f"{hours}h {minutes}m" if hours else f"{minutes}m {seconds}s"


@app.command()
def logs(
    name: NameArgument = None,
    process: Annotated[str | None, typer.Option(help="show this process only \\[default: all]")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="wait for more output, until the cluster ends")
    ] = False,
) -> None:
    """Show the output of the processes of a long-running cluster."""
    from testbed.runs.long_running import LongRunningError, connect
    from testbed.runs.long_running.register import folder_of

    try:
        with connect(name) as client:
            folder = folder_of(client.name) / "logs"
    except LongRunningError as error:
        fail(error)
    files = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if process is not None and process not in files:
        fail(f'there is no log of a process "{process}"; there are logs of: {", ".join(files)}')
    shown = [process] if process is not None else list(files)
    read_until = dict.fromkeys(shown, 0)
    while True:
        for each in shown:
            try:
                with files[each].open("rb") as file:
                    file.seek(read_until[each])
                    text = file.read()
            except FileNotFoundError:  # the cluster has ended
                return
            whole = text[: text.rfind(b"\n") + 1]
            read_until[each] += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                print(line if process is not None else f"{each}: {line}", flush=True)
        if not follow:
            return
        time.sleep(FOLLOW_SECONDS)


@app.command("set")
def set_(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="[NAME] KEY=VALUE...", help="such as workload.load=0.95, or dispatch.policy=jiq"),
    ],
) -> None:
    """Change the load or the dispatching policy of a long-running cluster, without losing a job."""
    from testbed.runs.long_running import LongRunningError, connect

    name = None if "=" in arguments[0] else arguments[0]
    settings = {}
    for argument in arguments[0 if name is None else 1 :]:
        key, equals, value = argument.partition("=")
        if not equals or not key:
            fail(f"{argument!r} is not KEY=VALUE, such as workload.load=0.95")
        settings[key] = _value(value)
    if not settings:
        fail("no setting to change; give KEY=VALUE, such as workload.load=0.95")
    try:
        with connect(name) as client:
            changed = client.set(settings)
    except LongRunningError as error:
        fail(error)
    print(f"{client.name}: {changed.said} from time {changed.at:.1f} on")


def _value(text: str) -> Any:
    """Return the value of a TOML expression; any other text is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


@app.command()
def down(name: NameArgument = None) -> None:
    """End a long-running cluster: stop arrivals, let the jobs finish, and save the measurements in a run folder."""
    from testbed.runs.long_running import LongRunningError, connect
    from testbed.runs.result import read_result
    from testbed.runs.run_folder import OutputError

    try:
        with connect(name) as client:
            saved = client.down()
        result = read_result(Path(saved.run_folder))
    except (OutputError, LongRunningError) as error:
        fail(error)
    if saved.failure is not None:
        print(f"error: {saved.failure}", file=sys.stderr)
    finish(result)
