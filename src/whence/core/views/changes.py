"""Changing the view: who goes, who comes, who leads, and what happens when a view is known and when it is entered.

Laws: a view is entered when nothing of those it removes is missing here; a mark says so, an ordinary message of the own
stream. Whoever reads of its own removal publishes, delivers and votes no more, but goes on telling the view
until enough of the next voters know it: it may be the only one that does.
"""

from collections.abc import Callable

from whence.core.ready import Note, RandomSource, Ready, Send
from whence.core.views.inbox import Inbox
from whence.core.views.items import (
    Accept,
    Accepted,
    Decree,
    Flushed,
    Freeze,
    Hint,
    JoinRequest,
    Knows,
    Message,
    Nak,
    Prepare,
    Promise,
    Report,
    Target,
    ViewMark,
    ViewMessage,
    Wish,
)
from whence.core.views.journal import Ended, Entered, Journal, RemovedAt
from whence.core.views.leader import Leader
from whence.core.views.links import Links
from whence.core.views.participant import Participant
from whence.core.views.peers import NEVER
from whence.core.views.settings import ViewSettings
from whence.core.views.stability import Stability, last_event
from whence.core.views.view import VOTERS_MAX, MemberId, View
from whence.types import EventId, Instant

ASKED_NS = 1_000_000_000
"""A newcomer is added only if it asked within this time: at `total` others wait for its first word."""

FAREWELL_NS = 5_000_000_000
"""How long removed members are told that they are; later they learn it when they speak."""

TRIES_MAX = 8

LEFT_ALONE = 8
"""After so many attempts' time a change that was reported to counts as abandoned."""

FRUITLESS_MAX = 6
"""How often the wait for the next attempt is doubled."""


class Changes:
    """The changes of the view, as one member sees and leads them."""

    participant_type: type[Participant] = Participant
    leader_type: type[Leader] = Leader

    def __init__(
        self, links: Links, stability: Stability, inbox: Inbox, journal: Journal, settings: ViewSettings,
        rng: RandomSource,
    ) -> None:  # fmt: skip
        self.state = links.state
        self.links, self.stability, self.inbox, self.journal = links, stability, inbox, journal
        self.settings = settings
        self.participant = self.participant_type(inbox, links, journal)
        self.leader = self.leader_type(self.state)
        self._rng = rng
        self.condemned: dict[MemberId, None] = {}
        """Members that an operator removed here."""
        self.leaving = False
        self._wishes: dict[int, tuple[Wish, Instant]] = {}
        self._joins: dict[int, tuple[int, Instant]] = {}
        """Newcomers that asked here: the incarnation, and when."""
        self._farewells: dict[int, tuple[int, Instant]] = {}
        """Removed members that may not know it: the view, and until when they are told."""
        self._added_at: dict[MemberId, Instant] = {}
        """When members that have not marked yet were added."""
        self._pursued_at: Instant = -NEVER
        """When somebody last asked this member for anything in a change."""
        self._patience: Instant = 0
        self._fruitless = 0
        self._promote_at: Instant = -NEVER
        """When voters may be added again."""
        self._tries = 0
        """Attempts in this instance: each may take longer than those before."""
        self.next_at: Instant = NEVER
        """When to look again at what is wished."""
        self.removed_by: View | None = None
        """The view that removed this member."""
        self.known_by: dict[int, None] = {}
        self.ended = False
        self.bundles: Callable[[], int] = lambda: 0
        """Returns the own messages with events, in all incarnations."""

    # --- wishes ---

    def look(self, now: Instant) -> None:
        """Look soon at what is wished."""
        self.next_at = min(self.next_at, now)

    def remove(self, pid: int, now: Instant) -> bool:
        """Wish that a member be removed; return False if it is none."""
        member = self.state.latest.member_of(pid)
        if member is None:
            return False
        self.condemned[member] = None
        self.look(now)
        return True

    def join_asked(self, pid: int, incarnation: int, item: JoinRequest, now: Instant, ready: Ready) -> None:
        """Take the request of a newcomer: it must quote the current epoch, or it may be an old copy."""
        state = self.state
        latest = state.latest
        member = latest.member_of(pid)
        if member is not None and latest.nonce_of(pid) == incarnation:
            self.links.tell_views(pid, member.joined - 1, ready)
        elif not self._is_current(item):
            ready.send.append(Send((pid,), Hint(state.adopted)))
        elif member is None or item.replace or self._is_gone(pid, incarnation):
            self._joins[pid] = (incarnation, now)
            self.look(now)

    def _is_current(self, item: JoinRequest) -> bool:
        """Tell whether a request quotes the current epoch."""
        return item.at == self.state.adopted + 1

    def _is_gone(self, pid: int, incarnation: int) -> bool:
        """Tell whether the member with a newcomer's number is gone: a later incarnation of the process asks."""
        peer = self.links.peers.get(pid)
        return peer is not None and incarnation > peer.incarnation

    def wish(self, pid: int, item: Wish, now: Instant, ready: Ready) -> None:
        """Take what another member wishes."""
        if item.epoch < self.state.adopted:
            self.links.tell_views(pid, item.epoch, ready)
        elif item.epoch == self.state.adopted:
            self._wishes[pid] = (item, now)
            self.look(now)

    def _all_condemned(self, now: Instant) -> dict[int, None]:
        state, settings = self.state, self.settings
        condemned = {member.pid: None for member in self.condemned if member in state.latest.members}
        for pid, peer in self.links.peers.items():
            silent = now - peer.suspected_at if peer.suspected_at != NEVER else 0
            if settings.remove_after_ns and silent >= settings.remove_after_ns:
                condemned[pid] = None
        for member, since in list(self._added_at.items()):
            stream = state.streams.get(member)
            if stream is None or stream.got or member not in state.latest.members:
                del self._added_at[member]
            elif now - since >= settings.join_timeout_ns:
                condemned[member.pid] = None
        return condemned

    def tick(self, now: Instant, ready: Ready) -> None:
        """Lead what is wished, or pass it on to whoever leads."""
        state = self.state
        self.next_at = NEVER
        if self.removed_by is not None:
            self._tell_removal(now, ready)
            return
        if state.entered < 0:
            return
        if not self.links.all and self._may_leave():
            self.end_alone(ready)
            return
        self._forget_old(now)
        self._bid_farewell(now, ready)
        condemned = self._all_condemned(now)
        leavers = {state.pid: None} if self._may_leave() else {}
        joins = {pid: incarnation for pid, (incarnation, _) in self._joins.items()}
        frozen = dict(state.frozen)
        lets_go = self._is_left_alone(now)
        pace = self.settings.attempt_ns // 2
        wished = {pid: None for wish, _ in self._wishes.values() for pid in (*wish.condemned, *wish.frozen)}
        leads = self._leader(condemned | wished)
        if leads == state.pid:
            for wish, _ in self._wishes.values():
                condemned |= dict.fromkeys(pid for pid in wish.condemned if pid != state.pid)
                leavers |= dict.fromkeys(wish.leavers)
                joins |= {pid: nonce for pid, nonce in wish.joins if self._may_join(pid, nonce)}
                frozen |= dict.fromkeys(wish.frozen)
                lets_go |= wish.lets_go
            self._lead(condemned, leavers, joins, frozen, lets_go, now, ready)
        elif condemned or leavers or joins or lets_go:
            wish = Wish(state.adopted, list(condemned), list(leavers), list(joins.items()), list(frozen), lets_go)
            ready.send.append(Send((leads,), wish))
            self._expect(leads, now)
        if (
            condemned
            or leavers
            or joins
            or self._has_reported()
            or self.leader.attempt
            or self._added_at
            or self.leaving
        ):
            self.next_at = now + pace
        elif self._suspected() or self._farewells:
            self.next_at = now + 4 * pace
        elif len(state.latest.voters) < min(VOTERS_MAX, len(state.latest.members)):
            self.next_at = max(now + 4 * pace, self._promote_at)

    def _bid_farewell(self, now: Instant, ready: Ready) -> None:
        """Tell the removed that they are: they may have heard nothing of it, and nobody sends to them any more."""
        for pid, (epoch, until) in list(self._farewells.items()):
            if now >= until or self.state.latest.member_of(pid) is not None or epoch not in self.state.views:
                del self._farewells[pid]
            else:
                ready.send.append(Send((pid,), Decree(self.state.views[epoch])))

    def _has_reported(self) -> bool:
        """Tell whether this member waits for the end of a change that it reported to."""
        return bool(self.state.frozen) or self.state.stored_at_report is not None

    def _is_left_alone(self, now: Instant) -> bool:
        """Tell whether nobody pursues the change that this member reported to."""
        return (
            self._has_reported()
            and self.leader.attempt is None
            and now - self._pursued_at > LEFT_ALONE * max(self.settings.attempt_ns, self.settings.suspect_ns)
        )

    def _suspected(self) -> bool:
        return bool(self.settings.remove_after_ns and self.links.suspects.now)

    def _may_promote(self, now: Instant) -> bool:
        """Tell whether there is room for voters and somebody fit for it; after attempts in vain, not too soon again."""
        state = self.state
        if self.leader.fruitless > self._fruitless:
            wait = 2 * self.settings.attempt_ns * 2 ** min(self.leader.fruitless, FRUITLESS_MAX)
            self._promote_at = now + wait
        self._fruitless = self.leader.fruitless
        if now < self._promote_at:
            return False
        latest = state.latest
        if len(latest.voters) >= min(VOTERS_MAX, len(latest.members)) or state.entered != state.adopted:
            return False
        closed = state.closed
        return any(member not in latest.voters and member.joined <= closed for member in latest.members)

    def _expect(self, pid: int, now: Instant) -> None:
        """Expect that whoever leads is heard of: else somebody else must lead."""
        peer = self.links.peers.get(pid)
        if peer is not None and now - max(peer.heard_at, peer.since) >= 2 * self.settings.suspect_ns:
            self.links.suspect(pid, now)

    def _forget_old(self, now: Instant) -> None:
        epoch = self.state.adopted
        self._wishes = {
            pid: (wish, at) for pid, (wish, at) in self._wishes.items() if wish.epoch == epoch and now - at < ASKED_NS
        }
        self._joins = {
            pid: (nonce, at)
            for pid, (nonce, at) in self._joins.items()
            if now - at < ASKED_NS and self._may_join(pid, nonce)
        }

    def _may_join(self, pid: int, incarnation: int) -> bool:
        latest = self.state.latest
        return latest.member_of(pid) is None or latest.nonce_of(pid) != incarnation

    def _may_leave(self) -> bool:
        """Tell whether this member leaves and everything it published is settled."""
        return self.leaving and not any(isinstance(each, ViewMessage) for each in self.state.own.retained.values())

    def leads(self) -> int:
        """Return who should lead a change now, as far as this member knows."""
        return self._leader(dict.fromkeys(member.pid for member in self.condemned))

    def _leader(self, condemned: dict[int, None]) -> int:
        """Return who should lead: the first voter that is neither suspected, condemned nor frozen; else this member."""
        state = self.state
        leavers = {pid: None for wish, _ in self._wishes.values() for pid in wish.leavers}
        passed_over = (self.links.suspects.now, condemned, state.frozen, leavers)
        for voter in state.latest.voters:
            pid = voter.pid
            if pid == state.pid:
                if not self._may_leave():
                    return pid
            elif not any(pid in each for each in passed_over):
                return pid
        votes = state.me in state.latest.voters
        return state.pid if votes else state.latest.voters[0].pid

    def _lead(
        self, condemned: dict[int, None], leavers: dict[int, None], joins: dict[int, int], frozen: dict[int, None],
        lets_go: bool, now: Instant, ready: Ready,
    ) -> None:  # fmt: skip
        leader, state = self.leader, self.state
        if state.entered != state.adopted:
            return
        attempt = leader.attempt
        if attempt is not None and now - attempt.moved_at < self._patience:
            leader.repeat(ready)
            return
        plan = leader.plan(
            condemned,
            leavers,
            joins,
            frozen,
            silent=self.links.suspects.now,
            lets_go=lets_go,
            wants_promotion=self._may_promote(now),
            now=now,
        )
        leader.attempt = None
        if plan is not None:
            self._tries = min(self._tries + 1, TRIES_MAX)
            self._patience = int(self.settings.attempt_ns * (1 + self._rng()) * 2 ** (self._tries // 2))
            leader.begin(plan, now, ready)

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
            self._pursued_at = now
            if self.removed_by is not None:
                ready.send.append(Send((sender,), Decree(self.removed_by)))
            elif item.instance < self.state.adopted:
                self.links.tell_views(sender, item.instance, ready)
            else:
                self.participant.receive(sender, item, now, ready)
            self.look_later(now)
            return
        if self.removed_by is not None:
            return
        decided = self.leader.receive(sender, item, now, ready)
        if decided is not None and decided.epoch == self.state.adopted + 1:
            self.leader.decree(decided, ready)
            self.adopt(decided, now, ready)

    def look_later(self, now: Instant) -> None:
        """Look at what is wished when whoever leads has had its time."""
        self.next_at = min(self.next_at, now + self.settings.attempt_ns)

    # --- views ---

    def decree(self, sender: int, item: Decree, now: Instant, ready: Ready) -> None:
        """Learn of a view that is decided."""
        state, view = self.state, item.view
        if view.epoch <= state.adopted:
            if state.latest.member_of(sender) is None:
                self._farewells.pop(sender, None)
                ready.send.append(Send((sender,), Knows(state.adopted)))
        elif view.epoch == state.adopted + 1:
            self.adopt(view, now, ready)
        elif item.after_gap and state.me is not None and state.me not in view.members:
            self._removed(view, now, ready)
        else:
            self.links.owe(now, at_once=True)

    def adopt(self, view: View, now: Instant, ready: Ready) -> None:
        """Take over a view that is decided, the next after the latest known."""
        state = self.state
        if state.me is not None and state.me not in view.members:
            self._removed(view, now, ready)
            return
        if not state.has_room_for(view):
            return  # it is told again; by then the application may have taken more
        former = state.views.get(state.adopted, view)
        self.links.adopt(view, now)
        added = state.add_streams(view)
        state.remember(view)
        state.adopted = view.epoch
        self.journal.adopted(view, added, ready)
        for stream in added:
            if stream.member.joined == view.epoch and stream.member != state.me:
                self._added_at[stream.member] = now
        for cut in view.cuts:
            self.condemned.pop(cut.member, None)
            self._farewells[cut.member.pid] = (view.epoch, now + FAREWELL_NS)
            self._open_cut(view, cut.member, ready)
        self.leader.reset(changed=view.members != former.members or view.voters != former.voters)
        self._wishes = {}
        self._tries = 0
        self._joins = {pid: asked for pid, asked in self._joins.items() if self._may_join(pid, asked[0])}
        self.try_enter(now, ready)
        if state.open_cuts:
            self.inbox.ask_at = min(self.inbox.ask_at, now)
        self.links.owe(now, at_once=True)
        self.look(now + self.settings.attempt_ns)

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
        mark = ViewMark(state.place, state.entered, self.past(), self.inbox.stage.next_clock(now), state.mark_epoch)
        state.mark_epoch = state.entered
        self.count_own(mark)
        self.journal.own(mark, ready)
        self.links.marked(mark.number, mark.epoch)
        self.inbox.stage.marked(mark.at())
        self.links.send(mark, mark.number, now, ready)
        self.inbox.stage.got(state.own, mark, 0, now, ready)

    def past(self) -> list[int]:
        """Return what the next own message follows."""
        past = self.state.handed.copy()
        past[self.state.place] = self.state.own.got
        return past

    def count_own(self, message: Message) -> None:
        """Count an own message as got here."""
        state = self.state
        own, number = state.own, message.number
        own.get(message, number)
        state.got[state.place] = number
        state.last_epoch[own.member] = message.epoch

    # --- the removed ---

    def _removed(self, view: View, now: Instant, ready: Ready) -> None:
        """Learn that this member is out: stop, and tell the view to those who may not know it."""
        self.removed_by = view
        self.journal.write(RemovedAt(view.epoch), ready)
        self.state.live = False
        self._tell_removal(now, ready)

    def knows(self, sender: int, epoch: int, ready: Ready) -> None:
        """Learn that somebody knows the view that removed this member."""
        view = self.removed_by
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
        self.journal.write(Ended(self.bundles()), ready)
        ready.notes.append(verdict)

    def verdict(self, view: View) -> Note:
        """Return the note that a view removed this member: with how far its own messages count."""
        assert self.state.me is not None
        cut = view.cut_of(self.state.me)
        if cut is None:
            return Note("leave", "removed_unknown", epoch=view.epoch)
        last = self.stability.settled_last
        for number in sorted(self.state.own.retained):
            message = self.state.own.retained[number]
            if number <= cut.number and isinstance(message, ViewMessage):
                last = last_event(message.bundle)
        reason = "left" if self.leaving else "removed"
        return Note("leave", reason, epoch=view.epoch, value=cut.number, event=last)

    def _tell_removal(self, now: Instant, ready: Ready) -> None:
        view = self.removed_by
        if view is None or self.ended:
            return
        others = tuple(member.pid for member in view.members)
        if others:  # those that knew it then may know a later one now, which ends this
            ready.send.append(Send(others, Decree(view)))
        self.next_at = now + self.settings.retry_ns


def view_note(view: View) -> Note:
    """Return the note that a view was entered."""
    ids = tuple(
        EventId(member.pid, nonce, member.joined) for member, nonce in zip(view.members, view.nonces, strict=True)
    )
    voters = sum(1 << view.place_of(voter.pid) for voter in view.voters)
    return Note(
        "view", "entered", epoch=view.epoch, value=voters, view=tuple(member.pid for member in view.members), ids=ids
    )
