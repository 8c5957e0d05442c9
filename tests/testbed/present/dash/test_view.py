"""What the page is told of a run."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest

from testbed.cluster.snapshot import Responses, Snapshot
from testbed.core.records import RESPONSE_BUCKETS
from testbed.measure.histogram import LogHistogram
from testbed.present.dash.view import MOST_ROWS, RunView, point_of, rows, servers_per_row, tail_of, view_of

Make = Callable[..., Snapshot]


def test_a_run_has_the_figures_of_its_snapshot(snapshot: Make) -> None:
    made = snapshot()
    view = view_of(made)
    assert (view.mean, view.half_width, view.completed) == (2.0, 0.25, 2)
    assert view.quantiles["0.99"] == made.responses.quantile(0.99)
    assert (view.state, view.so_far, view.valid) == ("running", True, True)
    assert view.theory == made.theory
    assert [(process.name, process.pid, process.cpu_share) for process in view.processes] == [("node-0", 4, 0.25)]
    assert msgspec.json.decode(msgspec.json.encode(view), type=RunView) == view


def test_what_happened_is_the_difference_of_what_was_counted(snapshot: Make) -> None:
    before = snapshot(counters={"tasks stolen": 5, "reroutes": 1, "copies cancelled": 2, "reservations cancelled": 3})
    after = snapshot(counters={"tasks stolen": 9, "reroutes": 1, "copies cancelled": 3, "reservations cancelled": 7})
    assert point_of(after, before).events == {"stolen": 4, "cancelled": 5}
    assert point_of(before, None).events == {}  # a cluster may have stood for days
    # A process that is restarted counts from zero again.
    assert point_of(before, after).events == {}


def test_the_curve_is_the_share_of_jobs_beyond_each_bucket(snapshot: Make) -> None:
    times = [0.5, 0.5, 2.0, 8.0]
    histogram = LogHistogram(*RESPONSE_BUCKETS)
    for time in times:
        histogram.add(time)
    curve = tail_of(Responses(counts=histogram.counts, sum=histogram.sum))
    assert len(curve) == 2  # at the last time nobody is left, which no logarithmic axis shows
    for t, share in curve:
        assert share == sum(time > t for time in times) / len(times)
    assert tail_of(Responses()) == []


@pytest.mark.parametrize("servers", [1, MOST_ROWS, MOST_ROWS + 1, 5000])
def test_each_row_is_the_mean_of_its_servers(servers: int) -> None:
    lengths = [i % 7 for i in range(servers)]
    found, width = rows(lengths), servers_per_row(servers)
    assert len(found) == math.ceil(servers / width) <= MOST_ROWS
    for i in (0, len(found) - 1):
        mine = lengths[i * width : (i + 1) * width]
        assert found[i] == pytest.approx(sum(mine) / len(mine), abs=0.051)


def test_a_cluster_that_has_said_nothing_yet_has_no_rows() -> None:
    assert rows([]) == ()
