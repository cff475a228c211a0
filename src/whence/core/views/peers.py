"""What a member knows of one other by what that one says, and how numbers move from one view's places to the next.

Law: within one incarnation what a member says only grows.
"""

from collections.abc import Sequence

from whence.core.ready import NEVER
from whence.core.views.items import ViewMessage
from whence.core.views.view import MemberId, View
from whence.types import Instant


class Peer:
    """What is known of one other member of the latest view. Numbers per member are in the order of that view."""

    __slots__ = (
        "_got", "_said", "_taken", "adopted", "answered", "backoff", "entered", "first", "heard_at", "incarnation",
        "member", "place", "removed", "retry_at", "sent", "since", "spoke_in", "stored", "suspected_at",
    )  # fmt: skip

    def __init__(self, member: MemberId, size: int, retry_ns: int) -> None:
        self.member = member
        self.place = -1
        """Its place in the latest view."""
        self.incarnation = 0
        self.answered = False
        """It has reported to our present incarnation how much it has of our messages."""
        self.entered = self.adopted = -1
        self._got, self._taken, self.stored = [0] * size, [0] * size, [0] * size
        self._said: ViewMessage | None = None
        """Its latest message that says how far it is: looked at when somebody asks, which is rarer than messages."""
        self.removed: dict[MemberId, int] = {}
        """Of removed members that are not finished there: what it has taken."""
        self.spoke_in = -1
        """The latest view that it had entered when it said of which removed members something is left there."""
        self.first: int | None = None
        """The first own message that is for it; None: it has no place in any view that was entered here."""
        self.sent = 0
        self.heard_at: Instant = -NEVER
        self.since: Instant = 0
        """When it began to owe an answer."""
        self.retry_at: Instant = NEVER
        self.backoff = retry_ns
        self.suspected_at: Instant = NEVER

    def silence(self, now: Instant) -> Instant:
        """Return for how long it is suspected; 0: it is not."""
        return max(1, now - self.suspected_at) if self.suspected_at != NEVER else 0

    def renumber(self, former: View, view: View) -> None:
        """Arrange the numbers by the places of the next view, and remember what it has of those that are removed."""
        for cut in view.cuts:
            place = former.place_of(cut.member.pid)
            if place >= 0 and self.taken[place]:
                self.removed[cut.member] = max(self.removed.get(cut.member, 0), self.taken[place])
        self._got, self._taken = arranged(self.got, former, view), arranged(self.taken, former, view)
        self.stored = arranged(self.stored, former, view)

    @property
    def got(self) -> list[int]:
        """Return what it has received of each member."""
        if self._said is not None:
            self._look()
        return self._got

    @property
    def taken(self) -> list[int]:
        """Return what its application has taken of each member."""
        if self._said is not None:
            self._look()
        return self._taken

    def has_taken(self, place: int, number: int) -> bool:
        """Tell whether its application is known to have a member's messages up to a number."""
        return self._taken[place] >= number or self.taken[place] >= number

    def says(self, message: ViewMessage) -> None:
        """Take over how far it was when it published a message in the latest view, unless it is known to be farther."""
        said, place = self._said, message.origin
        if message.past[place] >= (self._got if said is None else said.past)[place]:
            self._said = message

    def _look(self) -> None:
        said, self._said = self._said, None
        if said is not None:
            self.raise_to(said.past, said.taken)

    def raise_to(self, got: Sequence[int], taken: Sequence[int], stored: Sequence[int] | None = None) -> None:
        """Take over what it says it has, where that is more than is known."""
        self._got = list(map(max, self._got, got))
        self._taken = list(map(max, self._taken, taken))
        if stored is not None:
            self.stored = list(map(max, self.stored, stored))

    def speaks_of(self, removed: Sequence[tuple[int, int, int]], entered: int) -> None:
        """Take over of which removed members it has something to take, and what it has taken: of others it has all."""
        self.spoke_in = max(self.spoke_in, entered)
        self.removed = {
            MemberId(pid, joined): max(number, self.removed.get(MemberId(pid, joined), 0))
            for pid, joined, number in removed
        }

    def taken_of_removed(self, member: MemberId, epoch: int) -> int:
        """Return what its application has taken of a member that a view removed. Who no longer speaks of it, in that
        view or later, has all; its messages say nothing of it (T50)."""
        return self.removed.get(member, NEVER if self.spoke_in >= epoch else 0)

    def forget_untaken(self) -> None:
        """Forget what an earlier incarnation had and its application had not taken: it may be lost."""
        self._got = self.taken.copy()
        self.stored = [0] * len(self.stored)


def arranged(numbers: Sequence[int], view: View, latest: View) -> list[int]:
    """Return numbers by the places of one view as numbers by those of a later one; 0 for members that came later."""
    places = [view.place_of(member.pid) for member in latest.members]
    return [
        numbers[place] if place >= 0 and view.members[place] == member else 0
        for place, member in zip(places, latest.members, strict=True)
    ]
