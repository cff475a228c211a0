"""The items of level `total`, with the permanent numbers 20 to 29, and the record of a merger's journal."""

from collections.abc import Sequence
from struct import Struct as Layout
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from whence import limits
from whence.core.clocks.stamp import MergeKey
from whence.core.levels.total.candidates import CANDIDATES_MAX
from whence.core.levels.total.role_table import DEPUTIES_MAX
from whence.core.ready import BundleItem, Item
from whence.types import Bundle, Incarnation, PeerId, Seq, are_valid

STREAM_BUNDLES_MAX = 32
"""Bundles in one piece of a stream: half of what a packet may carry."""

STREAM_BYTES_MAX = 1 << 20
"""Bytes of the bundles in one piece, the first not counted: the largest bundle and this much more fit a packet."""

ACKED_MAX = 64
"""Publications in one acknowledgement."""

KEY_BYTES = 24
_KEY = Layout(">QQQ")
PUBLICATION_ID = Layout("<HIQ")
"""A publication in an acknowledgement: pid, incarnation, number of its first event."""

Stamp: TypeAlias = Annotated[bytes, Meta(max_length=limits.STAMP_BYTES_MAX)]
Body: TypeAlias = Annotated[bytes, Meta(max_length=limits.BUNDLE_BYTES_MAX)]
Topic: TypeAlias = Annotated[int, Meta(ge=0, le=62)]
Topics: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Position: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
Session: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
KeyBytes: TypeAlias = Annotated[bytes, Meta(max_length=KEY_BYTES)]


def key_to_bytes(key: MergeKey | None) -> bytes:
    """Return a key as it is sent: bytes that sort like it; none for None."""
    return b"" if key is None else _KEY.pack(*key)


def key_from_bytes(data: bytes) -> MergeKey | None:
    """Return the key in these bytes."""
    if not data:
        return None
    k_hi, k_mid, k_lo = _KEY.unpack(data)
    return k_hi, k_mid, k_lo


class Offer(Item, frozen=True, array_like=True, tag=20, gc=False):
    """One event of the sender, of topic 0: the shortest form a publication has."""

    first: Seq
    stamp: Stamp
    body: Body

    def bundle_count(self) -> int:
        """Return 1."""
        return 1

    def payload_bytes(self) -> int:
        """Return the size of the event."""
        return len(self.body)


class Batch(BundleItem, frozen=True, array_like=True, tag=21, gc=False):
    """A publication in full: several events, another topic, or passed on by a relay with its origin's stamp."""

    bundle: Bundle
    topic: Topic


class Ack(Item, frozen=True, array_like=True, tag=22, gc=False):
    """These publications have arrived and need not be sent again."""

    ids: Annotated[bytes, Meta(max_length=ACKED_MAX * PUBLICATION_ID.size)]
    late: bool = False
    """They came after their place: they are not in my stream."""

    def is_valid(self) -> bool:
        """Tell whether every id is whole."""
        return len(self.ids) % PUBLICATION_ID.size == 0


class Follow(Item, frozen=True, array_like=True, tag=23, gc=False):
    """Send me your stream after this key; or, in an open session, I am still here and have reached this position."""

    session: Session
    after: KeyBytes
    """The follower's last key; empty: from now on."""
    topics: Topics
    position: Position
    """0 to open the session; else one more than the position the follower has reached."""
    missing_until: Position
    """What lies between the follower's position and this one has not arrived: send it again. 0: nothing is missing."""
    sent_at: Position = 0
    """The follower's clock."""
    steady_ns: Position = 0
    """How long it has heard its stream without interruption."""

    def is_valid(self) -> bool:
        """Tell whether the key is whole."""
        return len(self.after) in (0, KEY_BYTES)


class Opened(Item, frozen=True, array_like=True, tag=24, gc=False):
    """The session's stream starts at this position of mine."""

    session: Session
    position: Position
    whole: bool
    """Nothing is missing between the requested key and the stream."""
    last: KeyBytes
    """Everything from the position on has a larger key. A newcomer that has delivered nothing yet resumes after it."""

    def is_valid(self) -> bool:
        """Tell whether the key is whole."""
        return len(self.last) == KEY_BYTES


class Closed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A process publishes from this number on after this stamp: what my stream has not had of it before never comes."""

    pid: PeerId
    incarnation: Incarnation
    following: Seq
    stamp: Stamp


class Stream(Item, frozen=True, array_like=True, tag=25, gc=False):
    """What I released from one position to another, without the topics you did not ask for; empty: I am still here."""

    topics: Topics
    start: Position
    end: Position
    bundles: Annotated[list[Bundle], Meta(max_length=STREAM_BUNDLES_MAX)]
    closed: Annotated[tuple[Closed, ...], Meta(max_length=STREAM_BUNDLES_MAX)] = ()
    """Where publishers paused; each takes a position too."""

    def is_valid(self) -> bool:
        """Tell whether the positions and the bundles agree."""
        return len(self.bundles) + len(self.closed) <= self.end - self.start and are_valid(self.bundles)

    def bundle_count(self) -> int:
        """Return the number of bundles."""
        return len(self.bundles)

    def payload_bytes(self) -> int:
        """Return the size of all events."""
        return sum([len(bundle.body) for bundle in self.bundles])


class LateBundle(BundleItem, frozen=True, array_like=True, tag=26, gc=False):
    """A bundle that came too late for the stream. Sent once, without acknowledgement."""

    bundle: Bundle
    late_ticks: Position


class Alive(Item, frozen=True, array_like=True, tag=27, gc=False):
    """I am here; what I publish from this number on comes after this stamp."""

    stamp: Stamp
    following: Seq


class Bye(Item, frozen=True, array_like=True, tag=28, gc=False):
    """I leave: look for another merger, or forget me as a follower."""


class Mergers(Item, frozen=True, array_like=True, tag=29, gc=False):
    """These merge and relay, as far as I know; term 0: I do not know, send me your table."""

    term: Position
    mergers: Annotated[list[PeerId], Meta(max_length=limits.MERGERS_MAX)]
    relays: Annotated[list[PeerId], Meta(max_length=limits.MERGERS_MAX)]
    deputies: Annotated[tuple[PeerId, ...], Meta(max_length=DEPUTIES_MAX)] = ()
    """Those that take over if all mergers are silent, in this order."""
    candidates: Annotated[tuple[tuple[PeerId, Position], ...], Meta(max_length=CANDIDATES_MAX)] = ()
    """From one merger to another: the best that follow it, and for how many ns each has heard it steadily."""
    alone: bool = False
    """I hear no merger: if you hear none either, one of us should take over."""

    def is_valid(self) -> bool:
        """Tell whether a known table has mergers, and nobody has two roles."""
        pids = [*self.mergers, *self.relays, *self.deputies]
        return bool(self.term) == bool(self.mergers) and len(set(pids)) == len(pids)


def ids_of(bundles: Sequence[Bundle]) -> bytes:
    """Return the ids of publications as an acknowledgement carries them."""
    return b"".join([PUBLICATION_ID.pack(bundle.pid, bundle.incarnation, bundle.first) for bundle in bundles])


ALL_ITEMS = (Offer, Ack, Stream, Batch, Follow, Opened, LateBundle, Alive, Bye, Mergers)
"""The frequent ones first: each received item is looked up here."""


_JOURNAL = Layout(">QQQQ")


def journal_entry(last: MergeKey, position: int) -> bytes:
    """Return what a merger journals before it releases: its last key and its position after it."""
    return _JOURNAL.pack(*last, position)


def read_journal(record: bytes) -> tuple[MergeKey, int] | None:
    """Return the last key and the position in a record; None if it is of another kind."""
    if len(record) != _JOURNAL.size:
        return None
    k_hi, k_mid, k_lo, position = _JOURNAL.unpack(record)
    return (k_hi, k_mid, k_lo), position
