"""What follows from reports: who cannot be supplied, where a removed member is cut, and who votes next."""

from whence.core.views.attempt import Attempt, Plan
from whence.core.views.items import Report
from whence.core.views.peers import arranged
from whence.core.views.proposal import plain_view, removal_view, unsupplied
from whence.core.views.view import Ballot, Cut, MarkAt, MemberId, View, first_view

BALLOT = Ballot(1, 0)
GONE = 2
"""The member that is removed, at the last place of the view."""


def report(
    got: int, *, acted_on: int = 0, held_from: int = 1, closed: int = 0, marks: list[MarkAt] | None = None
) -> Report:
    """Return the report of an opened member that has got so many messages of the one to be removed."""
    return Report(
        0, BALLOT, [0, 0, got], [0, 0, max(got, acted_on)], [0, 0, 10 * got], [1, 1, held_from],
        [[], [], marks or []], [GONE], closed, True, [1, 1, 1],
    )  # fmt: skip


def removing(one: Report, other: Report, *, joins: dict[int, int] | None = None) -> Attempt:
    """Return an attempt of three founders to remove the last one, with the reports of those that stay."""
    attempt = Attempt(first_view([0, 1, GONE]), BALLOT, Plan({GONE: None}, {}, joins or {}, plain=False), 0)
    attempt.reports = {0: one, 1: other}
    attempt.targets = [0, 0, max(one.acted_on[GONE], other.acted_on[GONE])]
    return attempt


def test_nobody_goes_too_while_somebody_that_stays_holds_what_the_others_lack() -> None:
    assert unsupplied(removing(report(3), report(5, held_from=4))) == {}


def test_who_has_acted_on_what_nobody_holds_goes_too() -> None:
    assert unsupplied(removing(report(3), report(5, held_from=6))) == {1: None}
    assert unsupplied(removing(report(3), report(3, acted_on=4))) == {1: None}


def test_a_cut_is_at_the_target_with_the_clock_and_the_marks_up_to_it() -> None:
    early, late = MarkAt(0, 1, 4, 40), MarkAt(1, 2, 6, 60)
    view = removal_view(removing(report(3), report(5, marks=[early, late])))
    assert view.cuts == [Cut(MemberId(GONE, 0), 5, 50, [early])]


def test_a_removal_replaces_the_removed_by_newcomers_that_do_not_vote_yet() -> None:
    view = removal_view(removing(report(3), report(3), joins={7: 9}))
    assert view.members == [MemberId(0, 0), MemberId(1, 0), MemberId(7, 1)]
    assert view.nonces == [0, 0, 9]
    assert view.voters == [MemberId(0, 0), MemberId(1, 0)]


def test_a_member_becomes_a_voter_only_when_everything_unstable_is_for_it_too() -> None:
    young = MemberId(1, 4)
    view = View(4, [MemberId(0, 0), young, MemberId(GONE, 0)], [MemberId(0, 0), MemberId(GONE, 0)], [0, 8, 0], [])
    for closed, votes in ((3, False), (4, True)):
        attempt = removing(report(3, closed=4), report(3, closed=closed))
        attempt.view = view
        assert (young in removal_view(attempt).voters) == votes


def test_a_plain_view_keeps_everybody_in_place_and_adds_newcomers_at_the_end() -> None:
    attempt = Attempt(first_view([0, 1]), BALLOT, Plan({}, {}, {7: 9}, plain=True), 0)
    members = [MemberId(0, 0), MemberId(1, 0)]
    assert plain_view(attempt) == View(1, [*members, MemberId(7, 1)], members, [0, 0, 9], [])


def test_numbers_follow_their_members_from_one_view_to_the_next_and_not_their_names() -> None:
    """Process 1 comes again as another member: nothing that was said of the former one is said of it."""
    former = first_view([0, 1, 2])
    members = [MemberId(0, 0), MemberId(2, 0), MemberId(1, 1)]
    latest = View(1, members, members[:2], [0, 0, 5], [])
    assert arranged([4, 5, 6], former, latest) == [4, 6, 0]
