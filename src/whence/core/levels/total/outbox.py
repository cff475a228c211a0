"""Publications on their way: sent to every merger, and again until acknowledged or too late to matter.

Promises: a publication reaches every merger that can be reached within δ, unless all its copies are lost; after δ it is
given up, because it would only be late. Where the stream passes its place without it, its publisher is told; where
nobody acknowledged it and there is no stream, after a while. What is lost is lost: nobody asks for it again. How much
may be on its way follows from how long acknowledgements take (pace.py).
Costs: one acknowledgement per publication and merger.
"""

from collections.abc import Sequence

from whence.core.clocks.stamp import MergeKey
from whence.core.levels.total.items import NAME, Batch, Offer
from whence.core.levels.total.pace import Pace
from whence.core.ready import Gauge, Item, Ready, Send, Unheard
from whence.types import Bundle, Instant


class Parcel:
    """One publication, who has not acknowledged it, and until when it is worth sending."""

    __slots__ = ("item", "last_tick", "resend_at", "sent_at", "targets", "unheard")

    def __init__(
        self, item: Item, targets: tuple[int, ...], sent_at: Instant, resend_at: Instant, last_tick: int,
        unheard: Bundle | None,
    ) -> None:  # fmt: skip
        self.item = item
        self.unheard = unheard
        """Of what our application must be told if it stays so; None once somebody has it."""
        self.targets = targets
        self.sent_at = sent_at
        self.resend_at = resend_at
        self.last_tick = last_tick


class Outbox:
    """All publications of one process, and those a relay passes on, that somebody has not acknowledged."""

    def __init__(self, resend_ns: int, delta_ns: int, parcels_max: int, doubt_ns: int) -> None:
        self.pace = Pace(delta_ns)
        self._delta_ns = max(resend_ns, delta_ns)
        self._resend_ns = resend_ns
        self._parcels_max = parcels_max
        self._parcels: dict[tuple[int, int, int], Parcel] = {}
        self._doubt_ns = doubt_ns
        self._doubtful: dict[tuple[int, int, int], tuple[Bundle, Instant]] = {}
        """Publications of ours that nobody acknowledged, and when the application is told of them."""
        self._unseen: dict[tuple[int, int, int], tuple[MergeKey, Bundle]] = {}
        """Publications of ours that have not come in the stream, with their places, in this order. Full: the oldest
        goes, which was acknowledged, or is told of in time."""
        self.bytes = 0
        """Of payloads that somebody has not acknowledged."""
        self.given_up = 0
        """Publications that some merger never acknowledged: lost on the way, or refused for a clock that is ahead."""

    def __len__(self) -> int:
        return len(self._parcels)

    def send(
        self, bundle: Bundle, topic: int, targets: tuple[int, ...], now: Instant, last_tick: int, ready: Ready,
        *, own: bool, tell: bool = False, key: MergeKey | None = None,
    ) -> None:  # fmt: skip
        """Send a publication, and keep it to send it again until the clock is past `last_tick`.

        `tell`: nobody has it yet, and if nobody acknowledges it the application must know. `key`: its place in the
        stream that is followed here; if that passes without it, the application must know, too.
        """
        if not targets:
            return
        short = own and topic == 0 and bundle.count == 1
        item: Item = Offer(bundle.first, bundle.stamp, bundle.body) if short else Batch(bundle, topic)
        while len(self._parcels) >= self._parcels_max:
            self._give_up(next(iter(self._parcels)), now, ready)
        name = (bundle.pid, bundle.boot, bundle.first)
        if name in self._parcels:
            self._drop(name)
        self._parcels[name] = Parcel(
            item, targets, now, now + self.pace.resend_ns(self._resend_ns), last_tick, bundle if tell else None
        )
        if key is not None:
            self._unseen[name] = (key, bundle)
            if len(self._unseen) > self._parcels_max:
                del self._unseen[next(iter(self._unseen))]
        self.bytes += item.payload_bytes()
        ready.send.append(Send(targets, item))

    def taken(self, by: int, names: bytes, now: Instant) -> None:
        """Learn what has arrived at a merger."""
        for name in NAME.iter_unpack(names):
            parcel = self._parcels.get(name)  # what comes after δ is of one that was too late
            if parcel is not None and by in parcel.targets:
                parcel.targets = tuple([target for target in parcel.targets if target != by])
                parcel.unheard = None
                if not parcel.targets:
                    self.pace.acknowledged(parcel.sent_at, now, self.bytes)
                    self._drop(name)

    def tick(self, rt: int, now: Instant, last_tick_max: int, ready: Ready) -> None:
        """Send again what is due; give up what is too late, or claims to be worth sending longer than anything is."""
        resend_ns = self.pace.resend_ns(self._resend_ns)
        for name, parcel in list(self._parcels.items()):
            if rt > parcel.last_tick or parcel.last_tick > last_tick_max:
                self._give_up(name, now, ready)
            elif now >= parcel.resend_at or parcel.resend_at > now + self._delta_ns:
                parcel.resend_at = now + resend_ns
                ready.send.append(Send(parcel.targets, parcel.item))
        for name, (_, tell_at) in list(self._doubtful.items()):
            if now >= tell_at or tell_at > now + self._doubt_ns:
                self._tell(name, ready)

    def _give_up(self, name: tuple[int, int, int], now: Instant, ready: Ready) -> None:
        unheard = self._parcels[name].unheard
        self._drop(name)
        self.given_up += 1
        if unheard is not None:
            if len(self._doubtful) >= self._parcels_max:
                self._tell(next(iter(self._doubtful)), ready)
            self._doubtful[name] = (unheard, now + self._doubt_ns)

    def _tell(self, name: tuple[int, int, int], ready: Ready) -> None:
        self._unseen.pop(name, None)
        ready.deliver.append(Unheard(self._doubtful.pop(name)[0]))

    def tell_all(self, ready: Ready) -> None:
        """Tell of everything that nobody is known to have, because nothing more will be heard."""
        for parcel in self._parcels.values():
            if parcel.unheard is not None:
                ready.deliver.append(Unheard(parcel.unheard))
        for name in list(self._doubtful):
            self._tell(name, ready)

    def came(self, bundle: Bundle) -> None:
        """Learn that a publication of ours came in the stream: whether or not a merger said so, it has its place."""
        name = (bundle.pid, bundle.boot, bundle.first)
        self._unseen.pop(name, None)
        self._doubt_no_more(name)

    def passed(self, key: MergeKey, ready: Ready) -> None:
        """Learn how far the stream is: what should have come before, and did not, was left out of it."""
        while self._unseen:
            name, (place, bundle) = next(iter(self._unseen.items()))
            if place >= key:
                return
            del self._unseen[name]
            self._doubt_no_more(name)
            ready.deliver.append(Unheard(bundle))

    def look_no_more(self) -> None:
        """Forget what has not come in the stream: it is not followed any more, or not all of it."""
        self._unseen.clear()

    def _doubt_no_more(self, name: tuple[int, int, int]) -> None:
        self._doubtful.pop(name, None)
        if name in self._parcels:
            self._parcels[name].unheard = None

    def _drop(self, name: tuple[int, int, int]) -> None:
        self.bytes -= self._parcels.pop(name).item.payload_bytes()

    def wake_at(self) -> Instant | None:
        """Return when something is sent again, or told."""
        told = [tell_at for _, tell_at in self._doubtful.values()]
        return min([*[parcel.resend_at for parcel in self._parcels.values()], *told], default=None)

    def spoil(self, last_tick: int) -> None:
        """Claim that everything is worth sending until then: what a fault may do."""
        for parcel in self._parcels.values():
            parcel.last_tick = last_tick

    def gauges(self) -> list[Gauge]:
        """Return how much is on its way."""
        return [Gauge("outbox_bundles", len(self._parcels), self._parcels_max, rests=True)]


def name_of(bundles: Sequence[Bundle]) -> bytes:
    """Return publications' names as an acknowledgement carries them."""
    return b"".join([NAME.pack(bundle.pid, bundle.boot, bundle.first) for bundle in bundles])
