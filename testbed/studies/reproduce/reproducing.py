"""From a study's name to its folder."""

from __future__ import annotations

from pathlib import Path

from testbed.studies.reproduce.computing import Progress, Reproduction, compute
from testbed.studies.reproduce.folder import StudyFolder
from testbed.studies.reproduce.registry import study


def reproduce(
    name: str,
    *,
    quick: bool = False,
    cluster: bool = False,
    output: str | Path | None = None,
    processes: int | None = None,
    progress: Progress = lambda done, total, doing: None,
) -> Reproduction:
    """Compute a study and write its numbers and plots.

    Args:
        name: of the study (``testbed.studies.reproduce.studies()``).
        quick: fewer points and short runs: below 20 seconds, for a first look.
        cluster: also on real processes, where the study has points that fit on one machine.
        output: the folder in which to make the study's folder; None to keep everything in memory.
        processes: how many processes simulate; default: one per core. A script that uses several must call this under
            ``if __name__ == "__main__":``.
        progress: told how many runs are done, how many there are, and what comes next.

    Ctrl-C ends it early with what was finished: then ``interrupted`` is true, and ``missing`` says what is not there.
    Raises UnknownStudyError; OutputError when the folder can't be used; TwinError and ClusterError when runs fail.
    """
    wanted = study(name)
    folder = StudyFolder(Path(output), wanted) if output is not None else None
    result = compute(wanted, quick=quick, cluster=cluster, processes=processes, progress=progress)
    if folder is not None:
        folder.save(result)
    return result
