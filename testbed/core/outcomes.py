"""Outcomes of jobs and of their copies: records hold their codes; files, tables and metrics show their labels."""

from __future__ import annotations

from enum import IntEnum

from typing_extensions import override


class Coded(IntEnum):
    """Codes in records, each with a label in files, tables and metrics. Codes count from 0."""

    @property
    def label(self) -> str:
        """The code in words."""
        return self.name.lower().replace("_", " ")

    @classmethod
    def labels(cls) -> list[str]:
        """Return all labels by code."""
        return [code.label for code in cls]


class JobOutcome(Coded):
    """What became of a job."""

    COMPLETED = 0
    DROPPED = 1
    LOST = 2
    IN_SYSTEM = 3


class CopyOutcome(Coded):
    """What became of a copy of a job; the column ``fate`` of records."""

    WON = 0
    SUPERSEDED = 1
    REROUTED = 2
    DIED = 3

    @property
    @override
    def label(self) -> str:
        """The code in words; files and metrics call superseded copies lost."""
        return "lost" if self is CopyOutcome.SUPERSEDED else super().label


class StateAtCancellation(Coded):
    """What the cancellation of a copy found; the column ``met`` of records."""

    NOT_CANCELLED = 0
    QUEUED = 1
    IN_SERVICE = 2
    PREEMPTED = 3
    WAITING = 4
    ALREADY_DONE = 5
    NOT_YET_ARRIVED = 6
