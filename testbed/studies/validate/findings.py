"""The findings of a validation: for each case its measurements, and the tests that it passes or fails."""

from __future__ import annotations

from typing import Final

import msgspec

from testbed.measure.control_variate import Estimate
from testbed.studies.validate.finite_size import FiniteSizeFit

#: The probability that a statistical test of the twin fails by chance.
LEVEL: Final = 2e-6
#: The same for a test of a cluster against its twin. There is only one run, and its window is only a few relaxation
#: times long: at a smaller level the test would find nothing.
CLUSTER_LEVEL: Final = 5e-5
#: The same for the verdict of a run on the cluster, which tests gaps at 1e-5, twice, the arrived load at four standard
#: errors, and a trend.
VERDICT_LEVEL: Final = 1e-4

WORKLOAD: Final = "arrivals and sizes"
THEORY: Final = "twin against theory"
LIMIT: Final = "limit of the twin against theory"
SHAPE: Final = "error shrinks like 1/N"
EMULATION: Final = "cluster against twin"
VERDICT: Final = "the cluster's verdict"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One test of a case.

    ``difference``: measured minus expected value, as a fraction of the latter; ``low`` and ``high``: its interval at
    the test's level; ``allowed``: where the true difference may be. The test passes if the two overlap. All three are
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
        """Twin minus theory, as a fraction of the theory."""
        return Estimate(self.twin.value / self.theory - 1, self.twin.standard_error / self.theory, self.twin.freedom)


class OnCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The run on real processes: mean response times in time units, differences as fractions of the twin's.

    ``error``: cluster minus twin, job by job, ``half_width`` of its 95 % interval; ``overhead``: the part of it that
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

    ``theory`` names the formula; ``kind``: exact, a limit, an approximation, or given. ``scenario`` is what the twin
    ran, at each number of servers, and ``cluster_scenario`` what the cluster ran, as TOML with all defaults; None where
    the case was not run there.
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
        """Return the finding of a test; None if the case does not have it."""
        return next((finding for finding in self.findings if finding.check == check), None)
