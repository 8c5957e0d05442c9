"""The commands that watch: what they refuse, and how."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from testbed.cli import app


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dash", "nowhere"], "nowhere is not a folder of a run"),
        (["run", "quickstart", "--dash", "--host", "0.0.0.0"], "--token"),
        (["run", "quickstart", "--dash", "--host", "0.0.0.0", "--token", "short"], "16 or more"),
        (["run", "quickstart", "--dash", "--virtual"], "no cluster to watch"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
