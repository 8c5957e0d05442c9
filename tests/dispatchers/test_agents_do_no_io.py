"""Agents are plain state machines (architecture.md, rule 1): what ``dispatchers/`` and ``servers/`` may import."""

import ast
from pathlib import Path

import pytest

import dispatchers
import servers

FORBIDDEN = {
    *("trio", "socket", "time", "random", "asyncio", "threading", "os", "io", "select", "selectors", "subprocess"),
    *("multiprocessing", "datetime", "secrets", "uuid", "numpy.random"),
}
#: The parts of the workbench that agents stand on; the dependencies point one way.
ALLOWED = {
    "testbed.core.agent",
    "testbed.core.copy_life",
    "testbed.core.outcomes",
    "testbed.core.records",
    "testbed.core.rows",
    "testbed.core.placed_pool",
    "testbed.core.messages",
    "testbed.core.streams",
}
MODULES = sorted(path for package in (dispatchers, servers) for path in Path(package.__path__[0]).rglob("*.py"))


def offences(source: str) -> list[str]:
    """Return what a module must not have."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module=module, names=names):
                modules = [module or "", *(f"{module}.{name.name}" for name in names)]
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
                modules = ["numpy.random"]
            case ast.Name(id="open" | "print" | "input" | "__import__" as name):
                modules = []
                found.append(name)
            case _:
                modules = []
        for module in modules:
            parts = module.split(".")
            prefixes = {".".join(parts[: i + 1]) for i in range(len(parts))}
            if prefixes & FORBIDDEN or (parts[0] == "testbed" and not prefixes & ALLOWED and module != "testbed"):
                found.append(module)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_agent_neither_does_io_nor_reads_a_clock_nor_draws_from_a_global_generator(path):
    assert offences(path.read_text()) == []


def test_all_modules_are_looked_at():
    names = {f"{path.parent.name}/{path.name}" for path in MODULES}
    assert names >= {"dispatchers/dispatcher.py", "dispatchers/power_of_d.py", "servers/server.py"}


@pytest.mark.parametrize(
    "source",
    [
        "import trio",
        "import os.path",
        "from time import monotonic",
        "def f():\n    import random",
        "from numpy import random",
        "import numpy as np\nnp.random.default_rng()",
        "open('x')",
        "from testbed.runtime.virtual import VirtualRuntime",
        "from testbed import metrics",
    ],
)
def test_an_offence_is_found(source):
    assert offences(source)
