import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.queues import FirstComeFirstServed


@given(st.lists(st.integers() | st.none()))
def test_tasks_leave_in_the_order_in_which_they_came(actions):
    line = FirstComeFirstServed()
    model = []
    for action in actions:
        if action is not None:
            line.push(action)
            model.append(action)
        elif model:
            assert line.pop() == model.pop(0)
        assert len(line) == len(model)


def test_an_empty_line_has_no_next_task():
    with pytest.raises(IndexError):
        FirstComeFirstServed().pop()
