"""The books of the fault harness find what they are kept for."""

from tests.faults.books import Books
from tests.faults.machines import Event, Membership


def member(pid: int, *handed: Event, since_ns: int = 0, joined: int = 0) -> Membership:
    """Return a member that was handed some events, each once and for the first time."""
    made = Membership(pid, joined, since_ns)
    made.handed = [(event, False) for event in handed]
    return made


def publisher(*events: Event, at_ns: int = 10, told: str = "majority") -> Membership:
    """Return a member that published events and was told something of all of them."""
    made = member(0, *events)
    made.published = dict.fromkeys(events, at_ns)
    made.told[told] = dict.fromkeys(events)
    return made


ONE, TWO, THREE = (0, 1, 1), (0, 1, 2), (0, 1, 3)


def test_what_everybody_has_once_is_right() -> None:
    one, other = publisher(ONE, TWO), member(1, ONE, TWO)
    assert Books([one, other], [one, other]).wrong(one_sequence=True) == []


def test_what_was_acknowledged_and_not_handed_out_is_lost() -> None:
    one, other = publisher(ONE, TWO, told="settled"), member(1, ONE)
    (wrong,) = Books([one, other], [one, other]).wrong(one_sequence=False)
    assert "member 1 of view 0 was never handed 1 events, such as (0, 1, 2), acknowledged as settled" in wrong


def test_what_was_published_before_a_member_was_open_is_not_owed_to_it() -> None:
    one, other = publisher(ONE, at_ns=10), member(1, since_ns=11)
    assert Books([one, other], [other]).wrong(one_sequence=False) == []
    one.published[ONE] = 12
    assert len(Books([one, other], [other]).wrong(one_sequence=False)) == 1


def test_what_comes_twice_is_wrong_unless_it_is_said_to_come_again() -> None:
    one = publisher(ONE)
    one.handed.append((ONE, True))
    assert Books([one], [one]).wrong(one_sequence=True) == []
    one.handed.append((ONE, False))
    assert "twice without a word" in Books([one], [one]).wrong(one_sequence=True)[0]


def test_the_events_of_the_removed_count_as_far_as_it_was_told_and_no_further() -> None:
    gone = publisher(ONE, TWO, THREE, told="settled")
    gone.told["settled"] = {}
    gone.verdict = (True, TWO)
    assert Books([gone], [member(1, ONE, TWO)]).wrong(one_sequence=False) == []
    assert "lacks (0, 1, 2)" in Books([gone], [member(1, ONE)]).wrong(one_sequence=False)[0]
    assert "was handed (0, 1, 3)" in Books([gone], [member(1, ONE, TWO, THREE)]).wrong(one_sequence=False)[0]
    gone.verdict = (True, (0, 2, 5))
    assert Books([gone], [member(1)]).wrong(one_sequence=False) == [], "its first incarnation had only accepted them"
    gone.verdict = (False, TWO)
    assert Books([gone], [member(1, ONE)]).wrong(one_sequence=False) == [], "nobody knows how far they count"


def test_a_strict_group_has_one_sequence() -> None:
    one, other = publisher(ONE, TWO, THREE), member(1, TWO, ONE, THREE)
    assert Books([one, other], [one, other]).wrong(one_sequence=False) == []
    assert "in another order" in Books([one, other], [one, other]).wrong(one_sequence=True)[0]
