"""The fixed point that queue lengths settle at when buffers are finite and dropped jobs lighten the load."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import root

from testbed.theory.steady_state import Floats

#: Weights of the new queue lengths. Where overload makes drops react steeply, larger ones oscillate for ever.
_DAMPINGS = (0.5, 0.2, 0.05, 0.01, 0.002)
_MOST_ITERATIONS = 200
_SETTLED = 1e-13


def settled(flow: Callable[[Floats], Floats], buffer: int, load: float) -> Floats:
    """Return S_0..S_b with S_(i+1) = flow(S)_i, found by damped iteration.

    ``flow`` maps S of shape (b + 1,) to the flows of tasks into positions above 0..b-1, shape (b,); they equal
    S_1..S_b in steady state. Where few probes and a large buffer make the iteration creep, Newton's method goes on from
    where it has come. Raises ArithmeticError where neither settles.
    """

    def next_after(S: Floats) -> Floats:
        # On the way to the fixed point the flows need not be probabilities, nor ordered as tails are.
        return np.minimum.accumulate(np.concatenate([[1.0], np.clip(flow(S), 0.0, 1.0)]))

    def change(tail: Floats) -> Floats:
        S = np.concatenate([[1.0], np.minimum.accumulate(np.clip(tail, 0.0, 1.0))])
        return np.asarray(next_after(S)[1:] - tail)

    S = min(load, 0.9) ** np.arange(buffer + 1.0)
    for damping in _DAMPINGS:
        for _ in range(int(_MOST_ITERATIONS / damping)):
            new = next_after(S)
            if float(np.abs(new - S).max()) < _SETTLED:
                return new
            S = S + damping * (new - S)
        tail = root(change, S[1:], tol=1e-15).x
        if float(np.abs(change(tail)).max()) < _SETTLED:
            return np.concatenate([[1.0], tail + change(tail)])
    raise ArithmeticError(f"the queue lengths at load {load} with a buffer of {buffer} did not settle")
