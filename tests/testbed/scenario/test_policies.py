import msgspec
import pytest

from dispatchers.policy import Policy
from dispatchers.random_routing import Random
from testbed.scenario import policies as module
from testbed.scenario.policies import policies

INSTALLED = module.entry_points


class Point:
    """An entry point of another package."""

    name = "point"
    value = "some_package:thing"
    dist = None

    def __init__(self, thing):
        self.thing = thing

    def load(self):
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


@pytest.fixture
def installed(monkeypatch):
    """Installs things as entry points of another package."""
    policies.cache_clear()

    def install(*things, ours=True):
        def entry_points(*, group):
            assert group == "loadbalance_testbed.policies"
            return [*(INSTALLED(group=group) if ours else ()), *(Point(thing) for thing in things)]

        monkeypatch.setattr(module, "entry_points", entry_points)

    yield install
    policies.cache_clear()


class Added(Policy):
    name = "added"
    source = "a test"


def test_the_policies_of_this_package_are_there():
    assert set(policies()) >= {"random", "round-robin", "jsq", "least-outstanding", "power-of-d", "jiq"}


def test_every_policy_names_its_source_and_has_closed_frozen_parameters():
    for name, policy in policies().items():
        assert policy.name == name
        assert policy.source
        assert policy.__doc__
        config = policy.Parameters.__struct_config__
        assert config.frozen
        assert config.forbid_unknown_fields
        for field in msgspec.json.schema(policy.Parameters)["$defs"][policy.Parameters.__name__]["properties"].values():
            assert field["description"]


def test_the_entry_points_of_this_package_are_called_like_their_policies():
    points = [point for point in INSTALLED(group=module.GROUP) if point.dist.name == "loadbalance-testbed"]
    assert points
    for point in points:
        assert point.load().name == point.name


def test_another_package_adds_a_policy(installed):
    installed(Added)
    assert policies()["added"] is Added


@pytest.mark.parametrize("thing", [dict, Added({}, None), Policy])
def test_an_entry_point_that_is_no_policy_is_refused(installed, thing):
    installed(thing)
    with pytest.raises(TypeError, match=r"'point' of 'some_package:thing' is not a dispatchers\.policy\.Policy"):
        policies()


def test_a_module_that_fails_to_import_is_left_out_with_a_warning(installed):
    installed(ImportError("no such thing"), Added)
    with pytest.warns(UserWarning, match=r"the policy 'point' of 'some_package:thing' can't be loaded: ImportError"):
        assert "added" in policies()


def test_a_name_is_not_taken_twice(installed):
    installed(type("Impostor", (Policy,), {"name": "random", "source": "a test"}))
    with pytest.raises(TypeError, match="two policies are called 'random'"):
        policies()


def test_a_built_in_policy_may_be_named_again(installed):
    installed(Random)
    assert policies()["random"] is Random


def test_missing_metadata_is_an_error_that_says_what_to_do(installed):
    installed(Added, ours=False)
    with pytest.raises(RuntimeError, match=r"lists no dispatching policies: .* pip install -e \."):
        policies()


@pytest.mark.parametrize("wrong", [{"d": 0.5}, {"timeout": 0}, {"timeout": -1}, {"dd": 2}, {"d": float("nan")}])
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, policies()["power-of-d"].Parameters)
