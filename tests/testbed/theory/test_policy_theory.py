"""A policy's record of theory: found through the policy, also through one of another package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dispatchers.random_routing import Random
from testbed.scenario import Scenario
from testbed.scenario.policies import policies
from testbed.theory.policy_theory import NO_THEORY, theory_of_policy
from testbed.theory.predict import NoPrediction, predict, stability_bound

POLICY = '''
from dispatchers.random_routing import Random


class Acme(Random):
    """Where Acme wants it."""

    name = "acme"
    source = "Acme 1949"
    theory = "acme_theory:THEORY"
'''
THEORY = """
from testbed.theory.policy_theory import PolicyTheory
from testbed.theory.prediction import Formula
from testbed.theory.steady_state import SteadyState


class AcmeTheory(PolicyTheory):
    fills_servers = True

    def formula(self, model):
        return Formula("Acme's limit", "Acme 1949, equation 7", "approximation", SteadyState(4.75), ("in a desert",))

    def pool_notes(self, model):
        return ["beware of cliffs"]


THEORY = AcmeTheory()
"""


@pytest.fixture
def acme(tmp_path: Path) -> Callable[[str], str]:
    """Runs Python code where another package with a policy is installed; returns what it prints."""
    (tmp_path / "acme_policies.py").write_text(POLICY)
    (tmp_path / "acme_theory.py").write_text(THEORY)
    information = tmp_path / "acme-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[loadbalance_testbed.policies]\nacme = acme_policies:Acme\n")
    (tmp_path / "acme.toml").write_text(
        'name = "acme"\n[run]\nduration = 20\n[cluster]\npools = [{ servers = 4 }]\n[workload]\nload = 0.5\n'
        '[dispatch]\npolicy = "acme"\n'
    )

    def run(code: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "160"}
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100
        ).stdout

    return run


def test_a_policy_of_another_package_brings_its_theory(acme: Callable[[str], str]) -> None:
    shown = acme("import sys; sys.argv = ['testbed', 'theory', 'acme.toml']; from testbed.__main__ import main; main()")
    row = next(line for line in shown.splitlines() if line.strip().startswith("acme "))
    assert row.split() == ["acme", "0.5", "1", "4.7500", "-", "-", "approximation"]
    assert "acme: Acme's limit (Acme 1949, equation 7)\n    in a desert\n" in shown
    assert "    beware of cliffs\n" in shown
    assert "4.75" in acme("import testbed; print(testbed.run('acme.toml', where='twin'))")


def test_a_run_names_the_package_of_its_policy(acme: Callable[[str], str]) -> None:
    code = (
        "import json, testbed; folder = testbed.run('acme.toml', where='twin', output='runs').folder;"
        "print(json.loads((folder / 'environment.json').read_text())['packages']['acme'])"
    )
    assert acme(code) == "1.0\n"


def test_the_processes_of_a_cluster_load_no_theory(acme: Callable[[str], str]) -> None:
    code = (
        "import sys, testbed.cluster.hosted; from testbed.scenario import load; load('acme.toml').policy_class;"
        "print([name for name in sys.modules if 'theory' in name])"
    )
    assert acme(code) == "[]\n"


class Derived(Random):
    """Random routing with another way to choose."""

    name = "derived"


def test_a_policy_that_names_no_theory_has_none(
    scenario: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(policies(), "derived", Derived)
    assert theory_of_policy(Derived) is NO_THEORY  # not that of the class that it derives from
    for load in (0.8, 1.2):
        prediction = predict(scenario("derived", load=load))
        assert prediction == NoPrediction("no theory is known here for the policy 'derived'")
    assert stability_bound(scenario("derived")).reason == "at most: identical servers, all busy"


@pytest.mark.parametrize(
    ("name", "error"),
    [("math:pi", TypeError), ("math:missing", AttributeError), ("no_such_module:THEORY", ModuleNotFoundError)],
)
def test_a_name_of_something_else_is_an_error(name: str, error: Any) -> None:
    with pytest.raises(
        error, match=r"missing|no_such_module|the theory of 'derived', math:pi, is not a testbed\.theory"
    ):
        theory_of_policy(type("Wrong", (Derived,), {"theory": name}))


def test_every_policy_of_this_package_has_a_theory() -> None:
    for policy in policies().values():
        assert theory_of_policy(policy) is not NO_THEORY
