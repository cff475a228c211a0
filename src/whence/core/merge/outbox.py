"""Publications on their way: sent to every merger, and again until acknowledged or too late to matter.

Promises: a publication reaches every merger that can be reached within δ, unless all its copies are lost; after δ it is
given up, because it would only be late. What is lost is lost: nobody asks for it again. How much may be on its way
follows from how long acknowledgements take (pace.py).
Costs: one acknowledgement per publication and merger.
"""

from collections.abc import Sequence

from whence.core.merge.items import NAME, Batch, Offer
from whence.core.merge.pace import Pace
from whence.core.ready import Gauge, Item, Ready, Send
from whence.types import Bundle, Instant


class Parcel:
    """One publication, who has not acknowledged it, and until when it is worth sending."""

    __slots__ = ("item", "last_tick", "resend_at", "sent_at", "targets")

    def __init__(
        self, item: Item, targets: tuple[int, ...], sent_at: Instant, resend_at: Instant, last_tick: int
    ) -> None:
        self.item = item
        self.targets = targets
        self.sent_at = sent_at
        self.resend_at = resend_at
        self.last_tick = last_tick


class Outbox:
    """All publications of one process, and those a relay passes on, that somebody has not acknowledged."""

    def __init__(self, resend_ns: int, delta_ns: int, parcels_max: int) -> None:
        self.pace = Pace(delta_ns)
        self._delta_ns = max(resend_ns, delta_ns)
        self._resend_ns = resend_ns
        self._parcels_max = parcels_max
        self._parcels: dict[tuple[int, int, int], Parcel] = {}
        self.bytes = 0
        """Of payloads that somebody has not acknowledged."""
        self.given_up = 0
        """Publications that some merger never acknowledged: lost on the way, or refused for a clock that is ahead."""

    def __len__(self) -> int:
        return len(self._parcels)

    def send(
        self, bundle: Bundle, topic: int, targets: tuple[int, ...], now: Instant, last_tick: int, ready: Ready,
        *, own: bool,
    ) -> None:  # fmt: skip
        """Send a publication, and keep it to send it again until the clock is past `last_tick`."""
        if not targets:
            return
        short = own and topic == 0 and bundle.count == 1
        item: Item = Offer(bundle.first, bundle.stamp, bundle.body) if short else Batch(bundle, topic)
        while len(self._parcels) >= self._parcels_max:
            self._drop(next(iter(self._parcels)))
            self.given_up += 1
        name = (bundle.pid, bundle.boot, bundle.first)
        if name in self._parcels:
            self._drop(name)
        self._parcels[name] = Parcel(item, targets, now, now + self.pace.resend_ns(self._resend_ns), last_tick)
        self.bytes += item.payload_bytes()
        ready.send.append(Send(targets, item))

    def taken(self, by: int, names: bytes, now: Instant) -> None:
        """Learn what has arrived at a merger."""
        for name in NAME.iter_unpack(names):
            parcel = self._parcels.get(name)
            if parcel is not None and by in parcel.targets:
                parcel.targets = tuple([target for target in parcel.targets if target != by])
                if not parcel.targets:
                    self.pace.acknowledged(parcel.sent_at, now, self.bytes)
                    self._drop(name)

    def tick(self, rt: int, now: Instant, last_tick_max: int, ready: Ready) -> None:
        """Send again what is due; give up what is too late, or claims to be worth sending longer than anything is."""
        resend_ns = self.pace.resend_ns(self._resend_ns)
        for name, parcel in list(self._parcels.items()):
            if rt > parcel.last_tick or parcel.last_tick > last_tick_max:
                self._drop(name)
                self.given_up += 1
            elif now >= parcel.resend_at or parcel.resend_at > now + self._delta_ns:
                parcel.resend_at = now + resend_ns
                ready.send.append(Send(parcel.targets, parcel.item))

    def _drop(self, name: tuple[int, int, int]) -> None:
        self.bytes -= self._parcels.pop(name).item.payload_bytes()

    def wake_at(self) -> Instant | None:
        """Return when something is sent again."""
        return min([parcel.resend_at for parcel in self._parcels.values()], default=None)

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
