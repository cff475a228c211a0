"""The nouns of Whence. No behaviour beyond naming, slicing and comparing.

A *process* is (pid, incarnation): a restarted process is a new process, because what was in its memory is gone.
An *event* is (pid, incarnation, seq). A *bundle* is the unit that travels: events one member published in the same
causal state, with consecutive numbers, one stamp and their payloads packed in one body.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from struct import Struct as Layout
from struct import iter_unpack, pack, unpack
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta, Struct

from whence import limits

Instant: TypeAlias = int
"""Nanoseconds on the process's own clock."""

PeerId: TypeAlias = Annotated[int, Meta(ge=0, le=limits.PEER_ID_MAX)]
Incarnation: TypeAlias = Annotated[int, Meta(ge=0, le=limits.INCARNATION_MAX)]
Seq: TypeAlias = Annotated[int, Meta(ge=1, le=limits.SEQ_MAX)]
GroupId: TypeAlias = Annotated[str, Meta(max_length=limits.GROUP_NAME_CHARS_MAX)]

ANY_INCARNATION = 0
"""Addressed to whichever incarnation answers. Real incarnations start at 1."""


class Level(StrEnum):
    """How strongly a group's deliveries are ordered, weakest first; then the rivals we measure against."""

    EVENTUAL = "eventual"
    FIFO = "fifo"
    OPTIMISTIC = "optimistic"
    CAUSAL = "causal"
    TOTAL = "total"
    CBCAST = "cbcast"
    BARRIERS = "barriers"
    NEIGHBOURHOOD = "neighbourhood"
    VCUBE = "vcube"
    SCRIBE = "scribe"
    GRYPHON = "gryphon"
    PLUMTREE = "plumtree"
    THICKET = "thicket"


class Process(NamedTuple):
    """One incarnation of one peer."""

    pid: int
    incarnation: int


class EventId(NamedTuple):
    """The publisher's pid and incarnation, and the number of the event among those it published, from 1 on."""

    pid: int
    incarnation: int
    seq: int

    @property
    def boot(self) -> int:
        """Return the incarnation, under its former name."""
        return self.incarnation


class Bundle(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Events first, first+1, … of one process, published in one causal state: one stamp, many payloads.

    `sizes` holds one little-endian u32 per payload and `body` the payloads end to end. They stay packed until the
    application takes them, so that holding back or forwarding a bundle never touches its events one by one.
    """

    pid: PeerId
    incarnation: Incarnation
    first: Seq
    sizes: Annotated[bytes, Meta(min_length=4, max_length=4 * limits.BUNDLE_EVENTS_MAX)]
    body: Annotated[bytes, Meta(max_length=limits.BUNDLE_BYTES_MAX)]
    stamp: Annotated[bytes, Meta(max_length=limits.STAMP_BYTES_MAX)] = b""

    @property
    def count(self) -> int:
        """Return the number of events in this bundle."""
        return len(self.sizes) >> 2

    @property
    def last(self) -> int:
        """Return the number of its last event."""
        return self.first + (len(self.sizes) >> 2) - 1

    @property
    def process(self) -> Process:
        """Return the process that published it."""
        return Process(self.pid, self.incarnation)

    def is_valid(self) -> bool:
        """Tell whether the sizes add up to the body, and the last event's number is in range."""
        sizes = self.sizes
        if len(sizes) == 4:
            return int.from_bytes(sizes, "little") == len(self.body)
        if len(sizes) & 3 or self.last > limits.SEQ_MAX:
            return False
        if _even(sizes):
            return int.from_bytes(sizes[:4], "little") * self.count == len(self.body)
        # Summed one by one: as a tuple, the sizes of a hostile bundle would take ten times their bytes.
        total: int = sum(chain.from_iterable(iter_unpack("<I", sizes)))
        return total == len(self.body)

    def payloads(self) -> list[bytes]:
        """Unpack the payloads, in the order they were published."""
        body = self.body
        if len(self.sizes) == 4:
            return [body]
        if _even(self.sizes):
            return _cut_evenly(body, int.from_bytes(self.sizes[:4], "little"), self.count)
        return [body[start:end] for start, end in pairwise(accumulate(self.each_size(), initial=0))]

    def each_size(self) -> tuple[int, ...]:
        """Return the size of each payload in bytes."""
        return unpack(f"<{self.count}I", self.sizes)

    def cut_before(self, seq: int) -> "Bundle":
        """Return the part of this bundle from event `seq` on; `seq` must lie inside it."""
        gone = seq - self.first
        skipped_bytes = sum(self.each_size()[:gone])
        return Bundle(self.pid, self.incarnation, seq, self.sizes[4 * gone :], self.body[skipped_bytes:], self.stamp)


def are_valid(bundles: Sequence[Bundle]) -> bool:
    """Tell whether every bundle is valid. Most carry one event, and those are checked here without a call."""
    for bundle in bundles:
        sizes = bundle.sizes
        if (len(sizes) != 4 or int.from_bytes(sizes, "little") != len(bundle.body)) and not bundle.is_valid():
            return False
    return True


def _even(sizes: bytes) -> bool:
    """Tell whether all sizes are the same: then a bundle is checked and cut many times faster."""
    piece = 4096  # compared in pieces: a hostile bundle must not make us copy all its sizes
    pattern = sizes[:4] * min(piece // 4, len(sizes) >> 2)
    if len(sizes) <= piece:
        return sizes == pattern
    return all(pattern.startswith(sizes[at : at + piece]) for at in range(0, len(sizes), piece))


CUT_AT_ONCE = 1024
"""Layouts are cached, and one for more payloads would be large."""


def _cut_evenly(body: bytes, size: int, count: int) -> list[bytes]:
    """Cut payloads of one size, as many at once as a power of two: few layouts serve bundles of any length."""
    payloads: list[bytes] = []
    at = 0
    while count:
        taken = CUT_AT_ONCE if count >= CUT_AT_ONCE else 1 << count.bit_length() - 1
        payloads += _cutter(size, taken).unpack_from(body, at)
        at += taken * size
        count -= taken
    return payloads


@lru_cache(128)
def _cutter(size: int, count: int) -> Layout:
    """Return the layout that cuts `count` payloads of one size."""
    return Layout(f"{size}s" * count)


def packed(process: Process, first: int, payloads: Sequence[bytes], stamp: bytes = b"") -> Bundle:
    """Pack payloads into a bundle whose first event is numbered `first`."""
    sizes, body = pack_payloads(payloads)
    return Bundle(process.pid, process.incarnation, first, sizes, body, stamp)


def pack_payloads(payloads: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return payloads as a bundle holds them, their sizes and their body; each is visited once."""
    lengths = list(map(len, payloads))
    if lengths and lengths.count(lengths[0]) == len(lengths):
        sizes = lengths[0].to_bytes(4, "little") * len(lengths)
    else:
        sizes = pack(f"<{len(lengths)}I", *lengths)
    return sizes, b"".join(payloads)


class Span(NamedTuple):
    """The events first … last of one process, both included."""

    pid: int
    incarnation: int
    first: int
    last: int
