"""The distance of a finite cluster from a limit of many servers: a fit over the number of servers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.measure.control_variate import Estimate

Array = npt.NDArray[np.float64]

TERMS = 3  # of the fit: the limit, b / N and c / N^2


class FiniteSizeFit(msgspec.Struct, frozen=True, kw_only=True):
    """The fit of a + b/N + c/N^2 to the twin's errors: measured value minus theory at N, as a fraction of theory.

    ``extrapolation`` is a, the error in the limit: 0 if theory is right. ``first_order`` is b and ``second_order`` c.
    ``misfit``: independent combinations of the errors that are 0 if the errors shrink as the fit does, one for each
    number of servers above three.
    """

    extrapolation: Estimate
    first_order: Estimate
    second_order: Estimate
    misfit: list[Estimate]

    def error(self, servers: float) -> float:
        """Return the fitted error at N servers, as a fraction of theory."""
        a, b, c = (estimate.value for estimate in (self.extrapolation, self.first_order, self.second_order))
        return a + b / servers + c / servers**2


def fit(servers: Sequence[int], errors: Sequence[Estimate], weights: Sequence[float]) -> FiniteSizeFit:
    """Fit a + b/N + c/N^2 by weighted least squares.

    ``servers``: the N, at least four; ``errors``: one for each N; ``weights``: proportional to the inverse variances,
    as known beforehand (the number of jobs), so that the fit is linear in the errors and unbiased. Standard errors
    follow from those of ``errors``, whatever the weights; degrees of freedom are Satterthwaite's. The mean field of
    Markov population models has such an expansion: Gast and Van Houdt, Proc. ACM Meas. Anal. Comput. Syst. 1 (2017), 2.
    """
    if len(servers) <= TERMS:
        raise ValueError(f"{len(servers)} numbers of servers: a fit needs more than {TERMS}")
    inverse = 1.0 / np.asarray(servers, dtype=np.float64)
    design = np.stack([np.ones_like(inverse), inverse, inverse**2], axis=1)
    root = np.sqrt(np.asarray(weights, dtype=np.float64) / max(weights))
    # The columns differ much in size, and are scaled: otherwise the small ones would be lost in rounding.
    scale = np.abs(design).max(axis=0)
    q, r = np.linalg.qr(root[:, None] * design / scale, mode="complete")
    coefficients = np.linalg.solve(r[:TERMS], q[:, :TERMS].T) * root / scale[:, None]
    combinations = q[:, TERMS:].T * root
    a, b, c = (_combined(row, errors) for row in coefficients)
    return FiniteSizeFit(
        extrapolation=a,
        first_order=b,
        second_order=c,
        misfit=[_combined(row, errors) for row in combinations],
    )


def _combined(weights: Array, errors: Sequence[Estimate]) -> Estimate:
    """Return the sum of weights times independent estimates."""
    variances = [(w * e.standard_error) ** 2 for w, e in zip(weights.tolist(), errors, strict=True)]
    total = sum(variances)
    spread = sum(v**2 / e.freedom for v, e in zip(variances, errors, strict=True))
    freedom = total**2 / spread if spread > 0 else min(e.freedom for e in errors)
    value = sum(w * e.value for w, e in zip(weights.tolist(), errors, strict=True))
    return Estimate(value, math.sqrt(total), freedom)
