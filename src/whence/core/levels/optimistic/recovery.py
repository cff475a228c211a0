"""Recovery: ask for what is missing, from its publisher (R1), from some members (Rk), or both, one after the other.

Promises: no id is asked for twice at a time; a process asks and answers no faster than its buckets fill, so that
newcomers and healed partitions cause no storm; what was delivered lately can be had for as long as it fits the buffer.
The sentence that decides: an event that left the spread can be recovered while it is in somebody's buffer.
Source: tickets_twolayer 6.4, 6.5, 7 (Theorems 5.1 and 5.2); traps C8 to C10, C12, C18, C19.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from struct import Struct as Layout
from typing import Annotated

from msgspec import Meta

from whence import limits
from whence.core.clocks.cct import entry_of, epoch_of, number_of
from whence.core.ready import Item, Ready, Send
from whence.types import Bundle, Instant, Process

_RANGE = Layout("<HIII")
"""Ticket, epoch, first and last number."""

RANGES_MAX = 64
ANSWER_BUNDLES_MAX = 16
"""Bundles in one answer: a receiver that needs more asks again with its next event."""


class Recover(Item, frozen=True, tag=61):
    """Send me these events if you have them: ranges of tickets, epochs and numbers."""

    ranges: Annotated[bytes, Meta(min_length=_RANGE.size, max_length=_RANGE.size * RANGES_MAX)]

    def sound(self) -> bool:
        """Tell whether the ranges are whole."""
        return len(self.ranges) % _RANGE.size == 0


class Recovered(Item, frozen=True, tag=62):
    """Here are some of them (ACKRECOVER)."""

    bundles: Annotated[list[Bundle], Meta(min_length=1, max_length=ANSWER_BUNDLES_MAX)]

    def sound(self) -> bool:
        """Tell whether every payload has its bytes."""
        return all(map(Bundle.sound, self.bundles))

    def bundle_count(self) -> int:
        """Return how many bundles it carries."""
        return len(self.bundles)

    def payload_bytes(self) -> int:
        """Return the bytes that are the application's."""
        return sum([len(bundle.body) for bundle in self.bundles])


class Bucket:
    """So many tokens per round, and no more than a burst at once."""

    def __init__(self, per_round: float, burst: int, round_ns: int) -> None:
        self._rate = per_round / round_ns
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at: Instant | None = None

    def take(self, wanted: int, now: Instant) -> int:
        """Return how many of the wanted tokens there are, and take them."""
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + max(0, now - self._at) * self._rate)
        self._at = now
        taken = min(wanted, int(self._tokens))
        self._tokens -= taken
        return taken


class Library:
    """The bundles seen last, each once, by ticket and the entries of their events."""

    def __init__(self, size: int, bytes_max: int) -> None:
        self.size = size
        self.bytes = 0
        self.bytes_max = bytes_max
        self._kept: OrderedDict[tuple[int, int], tuple[int, Bundle]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, ticket: int, before: int, entry: int, bundle: Bundle) -> None:
        """Keep a bundle unless it is kept already; full, the one kept first is dropped."""
        if (ticket, entry) in self._kept:
            return
        kept = self._kept
        kept[ticket, entry] = (before, bundle)
        self.bytes += len(bundle.body)
        while len(kept) > self.size or (self.bytes > self.bytes_max and len(kept) > 1):
            self.bytes -= len(kept.popitem(last=False)[1][1].body)

    def find(self, ranges: bytes) -> list[Bundle]:
        """Return the bundles with an event in one of the ranges, as many as one answer takes."""
        wanted = [(ticket, entry_of(epoch, low), entry_of(epoch, high)) for ticket, epoch, low, high in _ranges(ranges)]
        found: list[Bundle] = []
        room = limits.GOSSIP_BYTES_MAX
        for (ticket, entry), (before, bundle) in self._kept.items():
            if any(ticket == asked and before < high + 1 and entry >= low for asked, low, high in wanted):
                room -= len(bundle.body) + len(bundle.sizes) + len(bundle.stamp) + 32
                if room < 0 or len(found) == ANSWER_BUNDLES_MAX:
                    break
                found.append(bundle)
        return found


class Asking:
    """What is under recovery, and whom to ask for it."""

    def __init__(self, me: Process, mode: str, fan_out: int, bucket: Bucket, ids_max: int) -> None:
        self.fan_out = fan_out
        self.mode = mode
        self.targets: Callable[[int], tuple[int, ...]] = lambda _: ()
        """Draws members at random; lent by the membership."""
        self.source_of: Callable[[int, int], int | None] = lambda *_: None
        """Knows who published under a ticket and epoch; lent by the order."""
        self.ids_max = ids_max
        self._me = me
        self._bucket = bucket
        self._open: dict[tuple[int, int], None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._open

    def first(self, missing: list[tuple[int, int]], now: Instant, ready: Ready) -> list[tuple[int, int]]:
        """Ask for ids (ticket, entry) that are not asked for yet, newest last; return those that were."""
        if self.mode == "none":
            return []
        fresh = [key for key in missing if key not in self._open]
        room = min(len(fresh), self.ids_max - len(self._open), RANGES_MAX)
        asked = fresh[len(fresh) - self._bucket.take(max(0, room), now) :]
        for key in asked:
            self._open[key] = None
        if self.mode == "Rk":
            self._ask_some(asked, ready)
        else:
            self._ask_sources(asked, ready)
        return asked

    def second(self, asked: list[tuple[int, int]], ready: Ready) -> None:
        """Ask some members for what its publisher did not send (R1+Rk)."""
        self._ask_some([key for key in asked if key in self._open], ready)

    def forget(self, ticket: int, entry: int) -> None:
        """End the recovery of all events of a ticket up to an entry."""
        for key in [key for key in self._open if key[0] == ticket and key[1] <= entry]:
            del self._open[key]

    def drop(self, asked: list[tuple[int, int]]) -> None:
        """End the recovery of these ids."""
        for key in asked:
            self._open.pop(key, None)

    def _ask_sources(self, asked: list[tuple[int, int]], ready: Ready) -> None:
        by_source: dict[int, list[tuple[int, int]]] = {}
        unknown = []
        for ticket, entry in asked:
            source = self.source_of(ticket, epoch_of(entry))
            if source is None or source == self._me.pid:
                unknown.append((ticket, entry))
            else:
                by_source.setdefault(source, []).append((ticket, entry))
        for source, keys in by_source.items():
            ready.send.append(Send((source,), Recover(_as_ranges(keys))))
        self._ask_some(unknown, ready)

    def _ask_some(self, asked: list[tuple[int, int]], ready: Ready) -> None:
        targets = self.targets(self.fan_out) if asked else ()
        if targets:
            ready.send.append(Send(targets, Recover(_as_ranges(asked))))


def _as_ranges(keys: list[tuple[int, int]]) -> bytes:
    """Return ids as ranges: neighbours become one."""
    ranges: list[list[int]] = []
    for ticket, entry in sorted(keys):
        epoch, number = epoch_of(entry), number_of(entry)
        if ranges and ranges[-1][:2] == [ticket, epoch] and ranges[-1][3] == number - 1:
            ranges[-1][3] = number
        else:
            ranges.append([ticket, epoch, number, number])
    return b"".join([_RANGE.pack(*each) for each in ranges[-RANGES_MAX:]])


def _ranges(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    return _RANGE.iter_unpack(data)
