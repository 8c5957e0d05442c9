"""The committed dashboards are those that the code builds, and they are complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
GRAFANA = ROOT / "deploy" / "grafana"
NAMES = ("cluster", "emulation-health", "policies")


def test_the_committed_dashboards_are_what_the_code_builds(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(GRAFANA / "dashboards.py"), str(tmp_path)], check=True, timeout=60)
    built = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert built == {path.name: path.read_text() for path in (GRAFANA / "dashboards").iterdir()}, (
        "write them anew: python deploy/grafana/dashboards.py"
    )
    assert sorted(built) == [f"{name}.json" for name in NAMES]


def read(name: str) -> Any:
    return json.loads((GRAFANA / "dashboards" / f"{name}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_panels_say_what_they_show_and_do_not_overlap(name: str) -> None:
    dashboard = read(name)
    assert dashboard["uid"] == f"testbed-{name}"
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"]["uid"] == "${datasource}"
        assert [target["refId"] for target in panel["targets"]] == [*"ABCDEFGH"][: len(panel["targets"])]
        assert len({target["legendFormat"] for target in panel["targets"]}) == len(panel["targets"]) or (
            panel["type"] == "table"
        )


def test_uids_and_titles_of_dashboards_differ() -> None:
    dashboards = [read(name) for name in NAMES]
    assert len({dashboard["title"] for dashboard in dashboards}) == len(NAMES)
    for dashboard in dashboards:
        assert [variable["name"] for variable in dashboard["templating"]["list"]] == ["datasource", "run", "variant"]


def test_metrics_in_queries_and_rules_are_documented() -> None:
    documented = (ROOT / "testbed" / "docs" / "metrics.md").read_text()
    sources = [json.dumps(read(name)) for name in NAMES]
    sources += [(ROOT / "deploy" / "prometheus" / name).read_text() for name in ("rules.yml", "alerts.yml")]
    names = {name for text in sources for name in re.findall(r"(?<![:\w])testbed_\w+", text)}
    assert len(names) > 20
    for name in names:
        assert re.sub(r"_(bucket|sum|count)$", "", name) in documented, name
