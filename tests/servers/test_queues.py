import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.queues import FirstComeFirstServed
from testbed.core.messages import Assign


@given(st.lists(st.integers(0, 9) | st.sampled_from(["next", "newest"])))
def test_tasks_leave_in_the_order_in_which_they_came(actions):
    queue = FirstComeFirstServed()
    model = []
    for number, action in enumerate(actions):
        if isinstance(action, int):
            waiting = (0.0, 0.0, Assign(0, 1, number, action, 0, 1.0), 1)
            queue.push(waiting)
            model.append(waiting)
            assert queue.find(number, action) is waiting
            assert queue.find(number, action + 1) is None
        elif model:
            assert (queue.pop_next() if action == "next" else queue.pop_newest()) == model.pop(-(action == "newest"))
        assert list(queue) == model


def test_an_empty_queue_has_no_task_to_leave():
    for pop in ("pop_next", "pop_newest"):
        with pytest.raises(IndexError):
            getattr(FirstComeFirstServed(), pop)()
