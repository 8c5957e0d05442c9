"""Standing clusters in a runtime directory of their own, and what must not be left of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCENARIO = """
name = "small"
seed = 3
[run]
time_unit = "10ms"
warmup = 10
duration = 100
drain = 1000 # on a machine that is too slow jobs have waited; it takes no longer than they do
[cluster]
nodes = 2
dispatchers = 2
[[cluster.pools]]
servers = 10
[workload]
load = 0.5
[dispatch]
policy = "random"
[[variants]]
name = "two choices"
set = { "dispatch.policy" = "power-of-d" }
"""


class Place:
    """A folder with a scenario file, a runtime directory and temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.runs = folder / "runs"
        self.temporary.mkdir()
        (folder / "run").mkdir(mode=0o700)
        (folder / "small.toml").write_text(SCENARIO)

    def processes(self) -> list[int]:
        """Return the processes that were started in this place, this one left out."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if f"TMPDIR={self.temporary}\0".encode() in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
        return found

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Start the small scenario's cluster, detached."""
        command = [sys.executable, "-m", "testbed", "up", "small.toml", "--detach", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)

    def wait_for(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait until ``condition()`` holds, and fail if it does not within ``seconds``."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place of its own. At the end no process is left in it, and no temporary file."""
    with tempfile.TemporaryDirectory(prefix="tb") as name:  # short, for the paths of sockets
        found = Place(Path(name))
        monkeypatch.setenv("TMPDIR", str(found.temporary))
        monkeypatch.setattr(tempfile, "tempdir", str(found.temporary))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(found.folder / "run"))
        monkeypatch.chdir(found.folder)
        try:
            yield found
            found.wait_for(lambda: not found.processes(), 15.0)
            assert list(found.temporary.iterdir()) == []
        finally:
            for pid in found.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
