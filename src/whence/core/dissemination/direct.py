"""Direct spread: the publisher sends each bundle at once to every member it knows; digests repair what a link lost.

Promises: while links work, every member of the view gets a bundle one hop after its publication, once. What a broken
link or a crashed publisher left out is pulled from any member that still retains it, a few rounds after that member can
be reached; bundles are retained until `keep_bundles` or `keep_bytes` newer ones came.
Assumes: small groups, whose views hold every member (`view_size` at least the group), over links that rarely lose.
The sentence that decides: each round a member sends some peers a digest: how far it has each sender whose bundles it
retains, and each in its view. A peer that has lacked something of it for a round asks for the rest: the sender, and the
peer that sent the digest, in turn.
Source: ours, for live groups; PrCast (gossip.py) is the choice for large ones, where N copies per bundle cost too much.
Costs per bundle: one copy to each member, no relays; per round, `fanout` digests of 30 bytes for each sender.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from struct import Struct as Layout
from typing import Annotated, Final

from msgspec import Meta, Struct

from whence import limits
from whence.core.dissemination.gossip import BUNDLE_FRAME_BYTES, GossipSettings
from whence.core.dissemination.seen import Seen
from whence.core.dissemination.senders import Senders
from whence.core.membership.items import News, whole
from whence.core.membership.partial_view import PartialView
from whence.core.ready import Gauge, Item, Note, RandomSource, Ready, Send
from whence.errors import SettingError
from whence.limits import Limits
from whence.types import Bundle, Instant, Process, are_valid

HAVE = Layout("<HIQQQ")
"""A sender in a digest: pid, incarnation, and three of its numbers: the first that is kept here, the first after it
that was not seen, and the one from which on all before that were seen. Where none is kept, the first two are equal:
there is nothing to ask for, and the sender learns how far it was seen."""

WANT = Layout("<HIQ")
"""A sender in a question: pid, incarnation, the first number that is missing."""

DIGEST_SENDERS_MAX = 2048

STUCK_MAX = 16
"""Missing numbers of a sender whose age is known. Full: the oldest is forgotten; most likely it has come."""

LOST_MAX = 16
"""Runs of own events that one peer is known to have lost. Full: the oldest is forgotten."""

SPREADS = ("gossip", "direct")


class Push(Item, frozen=True, tag=116):
    """Bundles, directly from their publisher or as the answer to a Want."""

    bundles: Annotated[list[Bundle], Meta(min_length=1, max_length=limits.PACKET_BUNDLES_MAX)]

    def is_valid(self) -> bool:
        """Tell whether every payload has its bytes."""
        return are_valid(self.bundles)

    def bundle_count(self) -> int:
        """Return the number of bundles it carries."""
        return len(self.bundles)

    def payload_bytes(self) -> int:
        """Return the bytes that are the application's."""
        return sum([len(bundle.body) for bundle in self.bundles])


class Have(Item, frozen=True, tag=117):
    """How far I have each sender whose bundles I retain or whom I know, and news of the membership."""

    senders: Annotated[bytes, Meta(max_length=HAVE.size * DIGEST_SENDERS_MAX)]
    subs: News
    unsubs: News

    def is_valid(self) -> bool:
        """Tell whether digest and news are whole."""
        return _is_digest(self.senders, HAVE.size) and whole(self.subs) and whole(self.unsubs)


class Want(Item, frozen=True, tag=118):
    """Send me what you retain of these senders, from these numbers on."""

    senders: Annotated[bytes, Meta(max_length=WANT.size * DIGEST_SENDERS_MAX)]

    def is_valid(self) -> bool:
        """Tell whether the question is whole."""
        return _is_digest(self.senders, WANT.size)


def _is_digest(packed: bytes, size: int) -> bool:
    """Tell whether a digest is whole entries whose incarnations fit 31 bits: no top byte of one has its top bit set."""
    return len(packed) % size == 0 and packed[5::size].isascii()


EVERYBODY_KNOWN: Final[dict[str, object]] = {
    "spread": "direct", "view_size": limits.VIEW_MAX, "subs_max": limits.VIEW_MAX, "unsubs_max": limits.VIEW_MAX,
    "join_tries_max": 100,
}  # fmt: skip
"""Settings of live groups that may gossip: a member that sends to everybody must know everybody. And a process that is
connected to a member keeps asking it: a busy member answers late."""


class DirectSettings(Struct, frozen=True, kw_only=True):
    """How a bundle gets to the members, and how much is retained to repair losses."""

    spread: str = "gossip"
    """`gossip` (any size of group, latency of rounds) or `direct` (small live groups, latency of one hop)."""
    keep_bundles: int = 1024
    """Bundles retained for members that missed them. Full: the oldest is forgotten."""
    keep_bytes: int = 4 << 20
    """Their bytes. At least what the whole group publishes in a few rounds. Full: the oldest is forgotten."""
    mend_bytes: int = 1 << 20
    """Bytes sent in answer to one Want; the rest is asked for again."""

    def __post_init__(self) -> None:
        if self.spread not in SPREADS:
            raise SettingError(f"spread must be gossip or direct, not {self.spread!r}")
        for name in ("keep_bundles", "keep_bytes", "mend_bytes"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, not {getattr(self, name)}")


class SenderHistory:
    """What is known of one process: the numbers seen, and the bundles retained, oldest first."""

    __slots__ = ("asked", "asked_round", "bundles", "retained_there", "seen", "stuck")

    def __init__(self) -> None:
        self.seen = Seen()
        self.bundles: deque[Bundle] = deque()
        self.retained_there = 1
        """The first number that the sender itself keeps, as it last said."""
        self.asked_round = -1
        self.asked = 0
        self.stuck: dict[int, int] = {}
        """Where holes begin that peers could have filled, and since which round. Peers that keep bundles from different
        numbers on tell of different ones."""

    def missing(self, start: int = 1) -> int:
        """Return the first number from `start` on that was not seen."""
        seen = self.seen
        at = bisect_right(seen.firsts, start)
        return seen.lasts[at - 1] + 1 if at and seen.lasts[at - 1] >= start else start

    def hole_start(self, missing: int) -> int:
        """Return the first number of the hole that this one is in."""
        at = bisect_right(self.seen.firsts, missing)
        return self.seen.lasts[at - 1] + 1 if at else 1

    def digest_from(self) -> int:
        """Return the number that a digest begins with: the first that is kept here.

        Where the sender has forgotten that and this member has what the sender still keeps, it begins there: what lies
        between may be gone for good, and would hide from the sender that everything later is here.
        """
        first, retained_there = self.bundles[0].first, self.retained_there
        return retained_there if first < retained_there < self.missing(retained_there) else first

    def digest_entry(self) -> tuple[int, int, int] | None:
        """Return what a digest says of this sender; None if nothing that it may still keep was seen.

        A rare sender beside a busy one is named when its bundles are kept no longer: its publications would settle
        only with the next one.
        """
        if self.bundles:
            first = self.digest_from()
            return first, self.missing(first), self.run_start(first)
        end = self.hole_start(self.missing(self.retained_there))
        return (end, end, self.run_start(end - 1)) if end > 1 else None

    def run_start(self, seen: int) -> int:
        """Return the number from which on everything up to this one, which was seen, was seen."""
        return self.seen.firsts[bisect_right(self.seen.firsts, seen) - 1]


class Acknowledged:
    """What one incarnation of a peer reports to have of this member's events: all before `end` but what it lost.

    A run of events counts when nothing that is still kept here is missing before it. What is kept no longer is not
    waited for: a peer that joined after it was published never had it, and any other has lost it.
    """

    __slots__ = ("began", "end", "incarnation", "lost")

    def __init__(self, incarnation: int, began: int) -> None:
        self.incarnation = incarnation
        self.began = began
        """The first event it told of. It joined too late for what was before."""
        self.end = 1
        self.lost: list[tuple[int, int]] = []
        """Runs that it lost: the first number of each, and the first after it."""

    def add(self, start: int, end: int, retained: int) -> None:
        """Take in that it has the events from `start` until before `end`; those from `retained` on are still here."""
        self.lost = [(first, past) for first, past in self.lost if first < start or end < past]
        if start > max(self.end, retained):
            return
        lost = max(self.end, self.began)
        if lost < start:
            self.lost = [*self.lost, (lost, start)][-LOST_MAX:]
        self.end = max(self.end, end)

    def has(self, number: int) -> bool:
        """Tell whether it has this event, or joined too late for it."""
        return number < self.end and not any(first <= number < past for first, past in self.lost)


class DirectSpread:
    """Send to all at once; retain for a while; repair by digests."""

    def __init__(
        self,
        members: PartialView,
        gossip: GossipSettings,
        settings: DirectSettings,
        bounds: Limits,
        rng: RandomSource,
        start: Instant,
    ) -> None:
        self._members = members
        self._gossip = gossip
        self._settings = settings
        self._limits = bounds
        self._rng = rng
        self._next_round = start + int(rng() * gossip.round_ns)
        self._round = 0
        self._digest_round = 0
        self._senders: Senders[SenderHistory] = Senders(bounds, SenderHistory)
        self._own = self._senders.open(*members.me)
        self._retained_order: deque[tuple[int, int]] = deque()
        """The sender of every bundle retained, oldest first."""
        self._retained_bytes = 0
        self._acknowledged: dict[int, Acknowledged] = {}

    def publish(self, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Send the member's own bundle to every member of the view."""
        self._take(bundle, ready)
        everybody = self._members.targets(limits.VIEW_MAX)
        if everybody:
            ready.send.append(Send(everybody, Push([bundle])))

    def receive(self, sender: Process, item: Item, now: Instant, ready: Ready) -> list[Bundle]:
        """Take bundles, or repair what the peer or this member lacks; return the bundles seen for the first time."""
        if isinstance(item, Push):
            return [bundle for bundle in item.bundles if self._take(bundle, ready)]
        if isinstance(item, Have):
            self._members.hear(sender, item.subs, item.unsubs)
            self._compare(sender, item, ready)
        elif isinstance(item, Want):
            self._answer(sender, item, ready)
        else:
            ready.notes.append(Note("reject", "not_direct", peer=sender.pid))
        return []

    def tick(self, now: Instant, ready: Ready) -> None:
        """Send a digest to some peers, or to all of them if there is news of the membership."""
        if now < self._next_round:
            return
        gossip = self._gossip
        length_ns = int(gossip.round_ns * (1.0 + gossip.jitter * (2.0 * self._rng() - 1.0)))
        due = self._next_round + length_ns
        self._next_round = due if due > now else now + length_ns
        self._round += 1
        news = self._members.changed
        self._members.next_round(ready)
        active = bool(self._retained_order) or news or self._members.changed
        if not active and self._round - self._digest_round < gossip.idle_rounds:
            return
        targets = self._members.targets(limits.VIEW_MAX if news else gossip.fanout)
        if targets:
            self._digest_round = self._round
            subs, unsubs = self._members.news()
            ready.send.append(Send(targets, Have(self._digest(), subs, unsubs)))

    def wake_at(self) -> Instant | None:
        """Return when the next round is due."""
        return self._next_round

    def gauges(self) -> list[Gauge]:
        """Return how much is retained."""
        settings = self._settings
        return [
            Gauge("kept_bundles", len(self._retained_order), settings.keep_bundles),
            Gauge("kept_bytes", self._retained_bytes, settings.keep_bytes + limits.BUNDLE_BYTES_MAX),
            Gauge("kept_senders", len(self._senders), self._limits.senders_max),
        ]

    def settled(self) -> int | None:
        """Return the last of the member's own events up to which no peer in its view can still be given any."""
        ends = [peer.end if peer is not None else 1 for _, peer in self._acknowledgements()]
        return min([self._own.missing(), *ends]) - 1

    def missing(self, last: int) -> tuple[int, ...] | None:
        """Return the peers in the member's view that have not said to have this event of its own."""
        return tuple(pid for pid, peer in self._acknowledgements() if peer is None or not peer.has(last))

    def _acknowledgements(self) -> Iterator[tuple[int, Acknowledged | None]]:
        for pid in self._members.targets(limits.VIEW_MAX):
            yield pid, self._acknowledged.get(pid)

    def _take(self, bundle: Bundle, ready: Ready) -> bool:
        """Remember and retain a bundle; return False if it was seen before or cannot be remembered."""
        history = self._senders.states.get((bundle.pid, bundle.incarnation))
        if history is None:
            history = self._open(bundle.pid, bundle.incarnation)
            if history is None:
                ready.notes.append(Note("drop", "senders_max", bundle))
                return False
        last = bundle.first + (len(bundle.sizes) >> 2) - 1
        if not history.seen.add(bundle.first, last, self._limits.spans_per_sender_max):
            ready.notes.append(Note("drop", "duplicate", bundle))
            return False
        history.bundles.append(bundle)
        self._retained_order.append((bundle.pid, bundle.incarnation))
        self._retained_bytes += len(bundle.body)
        settings = self._settings
        while len(self._retained_order) > settings.keep_bundles or self._retained_bytes > settings.keep_bytes:
            self._forget_oldest()
        return True

    def _open(self, pid: int, incarnation: int) -> SenderHistory | None:
        if self._senders.refuses(pid, incarnation) is not None:
            return None
        crowded_out = self._senders.crowded_out(pid)
        if crowded_out is not None:
            closing = self._senders.states.get(crowded_out)
            self._retained_bytes -= sum([len(bundle.body) for bundle in closing.bundles]) if closing is not None else 0
            self._senders.close(crowded_out)
        return self._senders.open(pid, incarnation)

    def _forget_oldest(self) -> None:
        history = self._senders.states.get(self._retained_order.popleft())
        if history is not None and history.bundles:
            self._retained_bytes -= len(history.bundles.popleft().body)

    def _digest(self) -> bytes:
        entries, me = [], self._members.me
        for process, history in self._senders:
            if history.bundles or process == me or self._members.reaches(process):
                entry = history.digest_entry()
                entries += [HAVE.pack(*process, *entry)] if entry is not None else []
        return b"".join(entries[:DIGEST_SENDERS_MAX])

    def _compare(self, sender: Process, have: Have, ready: Ready) -> None:
        """Ask for what the peer has and this member has lacked for a round, each sender at most once a round.

        The sender itself is asked first, if it is in reach: then no other peer need be believed. Next time, the peer.
        """
        wanted = []
        for pid, incarnation, first, end, start in HAVE.iter_unpack(have.senders):
            if (pid, incarnation) == self._members.me:
                self._acknowledge(sender, start, end)
                continue
            history = self._senders.states.get((pid, incarnation)) or self._open(pid, incarnation)
            if history is None or not 1 <= first <= limits.SEQ_MAX:
                continue
            if (pid, incarnation) == sender:
                history.retained_there = first
            if history.asked_round == self._round:
                continue
            missing = history.missing(first)
            if missing < end and missing <= limits.SEQ_MAX and self._is_stuck(history, missing):
                history.asked_round = self._round
                history.asked += 1
                want = WANT.pack(pid, incarnation, missing)
                if history.asked % 2 and pid != sender.pid and self._members.reaches(Process(pid, incarnation)):
                    ready.send.append(Send((pid,), Want(want), incarnation))
                else:
                    wanted.append(want)
        if wanted:
            ready.send.append(Send((sender.pid,), Want(b"".join(wanted)), sender.incarnation))

    def _acknowledge(self, sender: Process, start: int, end: int) -> None:
        peer = self._acknowledged.get(sender.pid)
        if peer is None or peer.incarnation < sender.incarnation:
            peer = self._acknowledged[sender.pid] = Acknowledged(sender.incarnation, start)
            if len(self._acknowledged) > limits.VIEW_MAX:
                del self._acknowledged[next(iter(self._acknowledged))]
        if peer.incarnation == sender.incarnation:
            own = self._own
            peer.add(start, end, own.bundles[0].first if own.bundles else own.missing())

    def _is_stuck(self, history: SenderHistory, missing: int) -> bool:
        """Tell whether the same hole was there a round ago: what is still on its way is not asked for.

        A hole is known by where it begins: in a busy group, what a peer can still give of it begins later each time.
        """
        since = history.stuck.setdefault(history.hole_start(missing), self._round)
        if len(history.stuck) > STUCK_MAX:
            del history.stuck[next(iter(history.stuck))]
        return since < self._round

    def _answer(self, sender: Process, want: Want, ready: Ready) -> None:
        """Send what is kept of what the peer lacks, in as many items as it takes: a newcomer to a busy group lacks all
        that is kept, and until it has it nothing newer is settled."""
        room = self._settings.mend_bytes
        chosen: list[Bundle] = []
        for pid, incarnation, missing in WANT.iter_unpack(want.senders):
            history = self._senders.states.get((pid, incarnation))
            for bundle in history.bundles if history is not None else ():
                if bundle.last >= missing and (room > 0 or not chosen):
                    room -= len(bundle.body) + len(bundle.sizes) + len(bundle.stamp) + BUNDLE_FRAME_BYTES
                    chosen.append(bundle)
        for start in range(0, len(chosen), limits.PACKET_BUNDLES_MAX):
            some = chosen[start : start + limits.PACKET_BUNDLES_MAX]
            ready.send.append(Send((sender.pid,), Push(some), sender.incarnation))
