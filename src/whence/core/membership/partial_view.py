"""Partial views: each member knows a few others, at random, and the gossip itself keeps that knowledge fresh (lpbcast).

Promises: a view never holds the member itself and never more than `view_size` peers; a peer that said farewell leaves
every view; a member that nobody writes to, or that lost its peers in a partition, finds the group again.
Assumes: some contact or some peer once known can be reached again.
Source: gossip 2.2 (lpbcast), J section 6.1. Ours, because lpbcast alone never forgets the dead nor heals a
split: news of a peer lives for `sub_rounds` rounds after its last word; a target that failed `failures_max` times in a
row leaves the view; now and then one lost peer or contact is asked to let us in again.
A peer that failed once is asked in every round until it answers or has failed for good.
Unlike lpbcast, a peer pushed out of a full view is not passed on: members announce themselves, and recirculating old
knowledge makes some of them too well known and lowers reach.
Costs per gossip message: at most `subs_max` + `unsubs_max` entries of 7 bytes.
"""

from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import Annotated

from msgspec import Meta, Struct

from whence import limits
from whence.core.ready import Gauge, Item, RandomSource, Ready, Send
from whence.errors import SettingError
from whence.types import Instant, Process

NEWS = Layout("<HIB")
"""One peer in the news: pid, incarnation, rounds left to live."""

News = Annotated[bytes, Meta(max_length=NEWS.size * (limits.VIEW_MAX + 1))]
"""Peers end to end: the fullest list and oneself. Packed: a list would decode into 32 bytes for each small number."""


def whole(news: bytes) -> bool:
    """Tell whether news are whole entries whose incarnations fit 31 bits: no top byte of one has its top bit set."""
    if not news:
        return True
    size = NEWS.size
    return len(news) % size == 0 and news[5::size].isascii()


class Subscribe(Item, frozen=True, tag=2):
    """Let me in; or, from a member, are you there? The sender is the subject."""

    joining: bool
    """Asks for a snapshot too."""


class Welcome(Item, frozen=True, tag=3):
    """You are in: some peers to start with, and what you need not wait for."""

    peers: News
    snapshot: Annotated[bytes, Meta(max_length=limits.SNAPSHOT_BYTES_MAX)]

    def is_valid(self) -> bool:
        """Tell whether the news are whole."""
        return whole(self.peers)


class ViewSettings(Struct, frozen=True, kw_only=True):
    """How much a member knows of the others, and when it loses faith in one. Rounds are gossip rounds."""

    view: str = "partial"
    """`partial` (each member knows some others) or `full` (the driver tells everybody about everybody)."""
    view_size: int = 20
    """Peers known. Must exceed the fan-out; more makes splits rarer and messages longer."""
    subs_max: int = 20
    """News of arrivals passed on. Full: a random one is dropped."""
    unsubs_max: int = 20
    """Farewells passed on. Full: a random one is dropped; a leaver waits a round instead."""
    announce_rounds: int = 6
    """A member announces itself every so many rounds. More often costs bytes and churn, less often leaves a newcomer
    unknown for longer. Must be below `sub_rounds`, or news of the living dies out."""
    sub_rounds: int = 12
    """How long news of a peer lives after its last word: at least twice the rounds an event lives."""
    farewell_rounds: int = 12
    """How long a farewell lives. At least twice the rounds an event lives, or a leaver is remembered as present."""
    failures_max: int = 3
    """Failures in a row after which a peer leaves the view."""
    isolation_rounds: int = 10
    """Rounds without any word after which a member asks to be let in again."""
    reach_rounds: int = 15
    """Every so many rounds one lost peer or contact is asked: heals a group that a partition split."""
    join_retry_rounds: int = 3
    """Rounds to wait for a Welcome before asking the next contact."""
    join_tries_max: int = 10
    """Contacts asked in vain after which the group is taken for lost and begun anew; it merges with any other part of
    it that is found later."""

    def __post_init__(self) -> None:
        if self.view not in ("partial", "full"):
            raise SettingError(f"view must be partial or full, not {self.view!r}")
        for name in ("view_size", "subs_max", "unsubs_max"):
            if not 1 <= getattr(self, name) <= limits.VIEW_MAX:
                raise SettingError(f"{name} must be from 1 to {limits.VIEW_MAX}, not {getattr(self, name)}")
        for name in (
            "announce_rounds",
            "sub_rounds",
            "farewell_rounds",
            "isolation_rounds",
            "reach_rounds",
            "join_retry_rounds",
            "join_tries_max",
        ):
            if not 1 <= getattr(self, name) <= limits.ROUNDS_MAX:
                raise SettingError(f"{name} must be from 1 to {limits.ROUNDS_MAX}, not {getattr(self, name)}")
        if self.announce_rounds >= self.sub_rounds:
            raise SettingError(f"announce_rounds ({self.announce_rounds}) must be below sub_rounds ({self.sub_rounds})")
        if self.failures_max < 1:
            raise SettingError(f"failures_max must be at least 1, not {self.failures_max}")


class Known(Struct, gc=False):
    """A peer's life as last heard of, until the round when that news is too old to pass on."""

    incarnation: int
    until: int


class PartialView:
    """Some of the other members, refreshed by gossip."""

    __slots__ = (
        "_announce_at",
        "_asked",
        "_contacts",
        "_failures",
        "_heard_round",
        "_leaving_rounds",
        "_lost",
        "_peers",
        "_retry_at",
        "_rng",
        "_round",
        "_round_ns",
        "_seeking",
        "_settings",
        "_snapshot",
        "_subs",
        "_unsubs",
        "_view",
        "changed",
        "me",
    )

    items: tuple[type[Item], ...] = (Subscribe, Welcome)

    def __init__(
        self, me: Process, settings: ViewSettings, round_ns: int, rng: RandomSource, snapshot: Callable[[], bytes]
    ) -> None:
        self.me = me
        self._settings = settings
        self._round_ns = round_ns
        self._rng = rng
        self._snapshot = snapshot
        self._round = 0
        self._peers: list[int] = []
        """The view as a list, for drawing from it."""
        self._view: dict[int, Known] = {}
        self._subs: dict[int, Known] = {}
        self._unsubs: dict[int, Known] = {}
        self._lost: dict[int, int] = {}
        """Peers that stopped answering: (pid, incarnation) to try again some day."""
        self._failures: dict[int, int] = {}
        self._contacts: tuple[int, ...] = ()
        self._seeking = False
        self._asked = 0
        self._retry_at: Instant | None = None
        self._leaving_rounds: int | None = None
        self._heard_round = 0
        self._announce_at = 0
        self.changed = False
        """There is news that no round has carried yet."""

    # --- coming and going ---

    def found(self, peers: Sequence[Process], now: Instant) -> None:
        """Start with peers that are known to start too."""
        self._contacts = tuple(pid for pid, _ in peers if pid != self.me.pid)
        for pid, incarnation in peers:
            self._learn(pid, incarnation, self._settings.sub_rounds)
        self._shorten()

    def join(self, contacts: Sequence[int], now: Instant, ready: Ready) -> None:
        """Ask the contacts, one after another, until one answers."""
        self._contacts = tuple(pid for pid in contacts if pid != self.me.pid)
        self._seeking = True
        self._ask_next_contact(now, ready)

    def settle(self) -> None:
        """Stop asking: this process is a member now."""
        self._seeking = False
        self._retry_at = None
        self._heard_round = self._round

    def leave(self, now: Instant) -> None:
        """Say farewell in the coming rounds."""
        self._leaving_rounds = max(1, self._settings.farewell_rounds // 2)
        self._unsubs[self.me.pid] = Known(self.me.incarnation, self._round + self._settings.farewell_rounds)
        self.changed = True

    def gone(self) -> bool:
        """Tell whether the farewell has been said often enough."""
        return self._leaving_rounds is not None and self._leaving_rounds <= 0

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> bytes | None:
        """Let a newcomer in, or be let in."""
        if isinstance(item, Welcome):
            self.hear(sender, self._arrival_of(sender) + item.peers, b"")
            return item.snapshot if self._seeking else None
        if isinstance(item, Subscribe) and not self._seeking:
            sample = self._sample(self._settings.view_size)
            snapshot = self._snapshot() if item.joining else b""
            self.hear(sender, self._arrival_of(sender), b"")
            ready.send.append(Send((sender.pid,), Welcome(sample, snapshot), sender.incarnation))
        return None

    # --- what gossip carries ---

    def news(self) -> tuple[bytes, bytes]:
        """Return the arrivals to pass on, each once, and the farewells."""
        self.changed = False
        subs = self._packed(self._subs)
        self._subs.clear()
        if self._round >= self._announce_at and self._leaving_rounds is None:
            self._announce_at = self._round + self._settings.announce_rounds
            subs += self._arrival_of(self.me)
        return subs, self._packed(self._unsubs)

    def hear(self, sender: Process, subs: bytes, unsubs: bytes) -> None:
        """Take in a peer's news: farewells first, or a leaver would come back through old arrivals."""
        self._heard_round = self._round
        if self._failures:
            self._failures.pop(sender.pid, None)
        if not subs and not unsubs:
            return
        for pid, incarnation, rounds in NEWS.iter_unpack(unsubs):
            self._bid_farewell(pid, incarnation, rounds)
        for pid, incarnation, rounds in NEWS.iter_unpack(subs):
            self._learn(pid, incarnation, rounds)
        self._shorten()

    def next_round(self, ready: Ready) -> None:
        """Let news age by a round; look for the group if it has gone quiet."""
        self._round += 1
        for known in (self._subs, self._unsubs):
            for pid in [pid for pid, entry in known.items() if entry.until <= self._round]:
                del known[pid]
        for suspect in self._failures:
            ready.send.append(Send((suspect,), Subscribe(joining=False)))
        if self._leaving_rounds is not None:
            self.changed = True  # a farewell is said in every round, however quiet the group is
            if len(self._unsubs) <= self._settings.unsubs_max:
                self._leaving_rounds -= 1
            return
        quiet = self._round - self._heard_round
        if quiet and quiet % self._settings.isolation_rounds == 0:
            self._ask([*self._contacts, *self._peers, *self._lost], ready)
        elif self._round % self._settings.reach_rounds == 0:
            self._ask([pid for pid in (*self._lost, *self._contacts) if pid not in self._view], ready)

    def targets(self, count: int) -> tuple[int, ...]:
        """Draw distinct peers, uniformly."""
        peers, rng = self._peers, self._rng
        size = len(peers)
        if count >= size:
            return tuple(peers)
        for at in range(count):
            other = at + int(rng() * (size - at))
            peers[at], peers[other] = peers[other], peers[at]
        return tuple(peers[:count])

    # --- peers that do not answer ---

    def unreachable(self, peer: int) -> None:
        """Count a failure; drop the peer from this view only, and put a rumoured one in its place."""
        if peer not in self._view:
            return
        failures = self._failures.get(peer, 0) + 1
        if failures < self._settings.failures_max:
            self._failures[peer] = failures
            return
        self._lost[peer] = self._view[peer].incarnation
        self._forget(peer)
        self._subs.pop(peer, None)
        while len(self._lost) > self._settings.view_size:
            self._drop_random(self._lost)
        spare = [pid for pid in self._subs if pid not in self._view]
        if spare:
            pid = spare[int(self._rng() * len(spare))]
            self._learn(pid, self._subs[pid].incarnation, self._subs[pid].until - self._round)

    def reaches(self, process: Process) -> bool:
        """Tell whether this life of a peer is in the view and has not failed to answer."""
        known = self._view.get(process.pid)
        return known is not None and known.incarnation == process.incarnation and process.pid not in self._failures

    # --- peers that say themselves where they stand ---

    def meet(self, peer: Process) -> None:
        """Know a member that says so itself, or have one more to ask. No rumour of it: it tells everybody itself."""
        if peer.pid == self.me.pid:
            return
        if self._seeking:
            self._contacts = tuple(dict.fromkeys((*self._contacts, peer.pid)))
            return
        rumoured, changed = peer.pid in self._subs, self.changed
        self._learn(*peer, self._settings.sub_rounds)
        if not rumoured:
            self._subs.pop(peer.pid, None)
            self.changed = changed
        self._shorten()

    def parted(self, peer: Process) -> None:
        """Forget a member that says itself that it has left, and believe no older rumour of it."""
        changed = self.changed
        self._bid_farewell(*peer, self._settings.farewell_rounds)
        self.changed = changed
        self._shorten()

    # --- asking to be let in ---

    def tick(self, now: Instant, ready: Ready) -> None:
        """Ask the next contact where the last one has not answered in time."""
        if self._retry_at is not None and now >= self._retry_at:
            self._ask_next_contact(now, ready)

    def alone(self) -> bool:
        """Tell whether so many contacts have been asked in vain that nobody seems to be there."""
        return self._seeking and self._asked > self._settings.join_tries_max

    def wake_at(self) -> Instant | None:
        """Return when the next contact is to be asked."""
        return self._retry_at

    def view(self) -> tuple[int, ...] | None:
        """Return the peers known now, in order."""
        return tuple(sorted(self._peers))

    def gauges(self) -> list[Gauge]:
        """Return how full the view and its rumours are."""
        settings = self._settings
        return [
            Gauge("view", len(self._view), settings.view_size),
            Gauge("subs", len(self._subs), settings.subs_max),
            Gauge("unsubs", len(self._unsubs), settings.unsubs_max + 1),
            Gauge("lost", len(self._lost), settings.view_size),
        ]

    def _ask_next_contact(self, now: Instant, ready: Ready) -> None:
        if self._contacts:
            contact = self._contacts[self._asked % len(self._contacts)]
            ready.send.append(Send((contact,), Subscribe(joining=True)))
        self._asked += 1
        self._retry_at = now + self._settings.join_retry_rounds * self._round_ns

    def _ask(self, candidates: list[int], ready: Ready) -> None:
        if candidates:
            ready.send.append(Send((candidates[int(self._rng() * len(candidates))],), Subscribe(joining=False)))

    # --- the view itself ---

    def _learn(self, pid: int, incarnation: int, rounds: int) -> None:
        """Add a peer to the view and to the rumours, unless it is old news, gone, or oneself."""
        if pid == self.me.pid:
            return
        until = self._round + min(rounds, self._settings.sub_rounds)
        known = self._view.get(pid)
        if known is not None:
            if incarnation == known.incarnation:
                if until > known.until:
                    known.until = until
                return
            if incarnation < known.incarnation:
                return
        farewell = self._unsubs.get(pid)
        if farewell is not None:
            if farewell.incarnation >= incarnation:
                return
            del self._unsubs[pid]
        if known is None:
            self._peers.append(pid)
        self._view[pid] = Known(incarnation, until)
        if len(self._peers) < self._settings.view_size:
            self._subs[pid] = Known(incarnation, until)
        self._failures.pop(pid, None)
        self._lost.pop(pid, None)
        self.changed = True

    def _bid_farewell(self, pid: int, incarnation: int, rounds: int) -> None:
        """Forget a peer that left, and pass its farewell on."""
        if pid == self.me.pid or rounds <= 0:
            return
        known = self._view.get(pid)
        if known is not None and known.incarnation <= incarnation:
            self._forget(pid)
        rumour = self._subs.get(pid)
        if rumour is not None and rumour.incarnation <= incarnation:
            del self._subs[pid]
        self._lost.pop(pid, None)
        farewell = self._unsubs.get(pid)
        if (farewell is None or farewell.incarnation < incarnation) and (
            known is None or known.incarnation <= incarnation
        ):
            self._unsubs[pid] = Known(incarnation, self._round + min(rounds, self._settings.farewell_rounds))
            self.changed = True

    def _shorten(self) -> None:
        """Keep every list within its bound, dropping at random."""
        settings = self._settings
        while len(self._peers) > settings.view_size:
            pid = self._peers[int(self._rng() * len(self._peers))]
            self._forget(pid)
        while len(self._subs) > settings.subs_max:
            self._drop_random(self._subs)
        while len(self._unsubs) > settings.unsubs_max + (self.me.pid in self._unsubs):
            self._drop_random(self._unsubs)

    def _forget(self, pid: int) -> None:
        del self._view[pid]
        self._peers.remove(pid)
        self._failures.pop(pid, None)

    def _drop_random(self, known: dict[int, Known] | dict[int, int]) -> None:
        others = [pid for pid in known if pid != self.me.pid]
        del known[others[int(self._rng() * len(others))]]

    def _packed(self, known: dict[int, Known]) -> bytes:
        pack, now = NEWS.pack, self._round
        return b"".join([pack(pid, entry.incarnation, entry.until - now) for pid, entry in known.items()])

    def _arrival_of(self, process: Process) -> bytes:
        return NEWS.pack(*process, self._settings.sub_rounds)

    def _sample(self, count: int) -> bytes:
        view, now = self._view, self._round
        peers = self.targets(count)
        return b"".join([NEWS.pack(pid, view[pid].incarnation, max(1, view[pid].until - now)) for pid in peers])
