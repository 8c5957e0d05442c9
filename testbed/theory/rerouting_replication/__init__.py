"""Threshold-based rerouting and replication between pools of servers, with job-server affinity.

The model of Y. Raaijmakers, S. Borst and O. Boxma, "Threshold-based rerouting and replication for resolving job-server
affinity relations" (arXiv 2005.13353): a job is assigned to a pool on arrival; when it has received ``tau`` of
processing there without finishing, it starts afresh in another pool ("reroute"), or a copy starts there and both run
until the first one finishes ("replicate"). How fast a pool is depends on the job's type, which the dispatcher may not
know. Everything here is a pure function of a Model and a policy:

    service_requirement, effective_load    processing time per job in each pool; times the rate, per server
    processing_time                        the same of one job with given sizes, which no queue can change
    stability_bound                        the largest rate at which effective loads stay below 1
    mean_latency, best_thresholds          approximate mean latencies, and the thresholds that are best by them
    one_job, original_wins                 moments of one job's time before and after its threshold
    rational_reroutes, replication_options what can be best for a job of known size
    rational_rule                          what is best for it, as a rule for single jobs

Symbols in the formulas are the paper's; where it leaves a choice open the docstrings say what is done.
"""

from testbed.theory.rerouting_replication.known_sizes import (
    Option,
    rational_reroutes,
    replication_options,
    reroute_factors,
)
from testbed.theory.rerouting_replication.latency import (
    Approximation,
    BestThresholds,
    MeanLatency,
    best_thresholds,
    mean_latency,
)
from testbed.theory.rerouting_replication.load import effective_load, service_requirement
from testbed.theory.rerouting_replication.model import (
    FullRedundancy,
    Knowledge,
    KnownSizes,
    Model,
    Noisy,
    Policy,
    Replicate,
    Reroute,
    Revealed,
    ZeroRedundancy,
    signal_matrix,
)
from testbed.theory.rerouting_replication.one_job import OneJob, one_job, original_wins
from testbed.theory.rerouting_replication.processing import processing_time
from testbed.theory.rerouting_replication.rational import RationalRule, rational_rule
from testbed.theory.rerouting_replication.rerouting_stability import StabilityBound, stability_bound

__all__ = [
    "Approximation",
    "BestThresholds",
    "FullRedundancy",
    "Knowledge",
    "KnownSizes",
    "MeanLatency",
    "Model",
    "Noisy",
    "OneJob",
    "Option",
    "Policy",
    "RationalRule",
    "Replicate",
    "Reroute",
    "Revealed",
    "StabilityBound",
    "ZeroRedundancy",
    "best_thresholds",
    "effective_load",
    "mean_latency",
    "one_job",
    "original_wins",
    "processing_time",
    "rational_reroutes",
    "rational_rule",
    "replication_options",
    "reroute_factors",
    "service_requirement",
    "signal_matrix",
    "stability_bound",
]
