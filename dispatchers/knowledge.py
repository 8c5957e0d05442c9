"""What a dispatcher knows of the jobs that arrive: their types, in full or in part, their sizes, or nothing.

Of a job's type the dispatcher sees a *signal*: the index of a type, or ``unknown``, the index after the last type.

* ``types``: the signal is the type
* noisy: it is the type with probability q, else one of the other types, each as likely
* revealed: it is the type with probability phi, else unknown

A policy reads it with ``dispatcher.signal(job)``, and sizes with ``dispatcher.sizes(job)``; both raise NotKnownError
where the scenario does not allow it. One uniform number per job, drawn as it arrives, decides: with the same seed every
policy sees the same signals.

Source: Raaijmakers, Borst and Boxma (arXiv 2005.13353), where one parameter says how far types are known.
"""

from __future__ import annotations

from testbed.core.streams import Stream


class NotKnownError(Exception):
    """The policy asked for something that the scenario does not let it know."""


class Knowledge:
    """What a dispatcher knows of jobs of ``types`` types.

    Without ``noisy`` (q) and ``revealed`` (phi) types are known in full, or not at all (``signals`` is false).
    ``stream`` gives the uniform numbers; none is drawn where nothing is random.
    """

    def __init__(
        self,
        types: int,
        stream: Stream,
        *,
        signals: bool = True,
        noisy: float | None = None,
        revealed: float | None = None,
        sizes: bool = False,
    ) -> None:
        self.signals = signals
        self.sizes = sizes
        self.unknown = types
        self._types = types
        self._stream = stream
        self._noisy = noisy
        self._revealed = revealed

    def signal(self, job_type: int) -> int:
        """Return the signal of an arriving job of a type: each call is another job's."""
        if self._noisy is not None:
            draw = self._stream.uniform()
            if draw < self._noisy or self._types == 1:
                return job_type
            other = int((draw - self._noisy) / (1.0 - self._noisy) * (self._types - 1))
            return other + (other >= job_type)
        if self._revealed is not None:
            return job_type if self._stream.uniform() < self._revealed else self.unknown
        return job_type
