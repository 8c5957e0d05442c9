"""The commands ``testbed schema`` and ``testbed policies``, which list the possible contents of a scenario."""

from __future__ import annotations

import json

import msgspec

from testbed.cli.app import app
from testbed.scenario import json_schema


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files."""
    print(json.dumps(json_schema(), indent=2))


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
