"""How far a study is."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.cluster.snapshot import Snapshot
from testbed.runs.display import Silent
from testbed.studies.plan import Run


class Progress(Silent):
    """Counts runs and work, and shows nothing; displays override ``refresh`` (testbed.present.live)."""

    def __init__(self) -> None:
        self._present: Run | None = None
        self.runs_done = self.runs_expected = 0
        self.work_done = self.work_expected = 0.0

    def resume(self, runs: int, work: float) -> None:
        """Count the runs that an interrupted study had finished."""
        self.runs_done, self.work_done = runs, work

    def expect(self, missing: Sequence[Run]) -> None:
        """Count the runs that are made next."""
        self.runs_expected = self.runs_done + len(missing)
        self.work_expected = self.work_done + sum(run.work for run in missing)
        self.refresh(0.0, "")

    def started(self, run: Run) -> None:
        """Note which run is made on the cluster."""
        self._present = run
        self.refresh(0.0, run.doing)

    def finished(self, run: Run) -> None:
        """Count a finished run."""
        self._present = None
        self.runs_done += 1
        self.work_done += run.work
        self.refresh(0.0, run.doing)

    def show(self, snapshot: Snapshot) -> None:
        """Show the state of the present run on the cluster."""
        assert self._present is not None
        name = self._present.doing or snapshot.name
        self.refresh((snapshot.fraction or 0.0) * self._present.work, f"{name}: {snapshot}")

    def refresh(self, work_of_present_run: float, state: str) -> None:
        """Show the present state."""
