"""What shows a run, or a long-running cluster, while it goes on."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from testbed.cluster.snapshot import Snapshot
from testbed.measure.summary import Summary


class Display(Protocol):
    """Shows how a run is doing. Runs are shown within a ``with`` statement, where what they need is open."""

    def announce(self, text: str) -> None:
        """Show a line of text."""

    def show(self, snapshot: Snapshot) -> None:
        """Show the present state."""

    def conclude(self, summary: Summary) -> None:
        """Show the results of a run on the cluster."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Silent:
    """A display that shows nothing."""

    def announce(self, text: str) -> None:
        """Show nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Show nothing."""

    def conclude(self, summary: Summary) -> None:
        """Show nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass
