"""The testbed's Grafana dashboards: ``python deploy/grafana/dashboards.py [FOLDER]`` writes them as JSON.

The default folder is ``dashboards/`` next to this file, from which Grafana is provisioned. The script needs
grafana-foundation-sdk; Grafana needs only the JSON files.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cluster import cluster
from emulation_health import emulation_health
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from policies import policies


def write(folder: Path) -> None:
    """Write all dashboards into a folder."""
    for name, dashboard in (
        ("cluster", cluster()),
        ("policies", policies()),
        ("emulation-health", emulation_health()),
    ):
        text = JSONEncoder(sort_keys=True, indent=2).encode(dashboard)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "dashboards")
