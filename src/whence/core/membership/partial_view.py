"""Partial views: each member knows a few others, at random, and the gossip itself keeps that knowledge fresh (lpbcast).

Promises: a view never holds the member itself and never more than `view_size` peers; a peer that said farewell leaves
every view; a member that nobody writes to, or that lost its peers in a partition, finds the group again.
Assumes: some contact or some peer once known can be reached again.
Source: gossip 2.2 (lpbcast), J section 6.1. Ours, because lpbcast alone neither forgets dead peers nor heals a split:
news of a peer lasts for `sub_rounds` rounds after its last announcement; a target that failed `failures_max` times in a
row leaves the view; every `reach_rounds` rounds, one lost peer or contact is asked to let us in again.
A peer that failed once is asked in every round until it answers or has failed for good.
Unlike lpbcast, a peer pushed out of a full view is not passed on: members announce themselves, and recirculating old
knowledge makes some of them too well known and lowers reach.
Costs per gossip message: at most `subs_max` + `unsubs_max` entries of 7 bytes.
"""

from collections.abc import Callable, Sequence

from whence.core.membership.contacts import ContactSearch
from whence.core.membership.items import NEWS, Subscribe, Welcome
from whence.core.membership.news import Known, MembershipNews, drop_random
from whence.core.membership.settings import ViewSettings
from whence.core.ready import Gauge, Item, RandomSource, Ready, Send
from whence.types import Instant, Process


class PartialView:
    """Some of the other members, refreshed by gossip."""

    __slots__ = (
        "_failures",
        "_heard_round",
        "_leaving_rounds",
        "_lost",
        "_news",
        "_peers",
        "_rng",
        "_search",
        "_settings",
        "_snapshot",
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
        self._rng = rng
        self._snapshot = snapshot
        self._news = MembershipNews(me, settings, rng)
        self._search = ContactSearch(settings, round_ns)
        self._peers: list[int] = []
        """The view as a list, for drawing from it."""
        self._view: dict[int, Known] = {}
        self._lost: dict[int, int] = {}
        """Peers that stopped answering, to be tried again later: pid to incarnation."""
        self._failures: dict[int, int] = {}
        self._leaving_rounds: int | None = None
        self._heard_round = 0
        self.changed = False
        """There is news that was not sent in any round yet."""

    # --- coming and going ---

    def found(self, peers: Sequence[Process], now: Instant) -> None:
        """Start with peers that are known to start as well."""
        self._search.contacts = tuple(pid for pid, _ in peers if pid != self.me.pid)
        for pid, incarnation in peers:
            self._learn(pid, incarnation, self._settings.sub_rounds)
        self._shorten()

    def join(self, contacts: Sequence[int], now: Instant, ready: Ready) -> None:
        """Ask the contacts, one after another, until one answers."""
        self._search.contacts = tuple(pid for pid in contacts if pid != self.me.pid)
        self._search.active = True
        self._search.ask_next(now, ready)

    def settle(self) -> None:
        """Stop asking: this process is a member now."""
        self._search.stop()
        self._heard_round = self._news.round

    def leave(self, now: Instant) -> None:
        """Say farewell in the coming rounds."""
        self._leaving_rounds = max(1, self._settings.farewell_rounds // 2)
        self._news.add_farewell(*self.me, self._settings.farewell_rounds)
        self.changed = True

    def gone(self) -> bool:
        """Tell whether the farewell has been sent often enough."""
        return self._leaving_rounds is not None and self._leaving_rounds <= 0

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> bytes | None:
        """Let a newcomer in, or be let in."""
        if isinstance(item, Welcome):
            self.hear(sender, self._news.arrival_of(sender) + item.peers, b"")
            return item.snapshot if self._search.active else None
        if isinstance(item, Subscribe) and not self._search.active:
            sample = self._sample(self._settings.view_size)
            snapshot = self._snapshot() if item.joining else b""
            self.hear(sender, self._news.arrival_of(sender), b"")
            ready.send.append(Send((sender.pid,), Welcome(sample, snapshot), sender.incarnation))
        return None

    # --- what gossip carries ---

    def news(self) -> tuple[bytes, bytes]:
        """Return the arrivals to pass on, each once, and the farewells."""
        self.changed = False
        return self._news.take(announces=self._leaving_rounds is None)

    def hear(self, sender: Process, subs: bytes, unsubs: bytes) -> None:
        """Take a peer's news: farewells first, or a leaver would come back through old arrivals."""
        self._heard_round = self._news.round
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
        news, search = self._news, self._search
        news.next_round()
        for suspect in self._failures:
            ready.send.append(Send((suspect,), Subscribe(joining=False)))
        if self._leaving_rounds is not None:
            self.changed = True  # a farewell is sent in every round, however quiet the group is
            if len(news.farewells) <= self._settings.unsubs_max:
                self._leaving_rounds -= 1
            return
        quiet = news.round - self._heard_round
        if quiet and quiet % self._settings.isolation_rounds == 0:
            self._ask([*search.contacts, *self._peers, *self._lost], ready)
        elif news.round % self._settings.reach_rounds == 0:
            self._ask([pid for pid in (*self._lost, *search.contacts) if pid not in self._view], ready)

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
        arrivals = self._news.arrivals
        arrivals.pop(peer, None)
        while len(self._lost) > self._settings.view_size:
            drop_random(self._lost, self.me.pid, self._rng)
        spare = [pid for pid in arrivals if pid not in self._view]
        if spare:
            pid = spare[int(self._rng() * len(spare))]
            self._learn(pid, arrivals[pid].incarnation, arrivals[pid].until - self._news.round)

    def reaches(self, process: Process) -> bool:
        """Tell whether this incarnation of a peer is in the view and has not failed to answer."""
        known = self._view.get(process.pid)
        return known is not None and known.incarnation == process.incarnation and process.pid not in self._failures

    # --- peers that say themselves where they stand ---

    def meet(self, peer: Process) -> None:
        """Add a peer that itself says that it is a member; while joining, add it to the contacts. No rumour of it is
        passed on: it announces itself to everybody."""
        if peer.pid == self.me.pid:
            return
        if self._search.active:
            self._search.add(peer.pid)
            return
        arrivals = self._news.arrivals
        rumoured, changed = peer.pid in arrivals, self.changed
        self._learn(*peer, self._settings.sub_rounds)
        if not rumoured:
            arrivals.pop(peer.pid, None)
            self.changed = changed
        self._shorten()

    def parted(self, peer: Process) -> None:
        """Forget a peer that itself says that it has left, and believe no older rumour of it."""
        changed = self.changed
        self._bid_farewell(*peer, self._settings.farewell_rounds)
        self.changed = changed
        self._shorten()

    # --- asking to be let in ---

    def tick(self, now: Instant, ready: Ready) -> None:
        """Ask the next contact if the last one has not answered in time."""
        retry_at = self._search.retry_at
        if retry_at is not None and now >= retry_at:
            self._search.ask_next(now, ready)

    def alone(self) -> bool:
        """Tell whether so many contacts have not answered that there seems to be no member."""
        return self._search.failed()

    def wake_at(self) -> Instant | None:
        """Return when the next contact is to be asked."""
        return self._search.retry_at

    def view(self) -> tuple[int, ...] | None:
        """Return the peers known now, in order."""
        return tuple(sorted(self._peers))

    def gauges(self) -> list[Gauge]:
        """Return how full the view and its rumours are."""
        settings = self._settings
        return [
            Gauge("view", len(self._view), settings.view_size),
            Gauge("subs", len(self._news.arrivals), settings.subs_max),
            Gauge("unsubs", len(self._news.farewells), settings.unsubs_max + 1),
            Gauge("lost", len(self._lost), settings.view_size),
        ]

    def _ask(self, candidates: list[int], ready: Ready) -> None:
        if candidates:
            ready.send.append(Send((candidates[int(self._rng() * len(candidates))],), Subscribe(joining=False)))

    # --- the view itself ---

    def _learn(self, pid: int, incarnation: int, rounds: int) -> None:
        """Add a peer to the view and to the rumours, unless it is old news, gone, or oneself."""
        if pid == self.me.pid:
            return
        news = self._news
        until = news.round + min(rounds, self._settings.sub_rounds)
        known = self._view.get(pid)
        if known is not None:
            if incarnation == known.incarnation:
                if until > known.until:
                    known.until = until
                return
            if incarnation < known.incarnation:
                return
        if news.farewells and news.has_left(pid, incarnation):
            return
        if known is None:
            self._peers.append(pid)
        self._view[pid] = Known(incarnation, until)
        if len(self._peers) < self._settings.view_size:
            news.arrivals[pid] = Known(incarnation, until)
        self._failures.pop(pid, None)
        self._lost.pop(pid, None)
        self.changed = True

    def _bid_farewell(self, pid: int, incarnation: int, rounds: int) -> None:
        """Forget a peer that left, and pass its farewell on."""
        if pid == self.me.pid or rounds <= 0:
            return
        known = self._view.get(pid)
        has_later = known is not None and known.incarnation > incarnation
        if known is not None and not has_later:
            self._forget(pid)
        self._lost.pop(pid, None)
        self._news.drop_arrival(pid, incarnation)
        if not has_later and self._news.add_farewell(pid, incarnation, rounds):
            self.changed = True

    def _shorten(self) -> None:
        """Keep every list within its bound, dropping at random."""
        while len(self._peers) > self._settings.view_size:
            pid = self._peers[int(self._rng() * len(self._peers))]
            self._forget(pid)
        self._news.shorten()

    def _forget(self, pid: int) -> None:
        del self._view[pid]
        self._peers.remove(pid)
        self._failures.pop(pid, None)

    def _sample(self, count: int) -> bytes:
        view, now = self._view, self._news.round
        peers = self.targets(count)
        return b"".join([NEWS.pack(pid, view[pid].incarnation, max(1, view[pid].until - now)) for pid in peers])
