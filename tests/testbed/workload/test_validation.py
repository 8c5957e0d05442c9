"""What a scenario may not say of sizes and arrivals, and what it is told then."""

from typing import Any

import msgspec
import pytest

from testbed.workload.arrivals import ArrivalProcess
from testbed.workload.distributions import Distribution, Exponential, Hyperexponential, Hypoexponential, Uniform

GOOD_DISTRIBUTIONS: list[dict[str, Any]] = [
    {"kind": "exponential"},
    {"kind": "erlang", "phases": 3},
    {"kind": "hypoexponential", "scv": 0.5, "mean": 2},
    {"kind": "hypoexponential", "rates": [1, 2.5]},
    {"kind": "hyperexponential", "scv": 4, "f": 0.2, "mean": 2},
    {"kind": "phase-type", "alpha": [0.5, 0.5], "S": [[-1, 0.5], [0, -2]]},
    {"kind": "pareto", "index": 2.5, "minimum": 1},
    {"kind": "bounded-pareto", "index": 0.5, "minimum": 1, "maximum": 9},
    {"kind": "lognormal", "scv": 3},
    {"kind": "weibull", "shape": 0.5, "mean": 2},
    {"kind": "uniform", "low": 0, "high": 2},
    {"kind": "deterministic", "value": 2},
    {"kind": "empirical", "values": [1, 2, 3]},
    {"kind": "empirical", "file": "sizes.csv", "column": "bytes"},
]
GOOD_ARRIVALS: list[dict[str, Any]] = [
    {"kind": "poisson"},
    {"kind": "deterministic"},
    {"kind": "renewal", "gap": {"kind": "erlang", "phases": 2}},
    {"kind": "mmpp", "rates": [1, 9], "sojourns": [30, 3]},
    {"kind": "mmpp", "rates": [1, 9], "switching": [[0, 1], [2, -2]]},
    {"kind": "trace", "file": "jobs.csv", "repeat": True, "arrival": "t", "size": "s", "type": "class"},
]


@pytest.mark.parametrize("given", GOOD_DISTRIBUTIONS)
def test_distributions_survive_a_round_trip(given: dict[str, Any]) -> None:
    distribution = msgspec.convert(given, Distribution)
    assert msgspec.json.decode(msgspec.json.encode(distribution), type=Distribution) == distribution
    assert set(given) <= set(msgspec.to_builtins(distribution))


@pytest.mark.parametrize("given", GOOD_ARRIVALS)
def test_arrivals_survive_a_round_trip(given: dict[str, Any]) -> None:
    process = msgspec.convert(given, ArrivalProcess)
    assert msgspec.json.decode(msgspec.json.encode(process), type=ArrivalProcess) == process
    assert hash(process) == hash(msgspec.convert(given, ArrivalProcess))


@pytest.mark.parametrize("union", [Distribution, ArrivalProcess])
def test_each_key_is_described_in_the_schema(union: Any) -> None:
    definitions = msgspec.json.schema(union)["$defs"]
    for name, definition in definitions.items():
        for key, schema in definition["properties"].items():
            described = [schema, *schema.get("anyOf", [])]
            assert key == "kind" or any("description" in part for part in described), (name, key)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "exponental"}, r"Invalid value 'exponental' - at `\$.kind`"),
        ({"kind": "exponential", "men": 2}, "unknown field `men`"),
        ({"kind": "exponential", "mean": 0}, r"Expected `float` > 0.0 - at `\$.mean`"),
        ({"kind": "exponential", "mean": "1"}, r"Expected `float`, got `str` - at `\$.mean`"),
        ({"kind": "exponential", "mean": float("inf")}, "`mean` must be a finite number, but is inf"),
        ({"kind": "erlang"}, "missing required field `phases`"),
        ({"kind": "erlang", "phases": 0}, r"Expected `int` >= 1 - at `\$.phases`"),
        ({"kind": "hypoexponential"}, "needs either `scv` .* or `rates`, and not both"),
        ({"kind": "hypoexponential", "scv": 0.5, "rates": [1]}, "needs either `scv` .* or `rates`, and not both"),
        ({"kind": "hypoexponential", "scv": 1.5}, r"Expected `float` < 1.0 - at `\$.scv`"),
        ({"kind": "hypoexponential", "rates": []}, "`rates` is empty"),
        (
            {"kind": "hypoexponential", "rates": [1, -2]},
            r"`rates\[1\]` must be a finite number greater than 0, but",
        ),
        ({"kind": "hypoexponential", "rates": [1], "mean": 1}, "leave out `mean`"),
        ({"kind": "hyperexponential", "scv": 0.5}, r"Expected `float` >= 1.0 - at `\$.scv`"),
        ({"kind": "hyperexponential", "scv": 5, "f": 1}, r"Expected `float` < 1.0 - at `\$.f`"),
        ({"kind": "phase-type", "alpha": [], "S": []}, "`alpha` is empty"),
        (
            {"kind": "phase-type", "alpha": [0.5, 0.4], "S": [[-1, 0], [0, -1]]},
            "`alpha` sums to 0.9, but must",
        ),
        (
            {"kind": "phase-type", "alpha": [1.5, -0.5], "S": [[-1, 0], [0, -1]]},
            r"`alpha\[0\]` is 1.5, but",
        ),
        ({"kind": "phase-type", "alpha": [1], "S": [[-1, 0]]}, "must have 1 rows of 1 entries, as `alpha` has phases"),
        ({"kind": "phase-type", "alpha": [1, 0], "S": [[-1, -1], [0, -1]]}, r"`S\[0\]\[1\]` is -1.0, but a rate"),
        ({"kind": "phase-type", "alpha": [1], "S": [[0]]}, r"`S\[0\]\[0\]` is 0.0, but must be negative"),
        ({"kind": "phase-type", "alpha": [1], "S": [[float("nan")]]}, "must be a finite number, but is nan"),
        (
            {"kind": "phase-type", "alpha": [1, 0], "S": [[-1, 2], [0, -1]]},
            "row 0 of `S` sums to 1, but may not",
        ),
        (
            {"kind": "phase-type", "alpha": [1, 0, 0], "S": [[-1, 1, 0], [1, -1, 0], [0, 0, -1]]},
            "from phase 0, 1 of `S` absorption can't be reached",
        ),
        (
            {"kind": "pareto", "index": 1, "minimum": 1},
            "infinite mean: give an index above 1, or use kind",
        ),
        ({"kind": "pareto", "index": 2, "minimum": 0}, r"Expected `float` > 0.0 - at `\$.minimum`"),
        ({"kind": "bounded-pareto", "index": 1, "minimum": 2, "maximum": 1}, "`maximum` must be above `minimum` .2.0."),
        ({"kind": "lognormal", "scv": 0}, r"Expected `float` > 0.0 - at `\$.scv`"),
        ({"kind": "weibull", "shape": 0.01}, r"Expected `float` >= 0.05 - at `\$.shape`"),
        ({"kind": "uniform", "low": 2, "high": 2}, "`high` must be above `low` .2.0., but is 2.0"),
        ({"kind": "deterministic", "value": -1}, r"Expected `float` > 0.0 - at `\$.value`"),
        ({"kind": "empirical"}, "needs either `values` or `file`, and not both"),
        ({"kind": "empirical", "values": []}, "`values` is empty"),
        ({"kind": "empirical", "values": [1, -1]}, "value 2 must be a finite number of at least 0, but is -1"),
        ({"kind": "empirical", "values": [0, 0]}, "has only zeros"),
    ],
)
def test_bad_distributions_are_refused_with_the_reason(given: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(given, Distribution)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "poison"}, r"Invalid value 'poison' - at `\$.kind`"),
        ({"kind": "renewal"}, "missing required field `gap`"),
        ({"kind": "renewal", "gap": {"kind": "exponential", "mean": -1}}, r"Expected `float` > 0.0 - at `\$.gap.mean`"),
        ({"kind": "mmpp", "rates": [1], "sojourns": [1]}, r"at `\$.rates`"),
        ({"kind": "mmpp", "rates": [1, -1], "sojourns": [1, 1]}, r"`rates\[1\]` must be a finite number of at least 0"),
        ({"kind": "mmpp", "rates": [0, 0], "sojourns": [1, 1]}, "`rates` has only zeros"),
        ({"kind": "mmpp", "rates": [1, 2]}, "needs either `sojourns` or `switching`, and not both"),
        (
            {"kind": "mmpp", "rates": [1, 2], "sojourns": [1]},
            "`sojourns` must have 2 entries, .* but has 1",
        ),
        (
            {"kind": "mmpp", "rates": [1, 2], "sojourns": [1, 0]},
            r"`sojourns\[1\]` must be a finite number greater",
        ),
        ({"kind": "mmpp", "rates": [1, 2], "switching": [[0, 1]]}, "`switching` must have 2 rows of 2 entries"),
        (
            {"kind": "mmpp", "rates": [1, 2], "switching": [[0, -1], [1, 0]]},
            r"`switching\[0\]\[1\]` must be a finite",
        ),
        ({"kind": "mmpp", "rates": [1, 2], "switching": [[-2, 1], [1, 0]]}, r"`switching\[0\]\[0\]` must be 0 or -1.0"),
        (
            {"kind": "mmpp", "rates": [1, 2], "switching": [[0, 1], [0, 0]]},
            "`switching` never leads from phase 1 to phase 0",
        ),
        ({"kind": "trace"}, "missing required field `file`"),
    ],
)
def test_bad_arrivals_are_refused_with_the_reason(given: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(given, ArrivalProcess)


def test_constructors_check_as_decoding_does() -> None:
    with pytest.raises(ValueError, match="`mean` must be greater than 0, but is -1"):
        Exponential(mean=-1)
    with pytest.raises(ValueError, match=r"`scv` must be at least 1, but is 0\.5"):
        Hyperexponential(scv=0.5)
    with pytest.raises(ValueError, match=r"`scv` must be less than 1, but is 1\.5"):
        Hypoexponential(wanted_scv=1.5)
    with pytest.raises(ValueError, match="`low` must be a finite number, but is nan"):
        Uniform(low=float("nan"), high=1)
    with pytest.raises(ValueError, match="`mean` must be greater than 0"):
        Exponential().scaled(-1)
