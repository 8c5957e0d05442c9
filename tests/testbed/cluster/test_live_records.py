"""What is counted of records while they are written."""

from __future__ import annotations

from testbed.cluster.live_records import LiveCopies
from testbed.core.outcomes import CopyOutcome, StateAtCancellation
from testbed.core.rows import CopyRecord


def copy(state: int) -> CopyRecord:
    return CopyRecord(
        job=1,
        copy=0,
        pool=0,
        server=2,
        wait=0.0,
        received=1.0,
        preemptions=0,
        outcome=CopyOutcome.SUPERSEDED,
        state_at_cancellation=StateAtCancellation(state),
        delay=0.1,
        end=3.0,
    )


def test_copies_that_a_cancellation_found_in_any_state_were_cancelled() -> None:
    copies = LiveCopies(8)
    for state in (0, 2, 6, 0, 1):
        copies.write(copy(state))
    assert copies.cancelled == 0  # until it is asked to catch up
    copies.catch_up()
    assert copies.cancelled == 3
    copies.write(copy(5))
    copies.catch_up()
    assert copies.cancelled == 4
