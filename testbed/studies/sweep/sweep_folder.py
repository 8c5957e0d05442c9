"""The folder of a sweep, from which an interrupted sweep is resumed.

scenario.toml      the resolved scenario
sweep.json         where it runs, the target, and a digest of the scenario
runs.jsonl         a line per finished run: point, variant, replication and summaries (testbed.measure.summary)
sweep.parquet      the results as one table (testbed.studies.sweep.tidy_table), written when the sweep ends or is
                   interrupted
sweep.csv          the same
environment.json   versions, cores, when, how long

A run is finished when its line is there, with its end. The line is written in one piece and synchronised with the disk.
A process that is killed leaves no line or, at worst, a part of one, which is removed on resuming. The file is locked
while a sweep makes runs, so that two sweeps can't make the same runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from testbed.runs.run_folder import OutputError, make_folder, replace_file, require_schema, write_environment
from testbed.scenario import Scenario, ScenarioError, load, resolved
from testbed.studies.store import StudyFolder
from testbed.studies.sweep.plan import FinishedRun, Goal, Plan, RunKey

SCHEMA = 1


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA
    scenario: str  # digest of scenario.toml
    goal: Goal


class SweepFolder(StudyFolder):
    """A folder that is open for one sweep, and the runs that it holds."""

    remedy = "make room and go on with --resume"

    def __init__(self, path: Path, scenario: Scenario, header: _Header) -> None:
        """Open a folder, and lock it. Raises OutputError when it is open already."""
        super().__init__(path)
        self.scenario = scenario
        self.goal = header.goal
        self._header = header
        self.runs: dict[RunKey, FinishedRun] = {}
        self._log = self._open()

    @classmethod
    def begin(cls, scenario: Scenario, goal: Goal, parent: Path) -> Self:
        """Make a new folder in ``parent``. Raises OutputError."""
        path = make_folder(parent, scenario.name)
        text = resolved(scenario).encode()
        (path / "scenario.toml").write_bytes(text)
        write_environment(path, time.time(), None)
        # This file is written last, because it makes the folder one of a sweep.
        header = _Header(scenario=_digest(text), goal=goal)
        _write_header(path, header)
        return cls(path, scenario, header)

    @classmethod
    def resume(cls, path: Path, scenario: Scenario | None = None) -> Self:
        """Open the folder of an interrupted sweep, with its finished runs.

        Raises OutputError when the folder holds no sweep, or, if ``scenario`` is given, a sweep of another scenario.
        """
        header = _read_header(path)
        try:
            found = load(path / "scenario.toml")
        except ScenarioError as error:
            raise OutputError(str(error)) from None
        # Of the file, not of what this version would write: keys and defaults may have been added since.
        if _digest((path / "scenario.toml").read_bytes()) != header.scenario:
            raise OutputError(
                f"{path / 'scenario.toml'}: was changed since the sweep began, and does not describe the finished "
                "runs; undo the change, or begin a new sweep"
            )
        if scenario is not None and resolved(scenario) != resolved(found):
            raise OutputError(
                f"{path}: holds a sweep of another scenario, or of this one before it was changed (see scenario.toml "
                "there); begin a new sweep, or give --resume alone to resume that one"
            )
        return cls(path, found, header)

    def change_goal(self, goal: Goal) -> None:
        """Set another target or budget. Raises OutputError for other places, on which runs would be missing."""
        if goal.on != self.goal.on:
            raise OutputError(
                f"{self.path}: the sweep runs on {','.join(self.goal.on)}, not on {','.join(goal.on)}; begin a new one"
            )
        self.goal = goal
        self._header = msgspec.structs.replace(self._header, goal=goal)
        _write_header(self.path, self._header)

    def _open(self) -> BinaryIO:
        try:
            log = (self.path / "runs.jsonl").open("a+b", buffering=0)
        except OSError as error:
            raise OutputError(f"{self.path / 'runs.jsonl'}: {error.strerror}") from None
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            log.close()
            raise OutputError(f"{self.path}: another process is running this sweep; wait for it") from None
        try:
            log.seek(0)
            text = log.read()
            os.ftruncate(log.fileno(), _whole(text))
            self.runs = _decoded(text[: _whole(text)], self.path / "runs.jsonl", self.scenario, self.goal)
        except BaseException:
            log.close()
            raise
        return log

    def add(self, run: FinishedRun) -> None:
        """Save a finished run on the disk. Raises OutputError when the disk is full."""
        line = msgspec.json.encode(run) + b"\n"
        size = os.fstat(self._log.fileno()).st_size
        try:
            written = self._log.write(line)
            if written != len(line):
                os.ftruncate(self._log.fileno(), size)
                raise OSError(0, "no room for a whole line")
            os.fsync(self._log.fileno())
        except OSError as error:
            raise OutputError(f"{self.path / 'runs.jsonl'}: {error.strerror}; {self.remedy}") from None
        self.runs[run.key] = run

    def close(self) -> None:
        """Complete ``environment.json``, and unlock the folder."""
        super().close()
        self._log.close()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _write_header(path: Path, header: _Header) -> None:
    replace_file(path / "sweep.json", msgspec.json.format(msgspec.json.encode(header), indent=2))


def _read_header(path: Path) -> _Header:
    file = path / "sweep.json"
    try:
        text = file.read_bytes()
        remedy = "resume it with that version, or begin a new sweep"
        require_schema(file, text, SCHEMA, unnumbered=SCHEMA, remedy=remedy)
        return msgspec.json.decode(text, type=_Header)
    except FileNotFoundError:
        raise OutputError(f"{path}: not the folder of a sweep (it has no sweep.json)") from None
    except OSError as error:
        raise OutputError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise OutputError(f"{file}: not what a sweep writes ({error})") from None


def _decoded(text: bytes, path: Path, scenario: Scenario, goal: Goal) -> dict[RunKey, FinishedRun]:
    runs: dict[RunKey, FinishedRun] = {}
    if not text:
        return runs
    plan = Plan(scenario, goal)
    for number, line in enumerate(text.splitlines(), 1):
        try:
            run = msgspec.json.decode(line, type=FinishedRun)
        except ValueError as error:
            raise OutputError(
                f"{path}: line {number} is not a finished run ({error}); remove the line, and the run is made again"
            ) from None
        if not plan.can_have(run.key):
            raise OutputError(
                f"{path}: line {number} is not of a run of this sweep ({run.key}); remove the line, and what is "
                "missing is made again"
            )
        runs[run.key] = run
    return runs


def read_sweep(path: Path) -> tuple[Scenario, Goal, dict[RunKey, FinishedRun]]:
    """Return what the folder of a sweep holds, also while its runs are made. Raises OutputError or ScenarioError."""
    header = _read_header(path)
    log = path / "runs.jsonl"
    text = log.read_bytes() if log.exists() else b""
    scenario = load(path / "scenario.toml")
    return scenario, header.goal, _decoded(text[: _whole(text)], log, scenario, header.goal)


def _whole(text: bytes) -> int:
    """Return the length of the complete lines."""
    return text.rfind(b"\n") + 1
