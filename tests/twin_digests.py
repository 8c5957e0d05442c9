"""Print a digest of what the twin records for every shipped scenario, shortened: equal lines mean equal results.

Run it before and after a change that must keep behaviour, and compare the two outputs:

    python tests/twin_digests.py > before.txt

Each scenario runs as it is, and once more with two dispatchers and message delay where it takes them. A digest covers
the names, the types and the values of all columns of ``twin.parquet``, ``twin_tasks.parquet`` and
``twin_copies.parquet``, to the last bit; it does not cover what Parquet itself writes beside them.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

FORMS = {"as it is": "", "delayed": "dispatchers = 2\nmessage_delay = 0.05\n"}
TABLES = ("twin", "twin_tasks", "twin_copies")
SHIPPED = ("testbed/scenario/shipped", "testbed/scenarios")


def digest(path: Path) -> str:
    """Return a digest of a table's columns."""
    table = pq.read_table(path).combine_chunks()
    total = hashlib.sha256()
    for name in table.column_names:
        column = table.column(name)
        total.update(f"{name} {column.type} ".encode())
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                total.update(b"none" if buffer is None else buffer)
    return f"{total.hexdigest()[:24]} {table.num_rows} rows"


def shortened(text: str, cluster: str) -> str:
    """Return a scenario with a short run, and with further settings of its cluster."""
    text = re.sub(r"^warmup = .*$", "warmup = 10", text, flags=re.M)
    text = re.sub(r"^duration = .*$", "duration = 50", text, flags=re.M)
    text = re.sub(r"^\[sweep.*", "", text, flags=re.M | re.S)  # the last table, where there is one
    if "[cluster]\n" not in text:
        return text.replace("[[cluster.pools]]", "[cluster]\n" + cluster + "\n[[cluster.pools]]", 1)
    kept = [line for line in text.splitlines() if not (cluster and re.match(r"(dispatchers|message_delay) =", line))]
    return "\n".join(kept).replace("[cluster]", "[cluster]\n" + cluster, 1)


def lines(path: Path, form: str) -> list[str]:
    """Run a scenario on the twin and return a line for each of its tables."""
    name = f"{path.stem}, {form}"
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder, path.name)
        scenario.write_text(shortened(path.read_text(), FORMS[form]))
        command = [sys.executable, "-m", "testbed", "run", str(scenario), "--virtual", "--quiet", "--output", folder]
        ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if ran.returncode == 2 and form != "as it is":
            return [f"{name}: refused"]
        if ran.returncode:
            return [f"{name}: exit {ran.returncode}: {ran.stderr[-300:]}"]
        tables = [table for stem in TABLES for table in sorted(Path(folder).rglob(f"{stem}.parquet"))]
        return [f"{name}: {table.name} {digest(table)}" for table in tables]


def main() -> None:
    """Print the lines of all scenarios, in order."""
    folder = next(Path(name) for name in SHIPPED if Path(name).is_dir())
    runs = [(path, form) for path in sorted(folder.glob("*.toml")) for form in FORMS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda run: lines(*run), runs):
            print("\n".join(found), flush=True)


if __name__ == "__main__":
    main()
