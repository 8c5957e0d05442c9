"""Every policy passes the conformance suite, and the suite catches a policy that breaks a rule."""

import random
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import integers

from dispatchers.batch_filling import BatchFilling
from dispatchers.policy import NoParameters, Policy, Timeout
from dispatchers.power_of_d import PowerOfDParameters
from dispatchers.probing import ProbingPolicy
from testbed.core.messages import Probe
from testbed.scenario.policies import policies
from testbed.testing import check_policy


@pytest.mark.parametrize("policy", sorted(policies()))
def test_every_registered_policy_keeps_the_rules(policy):
    check_policy(policy)


@pytest.mark.parametrize("policy", sorted(policies()))
@given(seed=integers(0, 2**32 - 1))
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_every_registered_policy_keeps_the_rules_in_systems_drawn_anew(policy, seed):
    """``make fuzz`` draws other seeds each time; a failure shows the seed."""
    check_policy(policy, examples=15, seed=seed)


@pytest.mark.parametrize(
    ("policy", "parameters"),
    [
        ("power-of-d", {"d": 1}),
        ("power-of-d", {"d": 1.5}),
        ("power-of-d", {"d": 40, "timeout": 0.5}),
        ("power-of-d", {"d": 3, "replacement": True}),
        ("power-of-d", PowerOfDParameters(d=2, timeout=0.01)),
        ("jsq", {"timeout": 1.0}),
        ("hedge", {"delay": 0.0}),
        ("hedge", {"delay": "inf"}),
        ("redundancy-d", {"d": 1}),
        ("redundancy-d", {"d": 5}),
        ("redundancy-d", {"d": 3, "cancel": "on-start"}),
        ("random", {"weights": [1.0]}),
        ("random", {"weights": [1.0, 0.0, 2.5]}),
    ],
)
def test_policies_keep_the_rules_with_other_parameters(policy, parameters):
    check_policy(policy, parameters)


class Correct(Policy):
    """All goes to server 0; each faulty policy below changes one thing."""

    name = "planted"
    source = "a test"

    def place(self, job):
        self.dispatcher.assign(job, 0)


class LosesAJob(Correct):
    def place(self, job):
        if job != 5:
            super().place(job)


class PlacesTwice(Correct):
    def place(self, job):
        super().place(job)
        super().place(job)


class PlacesAnotherJob(Correct):
    def on_done(self, done):
        self.dispatcher.assign(done.job + 100, 0)


class PlacesLater(Correct):
    """Not a fault: a job may wait at its dispatcher."""

    def place(self, job):
        env = self.dispatcher.env
        env.call_at(env.now + 2.0, lambda: super(PlacesLater, self).place(job))


class ProbesMoreThanItClaims(Correct):
    @classmethod
    def probes_per_job(cls, parameters, servers):
        return 1

    def place(self, job):
        self.dispatcher.probe(0, job)
        if job == 3:
            self.dispatcher.probe(0, job)
        super().place(job)


class SendsOnItsOwn(Correct):
    def place(self, job):
        self.dispatcher.env.send(Probe(0, 1, job))
        super().place(job)


class ProbesWithoutAClaim(Correct):
    def place(self, job):
        self.dispatcher.probe(0, job)
        super().place(job)


class ReadsSizes(Correct):
    def place(self, job):
        if self.dispatcher.in_system[job].sizes[0] > 0:
            super().place(job)


class ReadsTheTypeLater(Correct):
    def on_done(self, done):
        assert self.dispatcher.in_system[done.job].job_type >= 0


class AsksForSizes(Correct):
    def place(self, job):
        if self.dispatcher.sizes(job)[0] > 0:
            super().place(job)


class AsksForTheType(Correct):
    def on_done(self, done):
        assert self.dispatcher.signal(done.job) >= 0


class ReplacesAssign(Correct):
    def place(self, job):
        self.dispatcher.assign = print


class ReadsAnotherAgent(Correct):
    def place(self, job):
        if self.dispatcher.env.agents[0].queue_length >= 0:
            super().place(job)


class UsesTheGlobalGenerator(Correct):
    def place(self, job):
        self.dispatcher.assign(job, random.randrange(self.dispatcher.servers))


class UsesEntropy(Correct):
    def place(self, job):
        self.dispatcher.assign(job, int(np.random.default_rng().integers(self.dispatcher.servers)))


class RemembersBetweenRuns(Correct):
    jobs = 0

    def place(self, job):
        RemembersBetweenRuns.jobs += 1
        self.dispatcher.assign(job, RemembersBetweenRuns.jobs % self.dispatcher.servers)


class AssignsBeyondTheLastServer(Correct):
    def place(self, job):
        self.dispatcher.assign(job, self.dispatcher.rng.integer(self.dispatcher.servers + 1))


class AssignsToMinusOne(Correct):
    def place(self, job):
        self.dispatcher.assign(job, -1)


class AssignsToANumpyInteger(Correct):
    def place(self, job):
        self.dispatcher.assign(job, np.int64(0))


class NeedsTwoServers(Correct):
    def place(self, job):
        servers = range(self.dispatcher.servers)
        self.dispatcher.assign(job, servers[1])


class WaitingParameters(NoParameters, frozen=True):
    timeout: Timeout = None


class HasATimeoutAndIgnoresIt(Correct):
    Parameters = WaitingParameters

    @classmethod
    def probes_per_job(cls, parameters, servers):
        return 1

    def place(self, job):
        self.dispatcher.probe(0, job)

    def on_probe_reply(self, reply):
        self.dispatcher.assign(reply.job, reply.sender)


class PlacesAgainOnALateReply(HasATimeoutAndIgnoresIt):
    def __init__(self, parameters, dispatcher):
        super().__init__(parameters, dispatcher)
        self.answered = set()

    def place(self, job):
        super().place(job)
        if self.parameters.timeout is not None:
            env = self.dispatcher.env
            env.call_at(env.now + self.parameters.timeout, lambda: self.give_up(job))

    def give_up(self, job):
        if job not in self.answered:
            self.dispatcher.assign(job, 0)

    def on_probe_reply(self, reply):
        self.answered.add(reply.job)
        super().on_probe_reply(reply)


class ForTheWrongJob(BatchFilling):
    """Replies are collected well, but a job that is ready gets the queues that the one before it saw."""

    before = None

    def decide(self, round):
        mine = round.queue_lengths
        round.queue_lengths = self.before or mine
        self.before = mine
        super().decide(round)


class WhatItHeardLast(BatchFilling):
    """A job is placed by what its servers said last, to whichever job."""

    def __init__(self, parameters, dispatcher):
        super().__init__(parameters, dispatcher)
        self.heard = {}

    def on_probe_reply(self, reply):
        self.heard[reply.sender] = reply.queue_length
        super().on_probe_reply(reply)

    def decide(self, round):
        round.queue_lengths = {server: self.heard[server] for server in round.queue_lengths}
        super().decide(round)


class WithAMemory(WhatItHeardLast):
    """Not a fault, as it says so."""

    remembers = True


class Copies(Correct):
    """Two copies of each job, on servers that may be the same one."""

    @classmethod
    def copies(cls, parameters):
        return 2

    def place(self, job):
        for server in (0, self.dispatcher.servers - 1):
            self.dispatcher.assign(job, server)


class CopiesMoreThanItClaims(Copies):
    def place(self, job):
        super().place(job)
        if job == 7:
            self.dispatcher.assign(job, 0)


class CopiesAJobThatHasEnded(Copies):
    def place(self, job):
        env = self.dispatcher.env
        self.dispatcher.assign(job, 0)
        env.call_at(env.now + 2.0, lambda: self.dispatcher.assign_tied(job, [0]))


class NeverPlacesOneThatItCopies(Copies):
    def place(self, job):
        if job != 5:
            super().place(job)


class CopiesByWhatItHeardLast(ProbingPolicy):
    """Two copies go where queues are shortest, by what servers said last, to whichever job."""

    name = "planted"
    source = "a test"
    Parameters = WaitingParameters

    def __init__(self, parameters, dispatcher):
        super().__init__(parameters, dispatcher)
        self.heard = dict.fromkeys(range(dispatcher.servers), 0)

    @classmethod
    def copies(cls, parameters):
        return 2

    @classmethod
    def probes_per_job(cls, parameters, servers):
        return servers

    def place(self, job):
        self.start_round(job, list(range(self.dispatcher.servers)))

    def on_probe_reply(self, reply):
        self.heard[reply.sender] = reply.queue_length
        super().on_probe_reply(reply)

    def decide(self, round):
        for server in sorted(self.heard, key=self.heard.get)[:2]:
            self.dispatcher.assign(round.job, server)


class ReadsTheSizesOfCopies(Copies):
    def place(self, job):
        if self.dispatcher.in_system[job].every_size[0] > 0:
            super().place(job)


class HasNoSource(Correct):
    source = ""


@pytest.mark.parametrize("policy", [Correct, PlacesLater, WithAMemory, Copies])
def test_a_correct_policy_passes(policy):
    check_policy(policy)


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (LosesAJob, "never places job 5"),
        (PlacesTwice, "places job 0 a second time"),
        (PlacesAnotherJob, "which has ended or is not its dispatcher's"),
        (ProbesMoreThanItClaims, r"sends more probes for job 3 than the \d that probes_(per_job|for_tasks) claims"),
        (SendsOnItsOwn, "no attribute 'send'"),
        (ProbesWithoutAClaim, "than the 0 that probes_per_job claims"),
        (ReadsSizes, "no attribute 'in_system'"),
        (ReadsTheTypeLater, "no attribute 'in_system'"),
        (AsksForSizes, "sizes are not known"),
        (AsksForTheType, "the type of a job is not known"),
        (ReplacesAssign, "cannot assign to field 'assign'"),
        (ReadsAnotherAgent, "no attribute 'agents'"),
        (UsesTheGlobalGenerator, "makes other decisions when it is run again with the same seed"),
        (UsesEntropy, "(makes other decisions|in one run and not in the next)"),
        (RemembersBetweenRuns, "(makes other decisions|in one run and not in the next)"),
        (AssignsBeyondTheLastServer, "but the servers are 0.."),
        (AssignsToMinusOne, "but the servers are 0.."),
        (AssignsToANumpyInteger, "which is a int64; a server is an int"),
        (NeedsTwoServers, "fails with IndexError"),
        (HasATimeoutAndIgnoresIt, "never places job"),
        (PlacesAgainOnALateReply, "(a second time|which has ended)"),
        (ForTheWrongJob, r"places job \d elsewhere when the replies to the probes of job \d are others"),
        (CopiesByWhatItHeardLast, r"places job \d elsewhere when the replies to the probes of job \d are others"),
        (WhatItHeardLast, r"places job \d elsewhere when the replies to the probes of job \d are others"),
        (CopiesMoreThanItClaims, "places more copies of job 7 than the 2 that it claims"),
        (CopiesAJobThatHasEnded, "places job 0, which has ended"),
        (NeverPlacesOneThatItCopies, "never places job 5"),
        (ReadsTheSizesOfCopies, "no attribute 'in_system'"),
        (HasNoSource, "must have a name and a source"),
    ],
)
def test_a_broken_rule_is_found_and_named(policy, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_policy(policy)


def test_a_policy_that_uses_the_former_name_of_an_event_is_refused():
    with pytest.raises(TypeError, match=r"OldNames.on_lost is now called on_down; rename it"):
        type("OldNames", (Correct,), {"on_lost": lambda self, first, last: None})


def test_parameters_that_fit_no_number_of_servers_are_refused():
    with pytest.raises(ValueError, match="random refuses these parameters with 1 to 8 servers: weights: "):
        check_policy("random", {"weights": [1.0] * 9})


def test_a_missing_hypothesis_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ImportError, match=r"loadbalance-testbed\[test\]"):
        check_policy("random")
