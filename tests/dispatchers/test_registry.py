import msgspec
import pytest

from dispatchers import registry
from dispatchers.policy import Policy
from dispatchers.random_routing import Random


class Point:
    """An entry point."""

    name = "point"
    value = "some_package:thing"

    def __init__(self, thing):
        self.thing = thing

    def load(self):
        return self.thing


@pytest.fixture
def installed(monkeypatch):
    """Installs things as entry points of another package."""
    registry.policies.cache_clear()

    def install(*things):
        def entry_points(*, group):
            return [Point(thing) for thing in things] if group == "loadbalance_testbed.policies" else []

        monkeypatch.setattr(registry, "entry_points", entry_points)

    yield install
    registry.policies.cache_clear()


class Added(Policy):
    name = "added"
    source = "a test"


def test_the_policies_of_this_package_are_there():
    assert set(registry.policies()) >= {"random", "round-robin", "jsq", "least-outstanding", "power-of-d", "jiq"}


def test_every_policy_names_its_source_and_has_closed_frozen_parameters():
    for name, policy in registry.policies().items():
        assert policy.name == name
        assert policy.source
        assert policy.__doc__
        config = policy.Parameters.__struct_config__
        assert config.frozen
        assert config.forbid_unknown_fields
        for field in msgspec.json.schema(policy.Parameters)["$defs"][policy.Parameters.__name__]["properties"].values():
            assert field["description"]


def test_another_package_adds_a_policy(installed):
    installed(Added)
    assert registry.policies()["added"] is Added


def test_an_entry_point_that_is_no_policy_is_refused(installed):
    installed(dict)
    with pytest.raises(TypeError, match=r"'point' of 'some_package:thing' is not a dispatchers\.policy\.Policy"):
        registry.policies()


def test_a_name_is_not_taken_twice(installed):
    installed(type("Impostor", (Policy,), {"name": "random"}))
    with pytest.raises(TypeError, match="two policies are called 'random'"):
        registry.policies()


def test_a_built_in_policy_may_be_named_again(installed):
    installed(Random)
    assert registry.policies()["random"] is Random


@pytest.mark.parametrize("wrong", [{"d": 0.5}, {"timeout": 0}, {"timeout": -1}, {"dd": 2}, {"d": float("nan")}])
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, registry.policies()["power-of-d"].Parameters)
