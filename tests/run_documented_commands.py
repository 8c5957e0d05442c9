"""Run every command of the README and the guides, as a reader would type them.

Fenced blocks marked ``sh`` are run by bash, stopping at the first command that fails; blocks marked ``python`` by
Python; blocks marked ``toml`` whose first line is a comment with a file name are saved as that file. The blocks of one
document share a folder of their own, so that later ones may use what earlier ones made, and know of no clusters but
their own. Lines that begin with ``make`` are left out: the commands that they stand for are run by the continuous
integration itself. Two documents are run at a time, but for those that hold real processes to the theory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(sh|python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALONE = ("validation.md",)
FILE = re.compile(r"# ([\w-]+\.(?:toml|py))\n")


def documents() -> list[Path]:
    """Return the documents with commands in them."""
    return [ROOT / "README.md", *sorted((ROOT / "testbed" / "docs").glob("*.md"))]


def run(document: Path) -> bool:
    """Run the blocks of a document; return whether all succeeded."""
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="docs-") as folder, tempfile.TemporaryDirectory(prefix="docs-") as standing:
        environment = {**os.environ, "PATH": path, "XDG_RUNTIME_DIR": standing}
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
            with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
                said.seek(0)
                output = said.read()
            first = next((line for line in text.splitlines() if line.strip()), "(make only)")
            took = f"{time.monotonic() - start:.1f} s"
            print(f"{output}{document.name}: exit {done.returncode} after {took}: {first}\n", end="", flush=True)
            if done.returncode:
                return False
    return True


if __name__ == "__main__":
    alone = [document for document in documents() if document.name in ALONE]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, (document for document in documents() if document not in alone)))
    results += [run(document) for document in alone]
    sys.exit(0 if all(results) else 1)
