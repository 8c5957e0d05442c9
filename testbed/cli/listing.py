"""Commands that list what a scenario may contain, and the scenarios that come with the testbed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from testbed.cli.app import app, fail
from testbed.scenario import json_schema
from testbed.scenario.errors import suggestion
from testbed.scenario.scenario_files import shipped

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="a shipped scenario, see testbed scenarios")]


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files."""
    print(json.dumps(json_schema(), indent=2))


@app.command()
def scenarios() -> None:
    """List the scenarios that come with the testbed."""
    from testbed.runs.tables import new_table, print_table, standard_output

    table = new_table("shipped scenarios; testbed show NAME prints one")
    table.add_column("scenario", no_wrap=True)
    table.add_column("what it shows")
    for name, text in shipped().items():
        first = text.split("\n\n", 1)[0]
        about = " ".join(line.removeprefix("#").strip() for line in first.splitlines())
        table.add_row(name, re.split(r":? `testbed|\. |\.$", about, maxsplit=1)[0])
    print_table(standard_output(), table)


@app.command()
def show(name: NameArgument) -> None:
    """Print the file of a shipped scenario."""
    print(_text(name), end="")


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="the file to write")] = Path("scenario.toml"),
    like: Annotated[str, typer.Option(help="the shipped scenario to copy")] = "quickstart",
) -> None:
    """Write a scenario file to start from: a copy of a shipped scenario. Exit status: 0, or 2 for bad input."""
    text = _text(like)
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        fail(f"{file}: is there already; give another name")
    except OSError as error:
        fail(f"{file}: {error.strerror}; choose a file that you may write")
    print(f"{file}: a copy of {like}; edit it, then: testbed run {file}")


def _text(name: str) -> str:
    texts = shipped()
    if name not in texts:
        fail(f"there is no shipped scenario {name!r}{suggestion(name, list(texts))}; testbed scenarios lists them")
    return texts[name]


@app.command()
def policies() -> None:
    """List the dispatching policies with their parameters."""
    from testbed.runs.tables import new_table, print_table, standard_output
    from testbed.scenario.policies import policies as registered

    table = new_table("dispatching policies; defaults of parameters in brackets")
    for heading in ("policy", "description", "parameters", "source"):
        table.add_column(heading, no_wrap=heading in ("policy", "parameters"))
    for name, policy in sorted(registered().items()):
        parameters = "\n".join(_parameter(field) for field in msgspec.structs.fields(policy.Parameters))
        table.add_row(name, (policy.__doc__ or "").strip().splitlines()[0], parameters or "-", policy.source)
    print_table(standard_output(), table)


def _parameter(field: msgspec.structs.FieldInfo) -> str:
    default = "required" if field.required else "none" if field.default is None else str(field.default)
    return f"{field.encode_name} ({default.lower()})"
