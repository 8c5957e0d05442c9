"""A bad scenario gives one line: file, key, value, what is wrong, and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

import testbed
from testbed.scenario import ScenarioError, load

GOOD = """name = "good"
[run]
time_unit = "50ms"
warmup = 50
[cluster]
nodes = 2
[[cluster.pools]]
name = "main"
servers = 40
[[cluster.pools]]
name = "spare"
servers = 4
[workload]
load = 0.8
size = { kind = "exponential", mean = 1.0 }
[[workload.types]]
name = "a"
probability = 1.0
speed = { main = 1.0 }
[dispatch]
policy = "power-of-d"
d = 2
[[variants]]
name = "other"
set = { "dispatch.policy" = "random" }
"""

# Each: a text in GOOD, what replaces it, and the line after the file's name, cut where it goes on.
SLIPS = [
    # unknown keys
    ('policy = "power', 'polcy = "power', 'dispatch.polcy: unknown key; did you mean "policy"? (known keys: policy, '),
    ("d = 2", "q = 2", 'dispatch.q: unknown key (known keys of policy "power-of-d": policy, d, replacement, timeout)'),
    (
        "servers = 40",
        "server = 40",
        'cluster.pools[0].server: unknown key; did you mean "servers"? (known keys: name, ',
    ),
    ("servers = 4\n", "servers = 4\nduration = 3\n", "cluster.pools[1].duration: unknown key; it belongs in [run] ("),
    ("[run]", "[rum]", 'rum: unknown key; did you mean "run"? (known keys: name, seed, run, '),
    ("mean =", "meen =", 'workload.size.meen: unknown key; did you mean "mean"? (known keys of kind "exponential": '),
    # unknown names
    (
        '"power-of-d"',
        '"power-of-2"',
        'dispatch.policy = "power-of-2": unknown policy; did you mean "power-of-d"? (',
    ),
    ('"exponential"', '"exponental"', 'workload.size.kind = "exponental": unknown kind; did you mean "exponential"? ('),
    (
        "main = 1.0",
        "man = 1.0",
        'workload.types[0].speed.man: unknown pool; did you mean "main"? (known pools: ',
    ),
    ("nodes = 2", 'transport = "udp"', 'cluster.transport = "udp": must be "tcp" or "unix" ('),
    # wrong types
    ("servers = 40", 'servers = "40"', 'cluster.pools[0].servers = "40": must be a whole number of at least 1'),
    ("nodes = 2", "nodes = 2.5", 'cluster.nodes = 2.5: must be a whole number of at least 1 or "per-server" ('),
    ('"50ms"', "50", "run.time_unit = 50: must be a string ("),
    ("warmup = 50", "warmup = true", 'run.warmup = true: must be a number of at least 0 or "auto" ('),
    ("warmup = 50", "warmup = 2024-02-29", 'run.warmup = 2024-02-29: must be a number of at least 0 or "auto" ('),
    ("size = {", "size = 1 #", "workload.size = 1: must be a table with kind = "),
    ('"power-of-d"', "3", "dispatch.policy = 3: unknown policy (known: batch-filling, "),
    # out of range
    ("servers = 40", "servers = 0", "cluster.pools[0].servers = 0: must be a whole number of at least 1"),
    ("load = 0.8", "load = 0", "workload.load = 0: must be a number above 0 (arrival rate of work as a fraction of "),
    ("warmup = 50", "warmup = nan", "run.warmup = nan: must be a finite number"),
    ("load = 0.8", "load = inf", "workload.load = inf: must be a finite number"),
    ("main = 1.0", "main = 1.0, spare = -2", "workload.types[0].speed.spare = -2: must be a number of at least 0 ("),
    ("mean = 1.0", "mean = -1.0", "workload.size.mean = -1.0: must be a number above 0 ("),
    ("d = 2", "d = 0", "dispatch.d = 0: must be a number of at least 1 ("),
    ("nodes = 2", "nodes = 45", "cluster.nodes = 45: must be at most the number of servers, 44"),
    ('"50ms"', '"50 hours"', 'run.time_unit = "50 hours": must be a positive length with its unit, such as "50ms"'),
    ('"50ms"', '"0ms"', 'run.time_unit = "0ms": must be a positive length'),
    (
        'name = "main"',
        'name = "ma.in"',
        'cluster.pools[0].name = "ma.in": must be a string (letters, digits, ',
    ),
    ('name = "good"', 'name = "../good"', 'name = "../good": must be a string (letters, '),
    # missing
    ('policy = "power-of-d"\nd = 2', "", 'dispatch.policy: missing; must be one of "batch-filling", '),
    ("servers = 40", "", "cluster.pools[0].servers: missing; must be a whole number of at least 1"),
    ('name = "good"', "", "name: missing; must be a string"),
    ("load = 0.8", "", "workload.load: missing; give workload.load (work per server) or workload.rate (jobs per time"),
    # settings that don't fit together
    ("load = 0.8", "load = 0.8\nrate = 3", "workload.load = 0.8: give workload.load or workload.rate = 3, not both"),
    ("probability = 1.0", "probability = 0.5", "workload.types: the types' probabilities must add up to 1, not 0.5"),
    ('name = "spare"', 'name = "main"', 'cluster.pools[1].name = "main": cluster.pools[0] has this name already'),
    (
        'kind = "exponential", mean = 1.0',
        'kind = "uniform", low = 2, high = 1',
        "workload.size: high must be above ",
    ),
    # variants
    ('name = "other"', 'name = "power-of-d"', 'variants[0].name = "power-of-d": this name is taken ('),
    ('"dispatch.policy" = "random"', '"seed" = 2', "variants[0] (other): a variant can't set seed"),
    (
        '"dispatch.policy"',
        '"dispatch.polcy"',
        'variants[0] (other): dispatch.polcy: unknown key; did you mean "policy"?',
    ),
    ('"dispatch.policy"', '"cluster.pools.mane.servers"', "variants[0] (other): cluster.pools.mane: there is no "),
    (
        '"dispatch.policy"',
        '"workload.load.x"',
        "variants[0] (other): workload.load.x: workload.load is not a table",
    ),
    # not TOML
    ('"50ms"', "50ms", "line 3, column 15: expected newline or end of document after a statement; put one key"),
    ("load = 0.8", "load = 0.8\nload = 3", "line 15, column 9: cannot overwrite a value; this key has a value already"),
    ("[workload]", "[run]", "line 13, column 5: cannot declare [run] twice; this table is there already: "),
    ('"power-of-d"', "power-of-d", 'line 21, column 10: invalid value; a string needs quotes, as in policy = "random"'),
    ('"good"', '"good', "line 1, column 13: illegal character '\\n'; a string ends on the line where it begins"),
]


@pytest.mark.parametrize(("old", "new", "line"), SLIPS)
def test_a_slip_gives_one_line_with_its_remedy(tmp_path: Path, old: str, new: str, line: str) -> None:
    assert old in GOOD
    file = tmp_path / "s.toml"
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ScenarioError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: {line}")
    assert str(caught.value).isprintable()


def test_a_missing_file_lists_the_shipped_scenarios(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        load("quikstart")
    shipped = sorted(path.stem for path in (Path(testbed.__file__).parent / "scenario" / "shipped").glob("*.toml"))
    assert str(caught.value) == (
        'quikstart: there is no such file; did you mean "quickstart"? '
        f"(scenarios that come with the testbed, by name: {', '.join(shipped)})"
    )
    with pytest.raises(ScenarioError, match="Is a directory"):
        load(tmp_path)


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_bytes(GOOD.replace("good", "gööd").encode("latin-1"))
    with pytest.raises(ScenarioError, match=r"is not UTF-8 \(byte 9\)"):
        load(tmp_path / "s.toml")


def test_a_file_of_brackets_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(ScenarioError, match="is nested too deeply"):
        load(tmp_path / "s.toml")


def test_a_missing_file_of_sizes_is_named(tmp_path: Path) -> None:
    text = GOOD.replace('kind = "exponential", mean = 1.0', 'kind = "empirical", file = "sizes.csv"')
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path / "s.toml")
    assert str(caught.value).startswith(f"{tmp_path}/s.toml: workload.size: there is no file {tmp_path}/sizes.csv")


def test_a_type_that_a_trace_alone_knows_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival,type\n0,a\n1,c\n")
    types = 'arrivals = { kind = "trace", file = "t.csv" }\n[[workload.types]]\nname = "b"\nprobability = 0.0'
    (tmp_path / "s.toml").write_text(GOOD.replace("[[workload.types]]", f"{types}\n[[workload.types]]", 1))
    with pytest.raises(ScenarioError, match=r"s\.toml: workload\.arrivals: .*t\.csv: the type in row 2 is 'c'"):
        load(tmp_path / "s.toml")


def test_the_parts_of_an_error_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(GOOD.replace("servers = 40", "servers = 0"))
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path / "s.toml")
    assert (caught.value.key, caught.value.value) == ("cluster.pools[0].servers", 0)
    assert caught.value.source == str(tmp_path / "s.toml")
