"""Run every command of the README and the guides, as a reader would type them.

Fenced blocks marked ``sh`` are run by bash, stopping at the first command that fails; blocks marked ``python`` by
Python; blocks marked ``toml`` whose first line is a comment with a file name are saved as that file. The blocks of one
document share a folder of their own, so that later ones may use what earlier ones made. Lines that begin with ``make``
are left out: the commands that they stand for are run by the continuous integration itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(sh|python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w-]+\.(?:toml|py))\n")


def documents() -> list[Path]:
    """Return the documents with commands in them."""
    return [ROOT / "README.md", *sorted((ROOT / "testbed" / "docs").glob("*.md"))]


def run(document: Path) -> bool:
    """Run the blocks of a document; return whether all succeeded."""
    environment = {**os.environ, "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(prefix="docs-") as folder:
        for language, text in BLOCK.findall(document.read_text(encoding="utf-8")):
            name = FILE.match(text)
            if name:
                (Path(folder) / name[1]).write_text(text, encoding="utf-8")
                continue
            if language == "toml":
                continue
            if language == "sh":
                text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("make"))
                command = ["bash", "-euo", "pipefail", "-c", text]
            else:
                command = [sys.executable, "-c", text]
            start = time.monotonic()
            done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=False)
            first = next((line for line in text.splitlines() if line.strip()), "(make only)")
            print(
                f"{document.name}: exit {done.returncode} after {time.monotonic() - start:.1f} s: {first}", flush=True
            )
            if done.returncode:
                return False
    return True


if __name__ == "__main__":
    sys.exit(1 if False in [run(document) for document in documents()] else 0)
