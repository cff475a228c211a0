"""What a member knows of one other by what that one says, and how numbers move from one view's places to the next.

Law: within one incarnation what a member says only grows.
"""

from collections.abc import Sequence

from whence.core.views.view import MemberId, View
from whence.types import Instant

NEVER = 1 << 62


class Peer:
    """What is known of one other member of the latest view. Numbers per member are in the order of that view."""

    __slots__ = (
        "adopted", "answered", "backoff", "entered", "first", "got", "heard_at", "incarnation", "member", "removed",
        "retry_at", "sent", "since", "stored", "suspected_at", "taken",
    )  # fmt: skip

    def __init__(self, member: MemberId, size: int, retry_ns: int) -> None:
        self.member = member
        self.incarnation = 0
        self.answered = False
        """It has reported to our present incarnation how much it has of our messages."""
        self.entered = self.adopted = -1
        self.got, self.taken, self.stored = [0] * size, [0] * size, [0] * size
        self.removed: dict[MemberId, int] = {}
        """Of removed members that are not finished there: what it has taken."""
        self.first: int | None = None
        """The first own message that is for it; None: it has no place in any view that was entered here."""
        self.sent = 0
        self.heard_at: Instant = -NEVER
        self.since: Instant = 0
        """When it began to owe an answer."""
        self.retry_at: Instant = NEVER
        self.backoff = retry_ns
        self.suspected_at: Instant = NEVER

    def renumber(self, former: View, view: View) -> None:
        """Arrange the numbers by the places of the next view, and remember what it has of those that are removed."""
        for cut in view.cuts:
            place = former.place_of(cut.member.pid)
            if place >= 0 and self.taken[place]:
                self.removed[cut.member] = max(self.removed.get(cut.member, 0), self.taken[place])
        self.got = arranged(self.got, former, view)
        self.taken = arranged(self.taken, former, view)
        self.stored = arranged(self.stored, former, view)

    def raise_to(self, got: Sequence[int], taken: Sequence[int], stored: Sequence[int] | None = None) -> None:
        """Take over what it says it has, where that is more than is known."""
        self.got = list(map(max, self.got, got))
        self.taken = list(map(max, self.taken, taken))
        if stored is not None:
            self.stored = list(map(max, self.stored, stored))

    def speaks_of(self, removed: Sequence[tuple[int, int, int]]) -> None:
        """Take over of which removed members it has something to take, and what it has taken: of others it has all."""
        self.removed = {
            MemberId(pid, joined): max(number, self.removed.get(MemberId(pid, joined), 0))
            for pid, joined, number in removed
        }

    def forget_untaken(self) -> None:
        """Forget what an earlier incarnation had and its application had not taken: it may be lost."""
        self.got = self.taken.copy()
        self.stored = [0] * len(self.stored)


def arranged(numbers: Sequence[int], view: View, latest: View) -> list[int]:
    """Return numbers by the places of one view as numbers by those of a later one; 0 for members that came later."""
    places = [view.place_of(member.pid) for member in latest.members]
    return [
        numbers[place] if place >= 0 and view.members[place] == member else 0
        for place, member in zip(places, latest.members, strict=True)
    ]
