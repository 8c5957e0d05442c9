"""What the theory of rerouting and replication takes for its arguments, and how it refuses others."""

import math

import numpy as np
import pytest

from testbed.theory.rerouting_replication import (
    KnownSizes,
    Model,
    Noisy,
    Replicate,
    Reroute,
    effective_load,
    one_job,
    processing_time,
    service_requirement,
    stability_bound,
)
from testbed.workload.distributions import Exponential


def standard(slow, size):
    return Model((5, 5), (0.5, 0.5), ((1.0, slow), (slow, 1.0)), size)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: service_requirement(m, Reroute(), (0.5, 0.6), (1, 1)), "sum to 1"),
        (lambda m: service_requirement(m, Reroute(), (0.5, 0.5), (1, -1)), "at least 0"),
        (lambda m: service_requirement(m, Reroute(), (0.5, 0.5)), "needs thresholds"),
        (lambda m: service_requirement(m, Reroute(), (0.5, 0.5), (1, 1, 1)), "shape"),
        (lambda m: service_requirement(m, KnownSizes(), (0.5, 0.5), (1, 3)), "1 to 2 completion times"),
        (lambda m: stability_bound(m, Reroute(), Noisy(1.5)), "q is 1.5"),
        (lambda m: stability_bound(m, Reroute(), "all"), "knowledge"),
        (lambda m: effective_load(m, Reroute(), (0.5, 0.5), (1, 1), rate=-1), "rate"),
        (lambda m: Model((1, 1), (0.5, 0.5), ((1, 1),), Exponential()), "speeds must have 2 rows"),
        (lambda m: Reroute(hops=2, carry_over=True), "one hop"),
    ],
)
def test_unfit_arguments_are_refused_with_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call(standard(0.5, Exponential()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pools": (math.nan, 5)}, "pools are .* a whole one"),
        ({"pools": (2.5, 5)}, "pools are .* a whole one"),
        ({"size": 1.0}, "size is 1.0; give a distribution"),
        ({"dependence": True}, "dependence is True"),
    ],
)
def test_a_model_of_what_is_none_is_refused(change, message):
    arguments = {"pools": (5, 5), "types": (1.0,), "speeds": ((1.0,), (0.5,)), "size": Exponential()}
    with pytest.raises(ValueError, match=message):
        Model(**(arguments | change))


def test_arrays_make_the_same_model_and_policy_as_tuples():
    array = Model(np.array([5, 5]), np.array([0.5, 0.5]), np.array([[1.0, 0.5], [0.5, 1.0]]), Exponential())
    assert array == standard(0.5, Exponential())
    swap = ((0.0, 1.0), (1.0, 0.0))
    assert Reroute(targets=np.array(swap)) == Reroute(targets=swap)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: service_requirement(m, "reroute", (0.5, 0.5), (1, 1)), r"policy is 'reroute'; give Reroute\(\)"),
        (lambda m: stability_bound(m, Reroute), "give Reroute"),
        (lambda m: service_requirement(m, Reroute(), (0.5, 0.5), (1, 1), handover=math.nan), "handover is nan"),
        (lambda m: service_requirement(m, KnownSizes(), (0.5, 0.5), (1.5, 1)), "not 1.5"),
        (lambda m: Reroute(hops=2.5), "hops is 2.5; give a whole number"),
        (lambda m: one_job(m, 0, -1, 0, 1.0), r"pools \(0, -1\) are no path"),
        (lambda m: one_job(m, 0, 0, 0, 1.0), r"pools \(0, 0\) are no path"),
        (lambda m: one_job(m, 0, 1, 2, 1.0), "job_type is 2; give the index of a type, from 0 to 1"),
        (lambda m: one_job(m, 0, 1, 0, math.nan), "threshold is nan"),
        (lambda m: processing_time(m, Reroute(), (0, 2), 0, (1, 1), (1,)), r"pools \(0, 2\) are no path"),
        (lambda m: processing_time(m, Reroute(), (0, 1), 0, (1,), (1,)), "sizes are .*; give one for each of 2 pools"),
        (lambda m: processing_time(m, Reroute(), (0, 1), 0, (1, -1), (1,)), "sizes are .* at least 0"),
        (lambda m: processing_time(m, Reroute(), (0, 1), 0, (1, 1), (-1,)), "thresholds are"),
    ],
)
def test_what_is_no_policy_path_or_time_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(standard(0.5, Exponential()))


@pytest.mark.parametrize("policy", [Reroute, Replicate])
def test_unknown_targets_are_refused_by_every_policy(policy):
    with pytest.raises(ValueError, match="targets are 'nearest'; give 'cyclic', 'random' or a matrix"):
        policy(targets="nearest")


def test_an_unknown_action_with_known_sizes_is_refused():
    with pytest.raises(ValueError, match="action is 'move'; give 'reroute' or 'replicate'"):
        KnownSizes("move")
