"""Recovery: ask for what is missing, from its publisher (R1), from some members (Rk), or first the one, then the
others.

Promises: no id is asked for twice at a time; a process asks and answers no faster than its token buckets fill, so
newcomers and healed partitions cause no storm; what came lately can be had for as long as it fits the buffer.
The sentence that decides: an event that is no longer gossiped can be recovered while it is in somebody's buffer.
Source: docs/papers/optimistic.md 6.4, 6.5, 7 (Theorems 5.1 and 5.2); traps C8 to C10, C12, C18, C19.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from struct import Struct as Layout
from typing import Annotated

from msgspec import Meta

from whence import limits
from whence.core.clocks.cct import entry_of, epoch_of, number_of
from whence.core.levels.optimistic.missing import Id
from whence.core.ready import Item, Ready, Send
from whence.types import Bundle, Instant, Process, are_valid

_RANGE = Layout("<HIII")
"""Ticket, epoch, first and last number."""

RANGES_MAX = 64
ANSWER_BUNDLES_MAX = 16
"""Bundles in one answer: a receiver that needs more asks again with its next event."""


class Recover(Item, frozen=True, tag=61):
    """Send me these events if you have them: ranges of tickets, epochs and numbers."""

    ranges: Annotated[bytes, Meta(min_length=_RANGE.size, max_length=_RANGE.size * RANGES_MAX)]

    def is_valid(self) -> bool:
        """Tell whether the ranges are whole."""
        return len(self.ranges) % _RANGE.size == 0


class Recovered(Item, frozen=True, tag=62):
    """Here are some of them (ACKRECOVER)."""

    bundles: Annotated[list[Bundle], Meta(min_length=1, max_length=ANSWER_BUNDLES_MAX)]

    def is_valid(self) -> bool:
        """Tell whether every payload has its bytes."""
        return are_valid(self.bundles)

    def bundle_count(self) -> int:
        """Return how many bundles it carries."""
        return len(self.bundles)

    def payload_bytes(self) -> int:
        """Return the bytes that are the application's."""
        return sum([len(bundle.body) for bundle in self.bundles])


class TokenBucket:
    """A number of tokens per round, and no more than a burst at once."""

    def __init__(self, per_round: float, burst: int, round_ns: int) -> None:
        self._rate = per_round / round_ns
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at: Instant | None = None

    def take(self, wanted: int, now: Instant) -> int:
        """Take as many of the wanted tokens as there are; return how many."""
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + max(0, now - self._at) * self._rate)
        self._at = now
        taken = min(wanted, int(self._tokens))
        self._tokens -= taken
        return taken


class RecoveryBuffer:
    """The bundles seen last, each once, by ticket and the entries of their events (the paper's B)."""

    def __init__(self, size: int, bytes_max: int) -> None:
        self.size = size
        self.bytes = 0
        self.bytes_max = bytes_max
        self._bundles: OrderedDict[Id, tuple[int, Bundle]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._bundles)

    def keep(self, ticket: int, before: int, entry: int, bundle: Bundle) -> None:
        """Keep a bundle unless it is kept already; full, the one kept first is dropped."""
        bundles = self._bundles
        if (ticket, entry) in bundles:
            return
        bundles[ticket, entry] = (before, bundle)
        self.bytes += len(bundle.body)
        while len(bundles) > self.size or (self.bytes > self.bytes_max and len(bundles) > 1):
            self.bytes -= len(bundles.popitem(last=False)[1][1].body)

    def find(self, ranges: bytes) -> list[Bundle]:
        """Return the bundles with an event in one of the ranges, as many as one answer takes."""
        wanted = [(ticket, entry_of(epoch, low), entry_of(epoch, high)) for ticket, epoch, low, high in _ranges(ranges)]
        found: list[Bundle] = []
        room = limits.GOSSIP_BYTES_MAX
        for (ticket, entry), (before, bundle) in self._bundles.items():
            if any(ticket == asked and before < high + 1 and entry >= low for asked, low, high in wanted):
                room -= len(bundle.body) + len(bundle.sizes) + len(bundle.stamp) + 32
                if room < 0 or len(found) == ANSWER_BUNDLES_MAX:
                    break
                found.append(bundle)
        return found


class RecoveryRequests:
    """The ids under recovery, and whom to ask for them."""

    def __init__(self, me: Process, mode: str, fan_out: int, bucket: TokenBucket, ids_max: int) -> None:
        self.fan_out = fan_out
        self.mode = mode
        self.targets: Callable[[int], tuple[int, ...]] = lambda _: ()
        """Draws members at random; lent by the membership."""
        self.publisher_of: Callable[[int, int], int | None] = lambda *_: None
        """Knows who published under a ticket and epoch; lent by the delivery."""
        self.ids_max = ids_max
        self._me = me
        self._bucket = bucket
        self._open: dict[Id, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: Id) -> bool:
        return key in self._open

    def ask(self, missing: list[Id], now: Instant, ready: Ready) -> list[Id]:
        """Ask for ids that are not under recovery yet, newest last; return those that were asked for."""
        if self.mode == "none":
            return []
        fresh = [key for key in missing if key not in self._open]
        room = min(len(fresh), self.ids_max - len(self._open), RANGES_MAX)
        asked = fresh[len(fresh) - self._bucket.take(max(0, room), now) :]
        for key in asked:
            self._open[key] = None
        if self.mode == "Rk":
            self._ask_members(asked, ready)
        else:
            self._ask_publishers(asked, ready)
        return asked

    def ask_more(self, asked: list[Id], ready: Ready) -> None:
        """Ask some members for what its publisher did not send (R1+Rk)."""
        self._ask_members([key for key in asked if key in self._open], ready)

    def forget(self, ticket: int, entry: int) -> None:
        """End the recovery of all events of a ticket up to an entry."""
        for key in [key for key in self._open if key[0] == ticket and key[1] <= entry]:
            del self._open[key]

    def drop(self, asked: list[Id]) -> None:
        """End the recovery of these ids."""
        for key in asked:
            self._open.pop(key, None)

    def _ask_publishers(self, asked: list[Id], ready: Ready) -> None:
        by_publisher: dict[int, list[Id]] = {}
        unknown = []
        for ticket, entry in asked:
            publisher = self.publisher_of(ticket, epoch_of(entry))
            if publisher is None or publisher == self._me.pid:
                unknown.append((ticket, entry))
            else:
                by_publisher.setdefault(publisher, []).append((ticket, entry))
        for publisher, keys in by_publisher.items():
            ready.send.append(Send((publisher,), Recover(_as_ranges(keys))))
        self._ask_members(unknown, ready)

    def _ask_members(self, asked: list[Id], ready: Ready) -> None:
        targets = self.targets(self.fan_out) if asked else ()
        if targets:
            ready.send.append(Send(targets, Recover(_as_ranges(asked))))


def _as_ranges(keys: list[Id]) -> bytes:
    """Return ids as ranges: adjacent ones become one."""
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
