"""The wheel and the sdist install and run in an empty environment, without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SMALL = """
name = "small"
[run]
time_unit = "20ms"
warmup = 5
duration = 20
[[cluster.pools]]
name = "main"
servers = 4
[workload]
load = 0.5
[dispatch]
policy = "power-of-d"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("built")
    run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], folder)
    return folder


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder, as a user without this checkout would; return what it prints."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.package
@pytest.mark.timeout(600)
def test_it_installs_and_runs_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    installed = tmp_path / "venv" / "bin"
    testbed = str(installed / "testbed")
    pip = [str(installed / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    pip += ["--constraint", str(ROOT / "constraints.txt")]
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    (tmp_path / "small.toml").write_text(SMALL)
    run([*pip, str(wheel)], tmp_path)
    run([testbed, "run", "small.toml", "--quiet"], tmp_path)
    run([testbed, "report", str(next((tmp_path / "runs").glob("small-*")))], tmp_path)
    assert "zero-queueing-delay" in run([testbed, "reproduce", "--list"], tmp_path)
    files = run([str(installed / "python"), "-c", INSTALLED], tmp_path)
    for name in ("docs/scenario.md", "present/dash/page/page.js", "workload/data/sample_trace.csv", "py.typed"):
        assert name in files
    run([*pip, "--force-reinstall", "--no-deps", str(sdist)], tmp_path)
    assert "power-of-d" in run([testbed, "run", "quickstart", "--virtual", "--quiet"], tmp_path)


INSTALLED = """
from importlib.resources import files
from pathlib import Path
home = Path(str(files("testbed")))
print(*(path.relative_to(home) for path in home.rglob("*")), sep="\\n")
"""
