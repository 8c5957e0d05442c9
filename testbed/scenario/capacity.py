"""What the servers can carry, where they have different speeds for different types of jobs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

Speeds = tuple[tuple[float, ...], ...]


@lru_cache(maxsize=256)
def capacity(servers: tuple[int, ...], speeds: Speeds, probabilities: tuple[float, ...]) -> float:
    """Return the most work that arrives in a time unit, and that the servers can do, in time units at speed 1.

    ``servers``: number of servers in each pool; ``speeds[i][j]``: of pool i for type j; ``probabilities``: of the
    types, which all have the same distribution of sizes. Every type may be served wherever that is best: x[i, j] is the
    fraction of its time that pool i serves type j, and the largest c is sought for which
    sum_i servers[i] speeds[i][j] x[i, j] = c probabilities[j] for each type j, and sum_j x[i, j] <= 1 for each pool i.

    Identical servers of speed 1 have exactly their number.
    """
    if all(pool == speeds[0] for pool in speeds):
        if not all(speeds[0]):
            return 0.0
        slowness = sum(p / speed for p, speed in zip(probabilities, speeds[0], strict=True))
        return sum(servers) / slowness if set(speeds[0]) != {1.0} else float(sum(servers))
    if len(probabilities) == 1:
        return float(sum(n * speed for n, (speed,) in zip(servers, speeds, strict=True)))
    from scipy.optimize import linprog  # a tenth of a second, which few scenarios need

    pools, types = len(servers), len(probabilities)
    rate = np.array(speeds) * np.array(servers)[:, None]
    served = np.hstack([*(np.diag(rate[i]) for i in range(pools)), -np.array(probabilities)[:, None]])
    busy = np.hstack([np.kron(np.eye(pools), np.ones(types)), np.zeros((pools, 1))])
    cost = np.zeros(pools * types + 1)
    cost[-1] = -1.0
    solution = linprog(cost, A_ub=busy, b_ub=np.ones(pools), A_eq=served, b_eq=np.zeros(types))
    return float(solution.x[-1])
