"""The register of long-running clusters: a folder for each, by name, in the user's runtime directory.

NAME/lock         locked while the cluster's supervisor lives, however it ends
NAME/state.json   the cluster's State
NAME/control      the supervisor's socket (testbed.runs.long_running.control)
NAME/logs/        the logs of its processes

The lock, not a process id, shows whether a cluster runs: an id may have been given to another process since, a lock
ends with its owner. Folders without an owner are stale, and whoever finds them removes them. Only the user may read the
directory, or reach a socket in it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import time
import warnings
from pathlib import Path

import msgspec
import platformdirs

from testbed.cluster.metrics.discovery import targets_file_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

#: Why a cluster ended that never ran.
NEVER_STARTED = "did not come up"


class LongRunningError(Exception):
    """A long-running cluster can't be started, reached or changed, and why."""


class ProcessEntry(msgspec.Struct, frozen=True):
    """A process of a long-running cluster; ``metrics`` is host:port of its /metrics, None before it has one."""

    name: str
    pid: int
    restarts: int
    metrics: str | None


class State(msgspec.Struct, kw_only=True):
    """What is known of a long-running cluster without asking it.

    ``started``: seconds since the epoch. ``run_folder`` is where it saves its measurements. ``http_sd`` and ``dash``
    are the addresses of its service discovery and its live page, if there are any. ``ended`` says why it ended, unless
    it was shut down.
    """

    name: str
    pid: int
    started: float
    scenario: str
    variant: str
    time_unit_seconds: float
    run_folder: str
    processes: list[ProcessEntry] = []
    http_sd: str | None = None
    dash: str | None = None
    ended: str | None = None


def directory() -> Path:
    """Return the directory of all long-running clusters, which only this user can enter. Raises LongRunningError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that XDG_RUNTIME_DIR is unset: the folder is a temporary one then
        path = Path(platformdirs.user_runtime_dir("loadbalance-testbed"))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise LongRunningError(
            f"cannot use {path}: {error.strerror}; set XDG_RUNTIME_DIR to a folder of your own"
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise LongRunningError(
            f"{path} is not a folder that only you can enter; remove it, or set XDG_RUNTIME_DIR to a folder of your own"
        )
    return path


def folder_of(name: str) -> Path:
    """Return the folder of the cluster with that name. Raises LongRunningError for what can't be a name."""
    if not NAME.fullmatch(name):
        raise LongRunningError(f"{name!r} can't be a cluster's name: use letters, digits, _, . and -, at most 64")
    return directory() / name


class Claim:
    """A name that is reserved for this process, with its folder, until ``release`` or the end of the process."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        self._descriptor = descriptor

    @classmethod
    def take(cls, name: str) -> Claim:
        """Claim a name. Raises LongRunningError when a cluster with that name runs."""
        folder = folder_of(name)
        while True:
            folder.mkdir(mode=0o700, exist_ok=True)
            try:
                descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:  # another process has just removed it
                continue
            if not _lock(descriptor):
                os.close(descriptor)
                raise LongRunningError(
                    f'a cluster called "{name}" is already running: choose another --name, or `testbed down {name}`'
                )
            if _is_at(descriptor, folder / "lock"):
                for entry in folder.iterdir():
                    if entry.name != "lock":
                        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                (folder / "logs").mkdir()
                return cls(folder, descriptor)
            os.close(descriptor)

    def write(self, state: State) -> None:
        """Write ``state.json``; a reader sees the old content or the new."""
        new = self.folder / "state.json.new"
        new.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=2))
        new.replace(self.folder / "state.json")

    def release(self, *, remove: bool = True) -> None:
        """Release the name; with ``remove`` the folder is removed."""
        if remove:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether an opened file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def read_state(folder: Path) -> State | None:
    """Return the state in a cluster's folder; None when there is none."""
    try:
        return msgspec.json.decode((folder / "state.json").read_bytes(), type=State)
    except (OSError, msgspec.DecodeError):
        return None


def running() -> list[State]:
    """Return the clusters that run, ordered by name. Those that are still starting are not among them."""
    found = (read_state(folder) for folder in sorted(directory().iterdir()) if not _is_stale(folder))
    return [state for state in found if state is not None and state.ended is None]


def _is_stale(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return False  # not a cluster's folder, or one that is being made or removed
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def clean() -> list[str]:
    """Remove the folders of killed clusters, and return a line about each."""
    lines = []
    for folder in sorted(directory().iterdir()):
        try:
            descriptor = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            continue
        try:
            if not _lock(descriptor):
                continue
            state = read_state(folder)
            lines.append(_last_line(folder.name, state))
            if state is not None:
                run = Path(state.run_folder)
                targets_file_of(run).unlink(missing_ok=True)
                if run.is_dir():
                    shutil.copytree(folder / "logs", run / "logs", dirs_exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
    return lines


def _last_line(name: str, state: State | None) -> str:
    if state is None:
        return f"{name}: did not come up; cleaned up"
    if state.ended is not None:
        left = "its logs are in" if state.ended == NEVER_STARTED else "its measurements are in"
        return f"{name}: {state.ended}; {left} {state.run_folder}"
    age = (time.time() - state.started) / 60
    return (
        f"{name}: was killed at most {age:.1f} minutes after it started; its records until then are in "
        f"{state.run_folder}/records, its logs in logs; cleaned up"
    )
