"""Finding the cases that a user names: built-in ones, scenario files with ``[expect]``, and folders of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from testbed.runs.probe_rate import check_calibration
from testbed.scenario import Expect, Scenario, ScenarioError, load, variants
from testbed.scenario.errors import suggestion
from testbed.studies.validate.case import REPLICATIONS, Case, sizes_of
from testbed.studies.validate.suite import built_in


def chosen(wanted: Sequence[str | Path | Case], quick: bool) -> list[Case]:
    """Return the named cases; all built-in ones if none is named. Raises ScenarioError."""
    suite = {case.name: case for case in built_in(quick)}
    if not wanted:
        return list(suite.values())
    found: dict[str, tuple[Case, str]] = {}
    for one in wanted:
        for case, source in [(one, "a Case object")] if isinstance(one, Case) else _named(one, suite, quick):
            if case.name in found:
                other = found[case.name][1]
                where = f"twice, in {source}" if source == other else f"twice, in {other} and in {source}"
                raise ScenarioError(f"this case is named {where}; give each its own name", source=case.name)
            found[case.name] = case, source
    return [case for case, _ in found.values()]


def _named(name: str | Path, suite: dict[str, Case], quick: bool) -> list[tuple[Case, str]]:
    """Return the cases, each with its source."""
    if str(name) in suite:
        return [(suite[str(name)], "the built-in suite")]
    path = Path(name)
    if path.is_dir():
        files = sorted(path.glob("*.toml"))
        if not files:
            raise ScenarioError("holds no .toml files; put scenarios with [expect] there", source=str(name))
        return [(case, str(file)) for file in files for case in _of_file(file, quick)]
    if path.exists():
        return [(case, str(path)) for case in _of_file(path, quick)]
    raise ScenarioError(
        f"there is no such case, file or folder{suggestion(name, suite)} (`testbed validate --list` names the cases)",
        source=str(name),
    )


def _of_file(path: Path, quick: bool) -> list[Case]:
    scenario = load(path)
    try:
        return cases_of(scenario, quick)
    except ScenarioError as error:
        raise error.moved(source=str(path)) from None


def cases_of(scenario: Scenario, quick: bool = False) -> list[Case]:
    """Return the case of a scenario with ``[expect]``; if it has variants, one case for each.

    The twin makes ``run.replications`` runs, or 24 where that is 1; the cluster makes one. Raises ScenarioError where
    the scenario has no ``[expect]``, a sweep, or a single number to expect of several variants.
    """
    expect = scenario.expect
    if expect is None:
        raise ScenarioError("missing; a validation case needs it: it says what must be true", key="expect")
    if scenario.sweep is not None:
        raise ScenarioError("a validation case is one point; leave the sweep out", key="sweep")
    several = variants(scenario)
    for _, variant in several:
        check_calibration(variant)
    if len(several) > 1 and expect.mean_response_time != "theory":
        raise ScenarioError(
            "one number can't be expected of several variants; put each into a file of its own",
            key="expect.mean_response_time",
            value=expect.mean_response_time,
        )
    return [
        _case(scenario.name if len(several) == 1 else f"{scenario.name}: {name}", variant, expect, quick)
        for name, variant in several
    ]


def _case(name: str, scenario: Scenario, expect: Expect, quick: bool) -> Case:
    run = scenario.run
    # A warm-up that is chosen from the response times of a run would depend on what is measured.
    warmup = scenario.horizon - run.duration
    single = msgspec.structs.replace(run, replications=1)
    several = msgspec.structs.replace(
        run, warmup=warmup, replications=run.replications if run.replications > 1 else REPLICATIONS
    )
    return Case(
        name=name,
        about="a case of yours",
        scenario=msgspec.structs.replace(scenario, run=several),
        expect=expect,
        servers=sizes_of(expect, quick),
        cluster=msgspec.structs.replace(scenario, run=single) if "cluster" in expect.on else None,
    )
