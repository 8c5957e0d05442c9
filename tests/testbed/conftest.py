"""A browser for those who test what it shows, and what clusters must not leave behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def open_browser(profile: Path) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--window-size=1280,3000",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser, one for all tests of a module: it takes seconds to start."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        assert "CI" not in os.environ, "chromium and chromium-driver are missing; .ci/run installs them"
        pytest.skip("needs chromium and chromium-driver")
    with open_browser(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def browser(chromium: Any) -> Iterator[Any]:
    """The browser; a test fails if its page has written anything to the console."""
    chromium.get_log("browser")
    yield chromium
    assert chromium.get_log("browser") == []
    chromium.get("about:blank")


@pytest.fixture(scope="session")
def processes_in() -> Callable[[Path], list[int]]:
    """Find the processes of clusters whose controller keeps its socket or its temporary files in a folder."""

    def find(folder: Path) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environment = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if f"TMPDIR={folder}\0".encode() in environment and b"TESTBED_CONTROL=" in environment:
                    found.append(int(entry.name))
        return found

    return find
