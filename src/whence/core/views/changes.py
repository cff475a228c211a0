"""Changing the view: what happens when a view is decided, when it is known, and when it is entered.

Law: a view is entered when nothing of those it removes is missing here; a mark says so, an ordinary message of the own
stream. What is wished is in wishes.py, what becomes of those that are removed in removal.py.
"""

from collections.abc import Iterable

from msgspec import structs

from whence.core.ready import Note, RandomSource, Ready, Send
from whence.core.views.force import Force
from whence.core.views.inbox import Inbox
from whence.core.views.items import (
    Accept,
    Accepted,
    Decree,
    Flushed,
    Freeze,
    Knows,
    Message,
    Nak,
    Prepare,
    Promise,
    Report,
    Target,
    ViewMark,
)
from whence.core.views.journal import Entered, Journal
from whence.core.views.leader import Leader
from whence.core.views.links import Links
from whence.core.views.participant import Participant
from whence.core.views.removal import Removal
from whence.core.views.settings import ViewSettings
from whence.core.views.stability import Stability
from whence.core.views.streams import Stream
from whence.core.views.view import MemberId, View
from whence.core.views.wishes import Wishes
from whence.epochs import GENERATION_MAX, generation_of, line_of
from whence.errors import UsageError
from whence.types import EventId, Instant


class Changes:
    """The changes of the view, as one member sees and leads them."""

    participant_type: type[Participant] = Participant
    leader_type: type[Leader] = Leader
    wishes_type: type[Wishes] = Wishes
    removal_type: type[Removal] = Removal

    def __init__(
        self, links: Links, stability: Stability, inbox: Inbox, journal: Journal, settings: ViewSettings,
        rng: RandomSource,
    ) -> None:  # fmt: skip
        self.state = links.state
        self.links, self.inbox, self.journal, self.settings = links, inbox, journal, settings
        self.participant = self.participant_type(inbox, links, journal)
        self.leader = self.leader_type(self.state)
        self.removal = self.removal_type(stability, journal, settings)
        self.wishes = self.wishes_type(links, self.leader, self.removal, settings, rng)
        self.force = Force(self.leader, settings, rng)

    # --- the items of a change ---

    def receive(
        self,
        sender: int,
        item: Prepare | Promise | Freeze | Report | Target | Flushed | Accept | Accepted | Nak,
        now: Instant,
        ready: Ready,
    ) -> None:
        """Take an item of a change, as its leader or as one of those who are asked."""
        if isinstance(item, Prepare | Freeze | Target | Accept):
            self.leader.seen(item.ballot)
            self.wishes.pursued(sender, now)
            if self.removal.by is not None:
                ready.send.append(Send((sender,), Decree(self.removal.by)))
            elif item.instance < self.state.adopted:
                self.links.tell_views(sender, item.instance, ready)
            else:
                self.participant.receive(sender, item, now, ready)
            return
        if self.removal.by is not None:
            return
        if isinstance(item, Report | Flushed) and self.force.is_for(item):
            self._decided(self.force.receive(sender, item, now, ready), now, ready)
        else:
            self._decided(self.leader.receive(sender, item, now, ready), now, ready)

    def _decided(self, view: View | None, now: Instant, ready: Ready) -> None:
        """Tell a view that was decided here, and take it over."""
        if view is not None and self._follows(view):
            self.leader.decree(view, ready)
            self.adopt(view, now, ready)

    def _follows(self, view: View) -> bool:
        """Tell whether a view is the next after the latest known."""
        adopted = self.state.adopted
        return view.forced_from == adopted or (view.forced_from is None and view.epoch == adopted + 1)

    # --- force ---

    def begin_force(self, survivors: Iterable[int], now: Instant, ready: Ready) -> None:
        """Begin to replace the view by one of these members, without a vote. Raises UsageError."""
        state, chosen = self.state, dict.fromkeys(survivors)
        present = [member.pid for member in state.latest.members]
        if state.pid not in chosen or not state.opened:
            raise UsageError(
                f"force: this process, {state.named(state.pid)}, must be a survivor itself, and be in the group for "
                "good"
            )
        if strangers := [pid for pid in chosen if pid not in present]:
            listed = ", ".join(str(state.named(pid)) for pid in present)
            raise UsageError(
                f"force: process {state.named(strangers[0])} is no member; the latest view known here has {listed}"
            )
        if len(chosen) == len(present):
            raise UsageError("force: with all members as survivors there is nothing to force")
        if generation_of(state.adopted) >= GENERATION_MAX:
            raise UsageError(f"force: a group is forced at most {GENERATION_MAX} times; begin one of another name")
        self.wishes.is_suspended = True
        self.leader.attempt = None
        self.force.begin(chosen, now, ready)

    def go_on_forcing(self, now: Instant, ready: Ready) -> None:
        """Do what is due for an operator's view."""
        self._decided(self.force.tick(now, ready), now, ready)
        self.wishes.is_suspended = bool(self.force.survivors)

    # --- views ---

    def decree(self, sender: int, item: Decree, now: Instant, ready: Ready) -> None:
        """Learn of a view that is decided."""
        state, view = self.state, item.view
        if view.epoch <= state.adopted:
            if state.latest.member_of(sender) is None:
                self.removal.stop_telling(sender)
                ready.send.append(Send((sender,), Knows(state.adopted)))
        elif self._follows(view):
            self.adopt(view, now, ready)
        elif self._excludes(item):
            self._removed(view, now, ready)
        elif sender in self.links.peers:
            self.links.owe(now, at_once=True)
        else:
            self._ask_stranger(sender, now)

    def _ask_stranger(self, sender: int, now: Instant) -> None:
        """Ask who came after this member lost sight of the group for the views between; at the pace of
        acknowledgements, because each answer may hold several views that do not follow either."""
        self.links.stranger = sender
        self.links.owe(now)

    def _excludes(self, item: Decree) -> bool:
        """Tell whether a view that does not follow the latest known shows that this member is out. An operator's view
        does, unless it names this member and only views between are missing."""
        state, view = self.state, item.view
        if state.me not in view.members:
            return item.after_gap or view.forced_from is not None
        if generation_of(view.epoch) == generation_of(state.adopted):
            return False
        before = view.forced_from
        is_passed = before is not None and line_of(before) == line_of(state.adopted) and before < state.adopted
        return item.after_gap or is_passed

    def adopt(self, view: View, now: Instant, ready: Ready) -> None:
        """Take over a view that is decided, the next after the latest known."""
        state = self.state
        if state.me is not None and state.me not in view.members:
            self._removed(view, now, ready)
            return
        if not state.has_room_for(view):
            return  # it is told again; by then the application may have taken more
        former, silent = state.views.get(state.adopted, view), dict(self.links.suspects.now)
        self.links.adopt(view, now)
        added = state.add_streams(view)
        state.remember(view)
        state.adopted = view.epoch
        self.journal.adopted(view, added, ready)
        for cut in view.cuts:
            self._open_cut(view, cut.member, ready)
        if view.forced_from is not None:
            ready.notes.append(Note("note", "forced", epoch=view.epoch, value=view.forced_from))
            self.force.end()
            self.wishes.is_suspended = False
        changed = view.members != former.members or view.voters != former.voters
        self.leader.reset(view, now, changed=changed)
        self.wishes.adopted(view, added, now, ready)
        self.removal.adopted(view, silent, now)
        self.try_enter(now, ready)
        if state.open_cuts:
            self.inbox.ask_at = min(self.inbox.ask_at, now)
        self.links.owe(now, at_once=True)
        self.wishes.look(now + self.settings.attempt_ns)

    def _open_cut(self, view: View, member: MemberId, ready: Ready) -> None:
        """Note what is missing of a removed member."""
        state = self.state
        stream, cut = state.streams.get(member), view.cut_of(member)
        if stream is None or cut is None or state.me is None:
            return
        for mark in cut.marks:
            stream.seen(mark)
        if stream.base is None:
            base = stream.base_for(state.me.joined)
            stream.begin_at(base if base is not None and base <= cut.number else cut.number + 1)
            self.journal.begins(stream, ready)
        if cut.number > stream.got:
            state.open_cuts[member] = cut.number
            state.removed_in[member] = view.epoch
        else:
            self.inbox.drop_held(stream, cut.number)

    def close_cuts(self) -> None:
        """Note which removed members are complete."""
        state = self.state
        for member, number in list(state.open_cuts.items()):
            stream = state.streams.get(member)
            if stream is None or stream.got >= number:
                del state.open_cuts[member], state.removed_in[member]

    def try_enter(self, now: Instant, ready: Ready) -> None:
        """Enter the views that are known, one by one, as far as nothing of the removed is missing."""
        state = self.state
        self.close_cuts()
        while state.entered < state.adopted:
            following = min(epoch for epoch in state.views if epoch > state.entered)
            view = state.views[following]
            if state.opened and any(cut.member in state.open_cuts for cut in view.cuts):
                break
            self._enter(view, now, ready)

    def _enter(self, view: View, now: Instant, ready: Ready) -> None:
        state = self.state
        for cut in view.cuts:
            stream = state.streams.get(cut.member)
            if stream is not None:
                self.journal.store(stream, stream.got, ready)
                self.inbox.drop_held(stream, cut.number)
        self.participant.entered()
        state.entered = view.epoch
        state.look_at_entered()
        self.journal.write(Entered(view.epoch), ready)
        ready.notes.append(view_note(view))
        self.mark(now, ready)
        self.inbox.release(now, ready)

    def mark(self, now: Instant, ready: Ready) -> None:
        """Say by a message without events that this member is in the view that it entered."""
        state = self.state
        if state.mark_epoch >= state.entered or not self.inbox.stage.may_mark():
            return
        own = state.own
        mark = ViewMark(state.place, state.entered, self.past(own), self.inbox.stage.next_clock(now), state.mark_epoch)
        state.mark_epoch = state.entered
        self.count_own(own, mark)
        self.journal.own(mark, ready)
        self.links.marked(mark.number, mark.epoch)
        self.inbox.stage.marked(mark.at())
        self.links.send(mark, mark.number, now, ready)
        self.inbox.stage.got(own, mark, 0, now, ready)

    def past(self, own: Stream) -> list[int]:
        """Return what the next own message follows."""
        past = self.state.handed.copy()
        past[self.state.place] = own.got
        return past

    def count_own(self, own: Stream, message: Message) -> None:
        """Count the next own message as got here."""
        number = own.got + 1
        own.get(message, number)
        self.state.got[self.state.place] = number

    def _removed(self, view: View, now: Instant, ready: Ready) -> None:
        """Learn that this member is out: stop, and tell the view to those who may not know it. Who forced one does."""
        self.removal.learn(view, ready)
        self.participant.entered()  # nothing is frozen at one that takes no more part
        ready.notes.append(structs.replace(view_note(view), kind="note", reason="outside"))
        if generation_of(view.epoch) > generation_of(self.state.adopted):
            self.removal.end(self.removal.verdict(view), ready)
        self.wishes.next_at = self.removal.tell(now, ready)


def view_note(view: View) -> Note:
    """Return the note that a view was entered."""
    ids = tuple(
        EventId(member.pid, nonce, member.joined) for member, nonce in zip(view.members, view.nonces, strict=True)
    )
    voters = sum(1 << view.place_of(voter.pid) for voter in view.voters)
    return Note(
        "view", "entered", epoch=view.epoch, value=voters, view=tuple(member.pid for member in view.members), ids=ids
    )
