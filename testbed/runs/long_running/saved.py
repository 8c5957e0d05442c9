"""What a standing cluster came to, from memory or from its run folder."""

from __future__ import annotations

from pathlib import Path

from testbed.runs.experiment import Result, VariantRun
from testbed.runs.run_folder import read_run
from testbed.theory.predict import predict


class LongRunningResult(Result):
    """The result of one variant, of however many the scenario has."""

    @property
    def not_run(self) -> list[str]:
        """Nothing: no other variant was meant to be run."""
        return []


def read_result(folder: Path) -> LongRunningResult:
    """Return what is saved in a run folder. Raises OutputError when there is no such run."""
    scenario, summaries = read_run(folder)
    result = LongRunningResult(scenario, folder)
    for summary in summaries:
        result.runs.append(VariantRun(summary.variant, 0, scenario, predict(scenario), cluster=summary))
    return result
