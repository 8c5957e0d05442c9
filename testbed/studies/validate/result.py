"""What a validation came to: for each case its measurements, and the findings that it passes or fails by."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from testbed.measure.control_variate import Estimate
from testbed.runs.run_folder import OutputError, require_schema
from testbed.studies.validate.case import Place
from testbed.studies.validate.finite_size import FiniteSizeFit

#: Of validation.json. Files without a number are from before there was one.
SCHEMA: Final = 1
#: Each statistical test of the twin is wrong by chance with this probability at most.
LEVEL: Final = 2e-6
#: And each of a cluster against its twin, of which there is one run, whose window holds its memory a few times only:
#: at a smaller level it would be blind.
CLUSTER_LEVEL: Final = 5e-5
#: The verdict of a run on the cluster tests too: gaps at 1e-5, twice, arrived load at four standard errors, a trend.
VERDICT_LEVEL: Final = 1e-4

WORKLOAD: Final = "arrivals and sizes"
THEORY: Final = "twin against theory"
LIMIT: Final = "limit of the twin against theory"
SHAPE: Final = "error shrinks like 1/N"
EMULATION: Final = "cluster against twin"
VERDICT: Final = "the cluster's verdict"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One test of a case.

    ``difference``: what was measured less what should be, as a share of the latter; ``low`` and ``high``: its interval
    at the test's level; ``allowed``: where the true difference may be. It passes if the two overlap. All three are
    None for the verdict. ``reason``: one sentence.
    """

    check: str
    passed: bool
    reason: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    allowed: tuple[float, float] | None = None


class AtSize(msgspec.Struct, frozen=True, kw_only=True):
    """The twin at one number of servers: mean response time over replications, in time units, and the theory's."""

    servers: int
    theory: float
    twin: Estimate
    replications: int

    @property
    def error(self) -> Estimate:
        """The twin less the theory, as a share of the theory."""
        return Estimate(self.twin.value / self.theory - 1, self.twin.standard_error / self.theory, self.twin.freedom)


class OnCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The run on real processes: mean response times in time units, differences as shares of the twin's.

    ``error``: cluster less twin, job by job, ``half_width`` of its 95 % interval; ``overhead``: the part of it that
    jobs spent outside servers, by the processes' own clocks.
    """

    servers: int
    mean: float | None
    twin: float | None
    error: float | None
    half_width: float | None
    overhead: float | None
    valid: bool
    reasons: list[str]


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """A case, what was measured, and what was found.

    ``theory`` names the formula, ``kind`` is its kind. ``scenario`` is what the twin ran, at each number of servers,
    and ``cluster_scenario`` what the cluster ran, as TOML with all defaults; None where it was not run there.
    """

    name: str
    about: str
    policy: str
    theory: str
    kind: str
    seed: int
    scenario: str | None
    cluster_scenario: str | None
    sizes: list[AtSize]
    fit: FiniteSizeFit | None
    cluster: OnCluster | None
    findings: list[Finding]

    @property
    def passed(self) -> bool:
        """Whether all tests passed."""
        return all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> list[Finding]:
        """The tests that failed."""
        return [finding for finding in self.findings if not finding.passed]

    def finding(self, check: str) -> Finding | None:
        """Return the finding of a test; None if it was not made."""
        return next((finding for finding in self.findings if finding.check == check), None)


class Validation(msgspec.Struct, kw_only=True):
    """What a validation came to.

    ``asked``: the cases, files and folders that were named, none for the whole suite; None for cases made in Python.
    ``on``: where they were to be looked at. ``unfinished``: the cases that an interruption left without an answer.
    """

    quick: bool
    asked: list[str] | None
    on: list[Place]
    cases: list[CaseResult]
    unfinished: list[str] = []
    folder: str | None = None
    schema: int = SCHEMA

    @property
    def passed(self) -> bool:
        """Whether all cases were finished, and passed."""
        return not self.unfinished and all(case.passed for case in self.cases)

    @property
    def tests(self) -> int:
        """How many statistical tests were made."""
        return sum(finding.difference is not None for case in self.cases for finding in case.findings)

    @property
    def false_alarm(self) -> float:
        """A bound on the probability that anything fails though all is right, on a machine that is fast enough."""
        clusters = sum(case.finding(VERDICT) is not None for case in self.cases)
        twins = sum(f.difference is not None and f.check != EMULATION for case in self.cases for f in case.findings)
        return LEVEL * twins + (CLUSTER_LEVEL + VERDICT_LEVEL) * clusters

    def __getitem__(self, name: str) -> CaseResult:
        """Return the result of a case. Raises KeyError for one that was not finished."""
        for case in self.cases:
            if case.name == name:
                return case
        raise KeyError(f"no finished case {name!r}; there are: {', '.join(case.name for case in self.cases) or 'none'}")

    @classmethod
    def read(cls, folder: str | Path) -> Validation:
        """Return what a validation left in its folder. Raises OutputError for one that can't be read."""
        path = Path(folder) / "validation.json"
        try:
            text = path.read_bytes()
            require_schema(path, text, SCHEMA, unnumbered=0, remedy="read it with that version, or validate again")
            result = msgspec.json.decode(text, type=cls)
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; give the folder of a validation") from None
        except ValueError as error:
            raise OutputError(f"{path}: damaged, or not what a validation writes ({error}); validate again") from None
        result.folder = str(folder)
        return result

    def __str__(self) -> str:
        from testbed.runs.tables import plain_text
        from testbed.studies.validate.shown import validation_table

        return plain_text(validation_table(self))

    def _repr_html_(self) -> str:
        from testbed.runs.tables import html
        from testbed.studies.validate.shown import validation_table

        return html(validation_table(self))
