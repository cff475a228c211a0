"""Authority: a coordinator acts only while active and within the majority's leases, by its own clock (4.4)."""

import pytest

from tests.core.levels.optimistic.tickets.cluster import SETTINGS
from tests.core.levels.optimistic.tickets.test_records import alone
from whence.core.levels.optimistic.tickets.authority import TRANSITIONS, Authority, SessionState
from whence.core.levels.optimistic.tickets.turn import Turn
from whence.core.ready import Ready
from whence.types import Process

WITNESS = Process(2, 1)
LEASE_NS = SETTINGS.lease_ns


def active(now: int = 0) -> Authority:
    """Return a coordinator whose only witness lent it a lease."""
    authority = Authority(alone(), SETTINGS, now)
    authority.take_lease(WITNESS, now, now)
    return authority


def kinds(ready: Ready) -> list[tuple[str, int | None]]:
    return [(note.kind, note.value) for note in ready.notes if note.kind != "note"]


def test_it_acts_only_once_a_lease_has_come_and_until_it_ends() -> None:
    authority = Authority(alone(), SETTINGS, 0)
    assert not authority.may_act(0)
    assert authority.lenders_missing(0) == (WITNESS,)
    authority.take_lease(WITNESS, 5, 9)
    assert authority.state is SessionState.ACTIVE
    assert authority.since == 9
    assert authority.may_act(5 + LEASE_NS - 1)
    assert not authority.may_act(5 + LEASE_NS), "counted from the asking"
    assert authority.lenders_missing(5 + LEASE_NS) == (WITNESS,)


def test_observers_are_told_when_it_acts_when_it_stops_and_how_late_it_noticed() -> None:
    authority, ready = active(), Ready()
    authority.announce(Turn(Process(1, 1), 0, ready))
    authority.announce(Turn(Process(1, 1), 1, ready))
    assert kinds(ready) == [("ticket_acquire", SETTINGS.tickets)]
    late = Ready()
    assert authority.lapse(Turn(Process(1, 1), LEASE_NS + SETTINGS.answer_ns + 1, late))
    assert [note.late_ns for note in late.notes if note.kind == "ticket_suspend"] == [SETTINGS.answer_ns + 1]
    assert [note.reason for note in late.notes if note.kind == "note"] == ["lease_overslept"]
    assert not authority.lapse(Turn(Process(1, 1), 2 * LEASE_NS, Ready())), "it is told once"


def test_a_leaver_says_so_once_and_never_acts_again() -> None:
    authority, ready = active(), Ready()
    turn = Turn(Process(1, 1), 1, ready)
    authority.announce(turn)
    authority.step(SessionState.LEAVING)
    authority.announce_release(turn)
    authority.announce_release(turn)
    assert [kind for kind, _ in kinds(ready)] == ["ticket_acquire", "ticket_release"]
    authority.take_lease(WITNESS, 2, 2)
    assert not authority.may_act(2)
    assert authority.lenders_missing(2) == ()


def test_a_closed_session_never_comes_back() -> None:
    assert TRANSITIONS[SessionState.CLOSED] == ()
    authority = active()
    authority.step(SessionState.CLOSED)
    with pytest.raises(AssertionError):
        authority.step(SessionState.ACTIVE)
