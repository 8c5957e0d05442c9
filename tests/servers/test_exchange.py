"""The life of an exchange: which events each state knows, and the diagram drawn from it."""

from __future__ import annotations

import pytest

from servers.exchange import OPEN, TRANSITIONS, Event, Exchange, State, diagram

#: Written down once more, from the protocol in words: what may come to each end of an exchange.
EXPECTED = {
    State.ASKING: {Event.TRANSFER: State.GOT, Event.REFUSED: State.FAILED, Event.PEER_DOWN: State.FAILED},
    State.OFFERING: {
        Event.ACCEPTED: State.SENT,
        Event.ACCEPTED_TOO_LATE: State.WITHDREW,
        Event.REFUSED: State.FAILED,
        Event.PEER_DOWN: State.FAILED,
    },
    State.PROMISED: {Event.TRANSFER: State.GOT, Event.WITHDRAWN: State.FREED, Event.PEER_DOWN: State.FREED},
    State.SENT: {Event.RECEIVED: State.SETTLED, Event.PEER_DOWN: State.MISSING},
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_an_event_leads_where_it_should_and_an_impossible_one_raises(state: State, event: Event) -> None:
    exchange = Exchange(7, 3, state)
    expected = EXPECTED.get(state, {}).get(event)
    if expected is None:
        with pytest.raises(KeyError):
            exchange.advance(event)
        assert exchange.state is state
    else:
        assert exchange.advance(event) is expected
        assert exchange.state is expected


def test_an_open_exchange_can_always_end_by_the_death_of_the_other() -> None:
    assert set(EXPECTED) == OPEN
    assert all((state, Event.PEER_DOWN) in TRANSITIONS for state in OPEN)


def test_the_diagram_shows_every_transition_every_beginning_and_every_end() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    arrows = [line.strip() for line in lines if "-->" in line]
    for state, events in EXPECTED.items():
        for event, new in events.items():
            assert arrows.count(f"{state.name} --> {new.name}: {event.value}") == 1
    for state in State:
        assert f"    {state.name}: {state.value}" in lines
        assert (f"{state.name} --> [*]" in arrows) == (state not in OPEN)
        assert any(arrow.startswith(f"[*] --> {state.name}:") for arrow in arrows) == (state in OPEN)
    assert len(arrows) == len(TRANSITIONS) + len(State)
