"""Static assignment: each job goes to a pool with a fixed probability, whatever the queues.

The probabilities may depend on what the dispatcher knows of the job's type (its *signal*): nothing, the type, a type
that may be wrong ("noisy"), or the type of some jobs ("revealed"). In a pool with a central queue the job joins that;
in a pool whose servers have queues of their own it goes to one of them, chosen uniformly. The policy does not decide
what happens to the job at a threshold, except with known sizes: then each job takes the pool and the thresholds that
are best for its own sizes ("rational rerouting").

Source: Raaijmakers, Borst and Boxma, "Threshold-based rerouting and replication for resolving job-server affinity
relations" (arXiv 2005.13353), where the assignment is the matrix A; signals follow "completely unknown", "partly known"
and "completely known" types there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import fsum
from typing import Annotated, Any, Literal

import msgspec
from typing_extensions import override

from dispatchers.policy import Policy
from dispatchers.view import DispatcherView

#: The signal of a job whose type is not known, after those that are named like the types.
UNKNOWN = "unknown"

_ROUNDING = 1e-9  # how far fractions may be from a sum of 1

Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


class StaticParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of static assignment."""

    assignment: Annotated[
        dict[str, Fraction | dict[str, Fraction]] | None,
        msgspec.Meta(
            description="fraction of the jobs by pool, { a = 0.7, b = 0.3 }; or such a table for each signal, by type "
            'and "unknown"; default: in proportion to the servers'
        ),
    ] = None
    knows: Annotated[
        Literal["nothing", "types", "sizes"] | dict[Literal["noisy", "revealed"], Fraction],
        msgspec.Meta(
            description='what the dispatcher knows of a job: "nothing", its type ("types"), its "sizes", '
            "{ noisy = q }: its type with probability q, else another one, or { revealed = phi }: its type with "
            "probability phi, else nothing"
        ),
    ] = "nothing"

    def signal_probabilities(self, types: int) -> list[list[float]]:
        """Return Q_jk = P(signal k | type j): a row per type; columns are the types, and last "unknown"."""
        own, others, unknown = 0.0, 0.0, 1.0
        if self.knows == "types":
            own, unknown = 1.0, 0.0
        elif isinstance(self.knows, Mapping):
            ((key, value),) = self.knows.items()
            if key == "revealed":
                own, unknown = value, 1 - value
            else:
                own, others, unknown = (value, (1 - value) / (types - 1), 0.0) if types > 1 else (1.0, 0.0, 0.0)
        return [[own if k == j else others for k in range(types)] + [unknown] for j in range(types)]

    def fractions(self, pools: Mapping[str, int], types: Sequence[str]) -> list[list[float]]:
        """Return beta_ki, the fraction of the jobs with signal k that go to pool i.

        ``pools`` are numbers of servers by name. There is a row for each type, and last for "unknown"; a signal that
        jobs can't have, or that has no table of its own, has the servers' proportions. Raises ValueError, saying what
        would be right, for an assignment that doesn't fit.
        """
        servers = sum(pools.values())
        default = [count / servers for count in pools.values()]
        assignment = self.assignment
        if assignment is None:
            return [default] * (len(types) + 1)
        tables = {key: table for key, table in assignment.items() if isinstance(table, Mapping)}
        if not tables:
            return [_row("assignment", assignment, pools)] * (len(types) + 1)
        if len(tables) < len(assignment):
            raise ValueError("assignment: give either a fraction for each pool, or a table for each signal")
        signals = [*types, UNKNOWN]
        if UNKNOWN in types:
            raise ValueError('assignment: "unknown" is a signal; give the type of that name another one')
        possible = [
            signal
            for signal, probabilities in zip(
                signals, zip(*self.signal_probabilities(len(types)), strict=True), strict=True
            )
            if any(probabilities)
        ]
        if possible == [UNKNOWN] and set(tables) <= set(types):
            raise ValueError(
                'assignment: there is a table for each type, but types are not known; add knows = "types", or give '
                f"one for all jobs: assignment = {{ {next(iter(pools))} = 1.0 }}"
            )
        if set(tables) != set(possible):
            raise ValueError(
                f"assignment: the signals of jobs are {', '.join(possible)} (dispatch.knows); give a table for each, "
                f"not for {', '.join(tables)}"
            )
        return [
            _row(f"assignment.{signal}", tables[signal], pools) if signal in tables else default for signal in signals
        ]

    def assigned(self, pools: Mapping[str, int], types: Sequence[str]) -> list[list[float]]:
        """Return alpha_ji, the fraction of the type-j jobs that go to pool i: sum over k of Q_jk beta_ki."""
        beta = self.fractions(pools, types)
        return [
            [fsum(q * row[i] for q, row in zip(signals, beta, strict=True)) for i in range(len(pools))]
            for signals in self.signal_probabilities(len(types))
        ]


class Static(Policy):
    """Fixed fractions of the jobs for each pool, which may depend on what is known of their types."""

    name = "static"
    source = "Raaijmakers, Borst and Boxma, arXiv 2005.13353"
    Parameters = StaticParameters
    theory = "testbed.theory.static_assignment:STATIC"
    admits = True
    rational = True

    def __init__(self, parameters: StaticParameters, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self._pools = dispatcher.pools
        servers = {pool.name: pool.servers for pool in self._pools}
        self._cumulated = [list(accumulate(row)) for row in parameters.fractions(servers, dispatcher.types)]
        self._by_signal = any(isinstance(table, Mapping) for table in (parameters.assignment or {}).values())

    @classmethod
    @override
    def check(cls, parameters: StaticParameters, servers: int) -> None:
        """Check that a partial knowledge is one thing."""
        if isinstance(parameters.knows, Mapping) and len(parameters.knows) != 1:
            raise ValueError("knows: give either noisy or revealed")

    @classmethod
    @override
    def check_pools(cls, parameters: StaticParameters, pools: Mapping[str, int], types: Sequence[str]) -> None:
        """Check that the assignment is one of the jobs' signals to the pools, and makes use of the signals."""
        parameters.fractions(pools, types)
        tables = (parameters.assignment or {}).values()
        if parameters.knows not in ("nothing", "sizes") and not any(isinstance(table, Mapping) for table in tables):
            raise ValueError(
                "knows: it has no effect without an assignment for each signal, like "
                "assignment = { a = { one = 1.0 }, b = { two = 1.0 } }; give one, or leave knows out"
            )

    @override
    @classmethod
    def pool_fractions(
        cls, parameters: StaticParameters, pools: Mapping[str, int], types: Sequence[str]
    ) -> list[list[float]]:
        """Return the assignment, averaged over the signals of each type."""
        return parameters.assigned(pools, types)

    @override
    def place(self, job: int) -> None:
        """Choose a pool, and in a pool without a queue a server."""
        dispatcher = self.dispatcher
        uniform = dispatcher.rng.uniform
        if dispatcher.rational is not None:
            chosen, thresholds = dispatcher.rational.choose(dispatcher.sizes(job), uniform())
            dispatcher.admit(job, chosen, thresholds)
            return
        cumulated = self._cumulated[dispatcher.signal(job) if self._by_signal else -1]
        pool = self._pools[bisect_right(cumulated, uniform() * cumulated[-1])]
        if pool.central:
            dispatcher.admit(job, pool.index)
        else:
            dispatcher.assign(job, pool.first + int(uniform() * pool.servers))


def _row(key: str, table: Mapping[str, Any], pools: Mapping[str, int]) -> list[float]:
    """Return the fractions of the pools that a table gives; a pool that it leaves out has none."""
    for name in table:
        if name not in pools:
            raise ValueError(f"{key}: there is no pool {name} (pools: {', '.join(pools)})")
    row = [float(table.get(name, 0.0)) for name in pools]
    if abs(fsum(row) - 1) > _ROUNDING:
        raise ValueError(f"{key}: the fractions of the pools must add up to 1, not {fsum(row):.12g}")
    return row
