"""The containers of deploy/: pinned, without privileges, and with their paths in agreement."""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
PINNED = re.compile(r"\S+:v?\d+\.\d+\.\d+(-[\w-]+)?")


def read(path: str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text())


SERVICES: dict[str, Any] = read("compose.yaml")["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_pinned_and_have_no_privileges(name: str) -> None:
    service = SERVICES[name]
    assert PINNED.fullmatch(service["image"])
    assert int(service["user"].split(":")[0]) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    if service.get("restart") != "no":  # one that is over at once has no health
        assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", SERVICES)
def test_what_services_mount_exists(name: str) -> None:
    volumes = read("compose.yaml")["volumes"]
    for mount in SERVICES[name]["volumes"]:
        source = mount.split(":")[0]
        assert (DEPLOY / source).is_dir() if source.startswith("./") else source in volumes


def mounted(name: str) -> dict[str, str]:
    """Return what a service mounts, by where."""
    return {mount.split(":")[1]: mount.split(":")[0] for mount in SERVICES[name]["volumes"]}


def test_prometheus_looks_for_runs_where_the_testbed_leaves_them() -> None:
    (scraped, *_) = read("prometheus/prometheus.yml")["scrape_configs"]
    (pattern,) = scraped["file_sd_configs"][0]["files"]
    seen = os.path.normpath(os.path.join("/etc/prometheus", pattern))
    assert os.path.dirname(seen) == "/runs"
    assert mounted("prometheus")["/runs"] == mounted("testbed")["/runs"] == "runs"
    assert SERVICES["testbed"]["command"][-2:] == ["--output", "/runs"]
    # Metrics are served on loopback.
    assert SERVICES["testbed"]["network_mode"] == "service:prometheus"


def test_the_volume_of_runs_is_first_mounted_by_the_image_whose_user_writes_to_it() -> None:
    first = SERVICES["runs"]
    assert (first["image"], first["user"]) == (SERVICES["testbed"]["image"], SERVICES["testbed"]["user"])
    assert mounted("runs") == {"/runs": "runs"}
    assert SERVICES["prometheus"]["depends_on"] == {"runs": {"condition": "service_completed_successfully"}}
    assert "prometheus" in SERVICES["testbed"]["depends_on"]


def test_grafana_is_provisioned_with_prometheus_and_the_dashboards() -> None:
    (source,) = read("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    assert source["url"] == "${PROMETHEUS_URL}"
    assert SERVICES["grafana"]["environment"]["PROMETHEUS_URL"] == "http://prometheus:9090"
    interval = read("prometheus/prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval
    (provider,) = read("grafana/provisioning/dashboards/testbed.yaml")["providers"]
    assert mounted("grafana")[provider["options"]["path"]] == "./grafana/dashboards"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DEPLOY / "grafana" / "dashboards" / Path(home).name).is_file()


def test_the_image_is_of_a_pinned_base_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    (base,) = re.findall(r"^ARG BASE=(\S+)$", text, re.MULTILINE)
    assert PINNED.fullmatch(base)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}
    (user,) = re.findall(r"^USER (\S+)$", text, re.MULTILINE)
    assert user == SERVICES["testbed"]["user"]
    kept = set(re.findall(r"^!(\S+)$", (DEPLOY.parent / ".dockerignore").read_text(), re.MULTILINE))
    copied = {source for line in re.findall(r"^COPY (?!--)(.+)$", text, re.MULTILINE) for source in line.split()[:-1]}
    assert copied == kept
