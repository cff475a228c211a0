"""Removals, once they are decided: the removed are told, and who is removed itself tells others before it ends.

Law: whoever reads of its own removal publishes, delivers and votes no more, but goes on telling the view until enough
of the next voters know it: it may be the only one that does. So the last member of a group does not end before those
that left with it have heard that it knows. What was published here and that view leaves out stays in the journal until
the application was told.
"""

from collections.abc import Callable, Container

from whence.core.ready import NEVER, Note, Ready, Send
from whence.core.views.items import Decree, ViewMessage
from whence.core.views.journal import Ended, Former, Journal, Lost, LostTold, RemovedAt
from whence.core.views.settings import ViewSettings
from whence.core.views.stability import Stability, last_event
from whence.core.views.view import View
from whence.epochs import forced_since, number_of
from whence.types import Bundle, Instant

FAREWELL_NS = 5_000_000_000
"""How long removed members are told that they are; later they learn it when they speak."""

ANSWERS_MAX = 8
"""How many views before the one that removed this member are told in an answer."""

FAREWELLS_MAX = 16
"""How many are told after a restart: those who were removed last."""


class Removal:
    """The end of this member's own membership, and farewells to others."""

    def __init__(self, stability: Stability, journal: Journal, settings: ViewSettings) -> None:
        self.state = stability.state
        self.stability, self.journal, self.settings = stability, journal, settings
        self.leaving = False
        """Whether this member asked to go."""
        self.by: View | None = None
        """The view that removed this member."""
        self.known_by: dict[int, None] = {}
        """Who is known to know that view."""
        self.ended = False
        self.former: Former | None = None
        """The verdict on the last membership of this process that ended by removal, unless a later one was opened."""
        self.lost_before: list[Bundle] = []
        """Own events that views left out with which earlier memberships ended, and of which no application was told."""
        self.is_told = False
        """Whether the application was told which of its events the view without this member leaves out."""
        self.bundles: Callable[[], int] = lambda: 0
        """Returns the own messages with events, in all incarnations."""
        self._farewells: dict[int, tuple[int, Instant]] = {}
        """Removed members that may not know it: the view, and until when they are told."""
        self._answering: dict[int, None] = {}
        """Those of them that answered when they were removed, and may ask whether it is known here."""

    # --- of others ---

    def adopted(self, view: View, silent: Container[int], now: Instant) -> None:
        """Begin to tell those whom a view removes; `silent` are the members that did not answer."""
        for cut in view.cuts:
            pid = cut.member.pid
            self._farewells[pid] = (view.epoch, now + FAREWELL_NS)
            if pid not in silent:
                self._answering[pid] = None

    def go_on_telling(self, now: Instant) -> None:
        """Begin to tell those whom the latest views removed, after a restart: an earlier incarnation may have told
        nobody."""
        state = self.state
        for epoch in sorted(state.views):
            for cut in state.views[epoch].cuts:
                self._farewells.pop(cut.member.pid, None)
                self._farewells[cut.member.pid] = (epoch, now + FAREWELL_NS)
        for pid in list(self._farewells)[:-FAREWELLS_MAX]:
            del self._farewells[pid]

    def stop_telling(self, pid: int) -> None:
        """Tell a process no more: it says that it knows."""
        self._farewells.pop(pid, None)
        self._answering.pop(pid, None)

    def unreachable(self, pid: int) -> None:
        """Note that a process is gone: nobody need wait for its question."""
        self._answering.pop(pid, None)

    @property
    def may_be_asked(self) -> bool:
        """Tell whether somebody that was let go has not said yet that it knows."""
        return any(pid in self._farewells for pid in self._answering)

    @property
    def bids_farewell(self) -> bool:
        """Tell whether somebody may not know that it was removed."""
        return bool(self._farewells)

    def bid_farewell(self, now: Instant, ready: Ready) -> None:
        """Tell the removed that they are: they may have heard nothing of it, and nobody sends to them any more."""
        for pid, (epoch, until) in list(self._farewells.items()):
            if now >= until or self.state.latest.member_of(pid) is not None or epoch not in self.state.views:
                del self._farewells[pid]
            else:
                ready.send.append(Send((pid,), Decree(self.state.views[epoch])))

    # --- of this member ---

    def learn(self, view: View, ready: Ready) -> None:
        """Learn that this member is out, and stop."""
        self.by = view
        self.journal.write(RemovedAt(view.epoch, view), ready)
        self.state.live = False

    def tell(self, now: Instant, ready: Ready) -> Instant:
        """Tell the others of the view that removed this member; return when to do so again."""
        if self.by is None or self.ended:
            return NEVER
        others = tuple(member.pid for member in self.by.members)
        if others:  # those that knew it then may know a later one now, which ends this
            ready.send.append(Send(others, Decree(self.by)))
        return now + self.settings.retry_ns

    def answer(self, pid: int, adopted: int, ready: Ready) -> None:
        """Tell the view that removed this member, and those before it, to somebody that does not know them: all others
        that do may be gone (T63)."""
        if self.by is None or self.ended:
            return
        between = [view for epoch, view in sorted(self.state.views.items()) if epoch > adopted]
        for view in [*between[-ANSWERS_MAX:], self.by]:
            ready.send.append(Send((pid,), Decree(view)))

    def introduce(self, pid: int, ready: Ready) -> None:
        """Tell somebody that is met, who may know a later view: all that this one knows of may be gone (T63)."""
        if self.by is not None and not self.ended:
            ready.send.append(Send((pid,), Decree(self.by)))

    def knows(self, sender: int, epoch: int, ready: Ready) -> None:
        """Learn that somebody knows the view that removed this member."""
        view = self.by
        if view is None or self.ended:
            return
        self.known_by[sender] = None
        if epoch > view.epoch or view.has_quorum(self.known_by):
            self.end(self.verdict(view), ready)

    def end_alone(self, ready: Ready) -> None:
        """Be out as the last member: the group ends, and nobody need know."""
        self.end(Note("leave", "left", epoch=self.state.adopted, event=self.stability.settled_last), ready)

    def end(self, verdict: Note, ready: Ready) -> None:
        """Be out for good: enough of the others know it."""
        self.ended = True
        self._remember(verdict)
        left_out = [] if self.is_told else self._left_out()
        self.is_told = True
        self.lost_before += left_out
        self.journal.write(Ended(self.bundles(), self.former), ready)
        for bundle in left_out:
            self.journal.write(Lost(bundle), ready)
        ready.notes.append(verdict)

    # --- what it published in vain ---

    @property
    def lost(self) -> list[Bundle]:
        """Return the own events that views without this member leave out, as far as the application was not told."""
        return self.lost_before + ([] if self.is_told else self._left_out())

    def lost_told(self, ready: Ready) -> None:
        """Note that the application was told of them."""
        self.lost_before, self.is_told = [], self.by is not None
        self.journal.write(LostTold(), ready)

    def _left_out(self) -> list[Bundle]:
        """Return the own events beyond the cut; all that were not settled, where it is not known. They are retained:
        what is stable was taken by those who decided the cut."""
        if self.by is None or self.state.me is None:
            return []
        cut = self.by.cut_of(self.state.me)
        last = cut.number if cut is not None and self.by.forced_from is None else 0
        own = self.state.own.retained.items()
        return [each.bundle for number, each in own if number > last and isinstance(each, ViewMessage)]

    def _remember(self, verdict: Note) -> None:
        """Keep the verdict for the next membership; one that published nothing does not hide what is to be told of the
        one before."""
        untold = self.former is not None and self.former.published and not self.has_published
        if self.by is None or untold:
            return
        self.former = None
        if verdict.reason != "left":
            self.former = Former(
                number_of(self.by.epoch), verdict.event, verdict.reason != "removed_unknown", self.has_published,
                self.is_replaced, forced_since(self.by.epoch, self.state.adopted),
            )  # fmt: skip

    @property
    def has_published(self) -> bool:
        """Tell whether this member published events, in any incarnation of it."""
        own = self.state.own.retained.values() if self.state.me is not None else ()
        return self.stability.settled_last is not None or any(isinstance(message, ViewMessage) for message in own)

    @property
    def is_replaced(self) -> bool:
        """Tell whether the view without this member has another process of its number."""
        return self.by is not None and self.by.member_of(self.state.pid) is not None

    def verdict(self, view: View) -> Note:
        """Return the note that a view removed this member: with how far its own messages count. Who asked to go and
        was removed before the others knew of all that it published did not leave."""
        assert self.state.me is not None
        cut = view.cut_of(self.state.me)
        if cut is None or view.forced_from is not None:
            return Note("leave", "removed_unknown", epoch=view.epoch)
        last = self.stability.settled_last
        for number in sorted(self.state.own.retained):
            message = self.state.own.retained[number]
            if number <= cut.number and isinstance(message, ViewMessage):
                last = last_event(message.bundle)
        reason = "left" if self.leaving and not self._left_out() else "removed"
        return Note("leave", reason, epoch=view.epoch, value=cut.number, event=last)
