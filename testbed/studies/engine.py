"""The engine of all studies: makes the runs that are missing, and hands over each result as soon as it is there."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextlib import closing

from testbed.runs.execution import STOPPING, execute
from testbed.runs.experiment import Experiment, PlannedRun
from testbed.runs.result import VariantRun
from testbed.studies.plan import Run, StudyRuns, T
from testbed.studies.progress import Progress
from testbed.studies.workers import run_twins


def make_runs(study: StudyRuns[T], progress: Progress, processes: int | None = None) -> bool:
    """Make the runs of a study. Return whether all were made: False after Ctrl-C.

    ``processes``: workers for the twin; default: one per core. Raises ClusterError when a cluster does not come up,
    TwinError when a run of the twin fails, and what the study raises when it keeps a result.
    """
    try:
        with _termination_as_interrupt():
            for batch in study.batches():
                progress.expect(batch)
                # Runs on real processes have the processor cores to themselves.
                for run in (run for run in batch if run.where != "twin"):
                    progress.started(run)
                    study.keep_cluster(run, _on_cluster(run, progress))
                    progress.finished(run)
                twins = [run for run in batch if run.where == "twin"]
                with closing(run_twins(twins, study.measure, processes)) as made:
                    for run, value in made:
                        study.keep_twin(run, value)
                        progress.finished(run)
    except KeyboardInterrupt:
        return False
    return True


def _on_cluster(run: Run, progress: Progress) -> VariantRun:
    made: list[VariantRun] = []
    planned = PlannedRun(run.variant, run.replication, run.scenario)
    experiment = Experiment(run.scenario, run.where, None, progress, planned=lambda: [planned], keep=made.append)
    execute(experiment)
    if experiment.result.interrupted:
        raise KeyboardInterrupt  # the run is incomplete, and its result is not kept
    return made[0]


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let a request to terminate, and the end of the terminal, end the study as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
