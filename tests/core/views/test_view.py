"""Views: quorums meet, ballots are ordered, and every newcomer begins a stream at one mark."""

from hypothesis import given
from hypothesis import strategies as st

from whence.core.views.view import NO_BALLOT, VOTERS_MAX, Ballot, MarkAt, MemberId, View, first_view

voters = st.integers(1, VOTERS_MAX)


@given(voters, st.sets(st.integers(0, VOTERS_MAX - 1)), st.sets(st.integers(0, VOTERS_MAX - 1)))
def test_two_quorums_of_a_view_meet(count: int, one: set[int], other: set[int]) -> None:
    view = first_view(range(count))
    if view.has_quorum(one) and view.has_quorum(other):
        assert one & other & set(range(count))


@given(voters, st.sets(st.integers(0, VOTERS_MAX - 1)))
def test_of_a_set_and_the_rest_one_is_a_quorum(count: int, some: set[int]) -> None:
    """So a group is split by nothing: whatever is cut in two, one part goes on."""
    view = first_view(range(count))
    assert view.has_quorum(some) != view.has_quorum(set(range(count)) - some)


@given(voters, st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_more_answers_make_no_quorum_less(count: int, some: set[int], more: set[int]) -> None:
    view = first_view(range(count))
    assert view.has_quorum(some | more) or not view.has_quorum(some)


def test_of_two_voters_the_first_alone_decides() -> None:
    view = first_view([3, 5])
    assert view.has_quorum([3])
    assert not view.has_quorum([5])


def test_who_does_not_vote_does_not_count() -> None:
    members = [MemberId(pid, 0) for pid in range(5)]
    view = View(0, members, members[:3], [0] * 5, [])
    assert not view.has_quorum([0, 3, 4])
    assert not View(0, members, [], [0] * 5, []).has_quorum(range(5))


@given(st.sets(st.integers(0, 300), min_size=1))
def test_founders_are_in_the_same_order_wherever_the_view_is_made(pids: set[int]) -> None:
    view = first_view(sorted(pids, reverse=True))
    assert view == first_view(pids)
    assert len(view.voters) == min(VOTERS_MAX, len(pids))
    assert all(view.members[view.place_of(pid)] == view.member_of(pid) for pid in pids)
    assert view.place_of(301) == -1


ballots = st.builds(Ballot, st.integers(0, 5), st.integers(0, 5))


@given(ballots, ballots)
def test_a_later_round_wins_and_then_the_higher_peer(one: Ballot, other: Ballot) -> None:
    assert (one < other) == ((one.round, one.pid) < (other.round, other.pid))
    assert one >= NO_BALLOT


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(1, 40))
def test_a_newcomer_begins_a_stream_at_exactly_one_mark(steps: list[int], joined: int) -> None:
    """A member marks the views it enters, several at once if it could not before; each mark names the one before."""
    marks: list[MarkAt] = []
    epoch = 0
    for number, step in enumerate(steps, start=1):
        marks.append(MarkAt(epoch, epoch + step, 3 * number, 0))
        epoch += step
    assert sum(mark.is_base_for(joined) for mark in marks) == (joined <= epoch)
