"""What is wished: who goes, who comes, and who leads the change that it takes.

Laws: a wish counts in the view that it was made in, and not for long. The first voter leads that is neither suspected
nor about to go; the others pass on to it what they wish, and suspect it when it is not heard of. Whoever is about to go
says so to all, or those that leave together each wait for another one to lead. Whoever fails waits longer before it
tries again.
"""

from collections.abc import Container

from whence.core.ready import NEVER, RandomSource, Ready, Send
from whence.core.views.items import Hint, JoinRequest, ViewMessage, Wish
from whence.core.views.lag import Lags
from whence.core.views.leader import Leader
from whence.core.views.links import Links
from whence.core.views.peers import Peer
from whence.core.views.removal import Removal
from whence.core.views.settings import AS_THE_GROUP, REMOVE_AFTER_NS, ViewSettings
from whence.core.views.streams import Stream
from whence.core.views.view import VOTERS_MAX, MemberId, View
from whence.epochs import is_founding
from whence.types import Instant

ASKED_NS = 1_000_000_000
"""A newcomer is added only if it asked within this time: at `total` others wait for its first word."""

TRIES_MAX = 8

LEFT_ALONE = 8
"""After so many attempts' time a change that was reported to counts as abandoned."""

FRUITLESS_MAX = 6
"""How often the wait for the next attempt is doubled."""


class Wishes:
    """What this member and others wish to change, and whether this member leads it."""

    def __init__(
        self, links: Links, leader: Leader, removal: Removal, settings: ViewSettings, rng: RandomSource
    ) -> None:
        self.state = links.state
        self.links, self.leader, self.removal, self.settings = links, leader, removal, settings
        self._rng = rng
        self.lags = Lags(links, settings)
        by_default = 0 if self.state.remembers else REMOVE_AFTER_NS
        self.remove_after_ns = by_default if settings.remove_after_ns == AS_THE_GROUP else settings.remove_after_ns
        """A member that is suspected for this long is removed. 0: never."""
        self.condemned: dict[MemberId, None] = {}
        """Members that an operator removed here."""
        self._wishes: dict[int, tuple[Wish, Instant]] = {}
        self._joins: dict[int, tuple[int, Instant]] = {}
        """Newcomers that asked here: the incarnation, and when."""
        self._added_at: dict[MemberId, Instant] = {}
        """When members were added that have not shown yet that they are opened."""
        self._pursued_at: Instant = -NEVER
        """When somebody last asked this member for anything in a change."""
        self._contested_at: Instant = -NEVER
        """When another member last did."""
        self._expected: tuple[int, Instant] | None = None
        """Whom this member passes on what it wishes, and since when."""
        self._patience: Instant = 0
        self._fruitless = 0
        self._promote_at: Instant = -NEVER
        """When voters may be added again."""
        self.is_suspended = False
        """Whether an operator forces a view here: nothing else is led meanwhile."""
        self._removes_since: Instant | None = None
        """Since when this member leads a removal in this instance."""
        self._tries = 0
        """Attempts in this instance: each may take longer than those before."""
        self.next_at: Instant = NEVER
        """When to look again at what is wished."""

    def look(self, at: Instant) -> None:
        """Look at what is wished, no later than this."""
        self.next_at = min(self.next_at, at)

    def missed(self, now: Instant) -> None:
        """Note that somebody is suspected: however that came about, whether to remove it is looked at (T55)."""
        self.look(now)

    def pursued(self, by: int, now: Instant) -> None:
        """Note that a member pursues a change: look at what is wished when whoever leads has had its time."""
        self._pursued_at = now
        if by != self.state.pid:
            self._contested_at = now
        self.look(now + self.settings.attempt_ns)

    def adopted(self, view: View, added: list[Stream], now: Instant, ready: Ready) -> None:
        """Begin anew with a view that is decided: what was wished of the former one is done, or wished again."""
        for stream in added:
            if stream.member.joined == view.epoch and stream.member != self.state.me:
                self._added_at[stream.member] = now
        for cut in view.cuts:
            self.condemned.pop(cut.member, None)
        self.condemned = {member: None for member in self.condemned if view.may_lose(member)}
        self._wishes = {}
        self._tries = 0
        self._removes_since = self._expected = None
        self._ask_again(view, ready)

    def _ask_again(self, view: View, ready: Ready) -> None:
        """Have those ask anew that were not added: their requests quote the former epoch (T60)."""
        asked, self._joins = self._joins, {}
        if waiting := tuple(pid for pid, (nonce, _) in asked.items() if self._may_join(pid, nonce)):
            ready.send.append(Send(waiting, Hint(view.epoch)))

    def returned(self, now: Instant) -> None:
        """Give newcomers that have not marked yet their time once more: an earlier incarnation of this member waited
        for them, and nobody else may (T60)."""
        for member in self.state.latest.members:
            stream = self.state.streams.get(member)
            if not is_founding(member.joined) and member != self.state.me and stream is not None and not stream.got:
                self._added_at[member] = now

    # --- what is wished ---

    def remove(self, pid: int, now: Instant) -> bool:
        """Wish that a member be removed; return False if it is none, or those that stay would be no quorum: what cannot
        be done would only keep this member from leaving, and the other from leading."""
        latest = self.state.latest
        member = latest.member_of(pid)
        if member is None or not latest.may_lose(member):
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
            missing, away = self.missing_voters(), [each for each in self.links.suspects.now if each != pid]
            if missing or away:
                ready.send.append(Send((pid,), Hint(state.adopted, missing, away)))

    @property
    def joining(self) -> tuple[int, ...]:
        """Return the processes that asked this member to be added."""
        return tuple(self._joins)

    def missing_voters(self) -> list[int]:
        """Return the voters that do not answer, if those that do are no quorum."""
        view, silent = self.state.latest, self.links.suspects.now
        if view.has_quorum([voter.pid for voter in view.voters if voter.pid not in silent]):
            return []
        return [voter.pid for voter in view.voters if voter.pid in silent]

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
            known = self._wishes.get(pid)
            self._wishes[pid] = (item, now)
            if known is None or known[0] != item:  # members that leave tell each other, again and again
                self.look(now)

    def _all_condemned(self, now: Instant) -> dict[int, None]:
        state = self.state
        condemned = {member.pid: None for member in self.condemned if member in state.latest.members}
        for pid, peer in self.links.peers.items():
            if self.remove_after_ns and peer.silence(now) >= self.remove_after_ns:
                condemned[pid] = None
        for member, since in list(self._added_at.items()):
            stream, its = state.streams.get(member), self.links.peers.get(member.pid)
            if stream is None or its is None or its.member != member or self.links.is_live(its):
                del self._added_at[member]
            elif self._gives_up(stream, its, since, now):
                condemned[member.pid] = None
        return condemned | self.lags.late

    def _gives_up(self, stream: Stream, peer: Peer, since: Instant, now: Instant) -> bool:
        """Tell whether a newcomer that is not opened is to be removed, whatever the group does about silent members:
        nothing rests on it, and it may have given up (T61). One that answers may wait for another that does not."""
        patience = self.settings.join_timeout_ns
        if stream.got:
            return peer.silence(now) >= patience
        return now - since >= (patience if peer.silence(now) else 2 * patience)

    def _would_block(self, now: Instant) -> dict[int, None]:
        """Return the suspected for whose report no removal should wait: newcomers that are not opened, and members that
        are soon removed anyway."""
        blocking: dict[int, None] = {}
        for pid in self.links.suspects.now:
            peer = self.links.peers.get(pid)
            if peer is not None and peer.member in self.state.streams:
                patience = self.remove_after_ns // 2
                if peer.member in self._added_at:
                    patience = self.settings.join_timeout_ns // 2 if self.state.streams[peer.member].got else 1
                if patience and peer.silence(now) >= patience:
                    blocking[pid] = None
        return blocking

    # --- who leads ---

    def tick(self, now: Instant, ready: Ready) -> None:
        """Lead what is wished, or pass it on to whoever leads."""
        state = self.state
        self.next_at = NEVER
        if self.removal.by is not None:
            self.next_at = self.removal.tell(now, ready)
            return
        if state.entered < 0:
            return
        if not self.links.all and self.removal.leaving:
            self.end_alone(now, ready)
            return
        if now >= self.lags.next_at:
            self.lags.look(now)
        self._forget_old(now)
        self.removal.bid_farewell(now, ready)
        condemned = self._all_condemned(now)
        leavers = {state.pid: None} if self._may_leave() else {}
        joins = {pid: incarnation for pid, (incarnation, _) in self._joins.items()}
        frozen = dict(state.frozen)
        lets_go = self._is_left_alone(now)
        pace = self.settings.attempt_ns // 2
        wished = {pid: None for wish, _ in self._wishes.values() for pid in (*wish.condemned, *wish.frozen)}
        leads = self._leader(condemned | wished)
        if leads == state.pid:
            self._expected = None
            for wish, _ in self._wishes.values():
                condemned |= dict.fromkeys(pid for pid in wish.condemned if pid != state.pid)
                leavers |= dict.fromkeys(wish.leavers)
                joins |= {pid: nonce for pid, nonce in wish.joins if self._may_join(pid, nonce)}
                frozen |= dict.fromkeys(wish.frozen)
                lets_go |= wish.lets_go
            self._lead(condemned, leavers, joins, frozen, lets_go, now, ready)
        else:
            self._give_up_lead(now)
            if condemned or leavers or joins or lets_go:
                wish = Wish(state.adopted, list(condemned), list(leavers), list(joins.items()), list(frozen), lets_go)
                ready.send.append(Send((leads,), wish))
                self._expect(leads, now, ready)
                self._say_who_leaves(leavers, leads, ready)
            else:
                self._expected = None
        if (
            condemned
            or leavers
            or joins
            or self._has_reported()
            or self.leader.attempt
            or self._added_at
            or self.removal.leaving
        ):
            self.next_at = now + pace
        elif self._suspected() or self.removal.bids_farewell:
            self.next_at = now + 4 * pace
        elif len(state.latest.voters) < min(VOTERS_MAX, len(state.latest.members)):
            self.next_at = max(now + 4 * pace, self._promote_at)
        self.look(self.lags.next_at)

    def _say_who_leaves(self, leavers: dict[int, None], leads: int, ready: Ready) -> None:
        """Say to the others that this member leaves: they must not expect it to lead (T67)."""
        others = tuple(pid for pid in self.links.all if pid != leads)
        if leavers and others:
            ready.send.append(Send(others, Wish(self.state.adopted, [], list(leavers), [], [])))

    def _give_up_lead(self, now: Instant) -> None:
        """Forget an attempt that does not move, where another member is to lead: who froze something for it would else
        take it for pursued (T53)."""
        attempt = self.leader.attempt
        if attempt is not None and now - attempt.moved_at >= self._patience:
            self.leader.attempt = None

    def end_alone(self, now: Instant, ready: Ready) -> None:
        """End the group as its last member, once those that left with this one have heard that it knows."""
        self.removal.bid_farewell(now, ready)
        if self.removal.may_be_asked:
            self.look(now + self.settings.attempt_ns // 2)
        else:
            self.removal.end_alone(ready)

    def _has_reported(self) -> bool:
        """Tell whether this member waits for the end of a change that it reported to."""
        return bool(self.state.frozen) or self.state.stored_at_report is not None

    def _is_left_alone(self, now: Instant) -> bool:
        """Tell whether nobody pursues the change that this member reported to."""
        return self._has_reported() and self.leader.attempt is None and now - self._pursued_at > self._abandoned_ns

    @property
    def _abandoned_ns(self) -> Instant:
        """Return after how long a change counts as abandoned of which nothing was heard."""
        return LEFT_ALONE * max(self.settings.attempt_ns, self.settings.suspect_ns)

    def _suspected(self) -> bool:
        return bool(self.remove_after_ns and self.links.suspects.now)

    def _may_promote(self, now: Instant) -> bool:
        """Tell whether there is room for voters and somebody fit for it; after attempts in vain, not too soon again."""
        state = self.state
        if self.leader.fruitless > self._fruitless:
            wait = 2 * self.settings.attempt_ns * 2 ** min(self.leader.fruitless, FRUITLESS_MAX)
            self._promote_at = now + wait
        self._fruitless = self.leader.fruitless
        if now < self._promote_at or self.leader.found_frozen:
            return False  # whoever pursues a removal would go on waiting for what promotes, and not let go (T64)
        latest = state.latest
        if len(latest.voters) >= min(VOTERS_MAX, len(latest.members)) or state.entered != state.adopted:
            return False
        closed = state.closed
        return any(member not in latest.voters and member.joined <= closed for member in latest.members)

    def _expect(self, pid: int, now: Instant, ready: Ready) -> None:
        """Expect that whoever leads is heard of: else somebody else must lead. It may have nothing to do or to say, if
        nobody can be added for instance, so it is asked (T65)."""
        peer = self.links.peers.get(pid)
        if peer is None:
            return
        if self._expected is None or self._expected[0] != pid:
            self._expected = (pid, now)
        if now - max(peer.heard_at, peer.since, self._expected[1]) >= 2 * self.settings.suspect_ns:
            self.links.suspect(pid, now)
        elif now - peer.heard_at >= self.settings.suspect_ns:
            ready.send.append(Send((pid,), self.links.ack(asks=True)))

    def _expect_answers(self, now: Instant) -> None:
        """Suspect who is asked in a change and not heard of: nothing else may be owed by it."""
        for pid in self.leader.waits_for:
            peer = self.links.peers.get(pid)
            if peer is not None and now - max(peer.heard_at, self.leader.asked_at) >= 2 * self.settings.suspect_ns:
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
        return self.removal.leaving and not any(
            isinstance(each, ViewMessage) for each in self.state.own.retained.values()
        )

    def leads(self) -> int:
        """Return who should lead a change now, as far as this member knows."""
        return self._leader(dict.fromkeys(member.pid for member in self.condemned))

    def _leader(self, condemned: dict[int, None]) -> int:
        """Return who should lead: the first voter that is neither suspected, condemned nor frozen; else this member."""
        state, goes = self.state, self._may_leave()
        leavers = {pid: None for wish, _ in self._wishes.values() for pid in wish.leavers}
        unfit = self._unfit(condemned, goes=goes)
        passed_over = (*unfit, state.frozen, leavers)
        for voter in state.latest.voters:
            pid = voter.pid
            if pid == state.pid:
                if not goes:
                    return pid
            elif not any(pid in each for each in passed_over):
                return pid
        voters = [voter.pid for voter in state.latest.voters]
        for some in ((*unfit, state.frozen), unfit):  # all leave: the first goes last, frozen by it or not
            if stays := [pid for pid in voters if not any(pid in each for each in some)]:
                return stays[0]
        return state.pid if state.me in state.latest.voters else voters[0]

    def _unfit(self, condemned: dict[int, None], *, goes: bool) -> tuple[Container[int], ...]:
        """Return who must not lead whatever it wants. Who goes itself leaves it to a member that answers, though others
        want to remove that one: both would lead, and end each other's attempts for ever (T68)."""
        return (self.links.suspects.now,) if goes else (self.links.suspects.now, condemned)

    def _lead(
        self, condemned: dict[int, None], leavers: dict[int, None], joins: dict[int, int], frozen: dict[int, None],
        lets_go: bool, now: Instant, ready: Ready,
    ) -> None:  # fmt: skip
        leader, state = self.leader, self.state
        if state.entered != state.adopted or self.is_suspended:
            return
        attempt = leader.attempt
        if attempt is not None and now - attempt.moved_at < self._patience:
            leader.repeat(ready)
            self._expect_answers(now)
            return
        if now - self._contested_at > self._abandoned_ns:
            leader.yields_until = now  # nobody is there to yield to
        lets_go |= self._gave_up(condemned)
        plan = leader.plan(
            condemned,
            leavers,
            joins,
            frozen,
            silent=self.links.suspects.now,
            along=self._would_block(now),
            lets_go=lets_go,
            wants_promotion=self._may_promote(now),
            now=now,
        )
        leader.attempt = None
        if plan is not None:
            self._tries = min(self._tries + 1, TRIES_MAX)
            self._patience = int(self.settings.attempt_ns * (1 + self._rng()) * 2 ** (self._tries // 2))
            if plan.remove and self._removes_since is None:
                self._removes_since = now
            leader.begin(plan, now, ready)

    def _gave_up(self, condemned: dict[int, None]) -> bool:
        """Tell whether this member alone began to remove somebody who is not to be removed any more, because it answers
        again for instance: nobody else will let go of what is frozen any sooner (T64)."""
        since = self._removes_since
        return since is not None and since > self._contested_at and bool(self.state.frozen) and not condemned
