"""The order of events that happen at one time."""

from __future__ import annotations

from testbed.runtime.loop import SIMULTANEOUS
from testbed.runtime.virtual import VirtualRuntime


def test_arrivals_come_after_all_timers_of_the_same_time() -> None:
    runtime = VirtualRuntime(1)
    events: list[tuple[str, float]] = []

    def note(name: str) -> None:
        events.append((name, runtime.now))

    runtime.call_last(1.0, lambda: note("first arrival"))
    runtime.call_last(1.0, lambda: note("second arrival"))
    runtime.call_at(1.0, lambda: note("end"))
    runtime.call_at(1.0 + 1e-12, lambda: note("rounded end"))
    runtime.call_at(1.0 + 3 * SIMULTANEOUS, lambda: note("later"))
    cancelled = runtime.call_last(1.0, lambda: note("cancelled"))
    cancelled.cancel()
    runtime.run(1.0)  # a run may be cut here, and goes on
    runtime.run(2.0)
    assert [name for name, _ in events] == ["end", "rounded end", "first arrival", "second arrival", "later"]
    times = [now for _, now in events]
    assert times == sorted(times)
    assert times[-2] - times[0] <= SIMULTANEOUS


def test_an_arrival_alone_keeps_its_time_to_the_bit() -> None:
    runtime = VirtualRuntime(1)
    times: list[float] = []
    for when in (0.1, 1 / 3, 1e6 / 7):
        runtime.call_last(when, lambda: times.append(runtime.now))
    runtime.run(1e6)
    assert times == [0.1, 1 / 3, 1e6 / 7]
    runtime.call_last(5.0, lambda: times.append(runtime.now))  # past
    runtime.run(1e6 + 1)
    assert times[-1] == 1e6
