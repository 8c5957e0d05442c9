"""The folder in which a validation leaves what it found.

validation.json    all of it (testbed.studies.validate.result.Validation), for `testbed report`
report.html        the page that `testbed report` makes of it
tests.csv          a row per test: case, check, difference, interval, what is allowed, passed, reason; also .parquet
sizes.csv          a row per case and number of servers: theory, twin, interval, the fit's error; also .parquet
<case>.svg/.png    for each limit the error over the number of servers, with the fit
environment.json   versions, cores, when, how long
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from testbed.runs.run_folder import OutputError, make_folder, replace_file, write_environment
from testbed.studies.validate.result import Validation


class ValidationFolder:
    """A new folder for a validation. It is made before anything is run, so that a bad place is found at once."""

    def __init__(self, parent: Path) -> None:
        """Make it in ``parent``. Raises OutputError."""
        self._started = time.time()
        self.path = make_folder(parent, "validation")

    def save(self, result: Validation) -> None:
        """Write all files. Raises OutputError."""
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        from testbed.present.reports.validation import validation_page
        from testbed.studies.reproduce import plots
        from testbed.studies.validate.plots import figures

        result.folder = str(self.path)
        try:
            replace_file(self.path / "validation.json", msgspec.json.format(msgspec.json.encode(result), indent=2))
            for name, rows in (("tests", _tests(result)), ("sizes", _sizes(result))):
                table = pa.Table.from_pylist(rows)
                pyarrow.parquet.write_table(table, self.path / f"{name}.parquet")
                pyarrow.csv.write_csv(table, self.path / f"{name}.csv")
            plots.save(figures(result), self.path)
            write_environment(self.path, self._started, time.time() - self._started)
            replace_file(self.path / "report.html", validation_page(self.path).html().encode())
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror or error}; make room") from None


def _tests(result: Validation) -> list[dict[str, object]]:
    return [
        {
            "case": case.name,
            "policy": case.policy,
            "kind": case.kind,
            "check": finding.check,
            "passed": finding.passed,
            "difference": finding.difference,
            "low": finding.low,
            "high": finding.high,
            "allowed_low": finding.allowed[0] if finding.allowed else None,
            "allowed_high": finding.allowed[1] if finding.allowed else None,
            "reason": finding.reason,
        }
        for case in result.cases
        for finding in case.findings
    ]


def _sizes(result: Validation) -> list[dict[str, object]]:
    return [
        {
            "case": case.name,
            "servers": size.servers,
            "theory": size.theory,
            "twin": size.twin.value,
            "half_width": size.twin.half_width(0.05),
            "replications": size.replications,
            "error": size.error.value,
            "fitted_error": case.fit.error(size.servers) if case.fit else None,
        }
        for case in result.cases
        for size in case.sizes
    ]
