"""The items that nodes of a tree exchange. Headers and lists travel packed: see headers.py and core/varint.py.

Source: LoCaMu, section 3.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta, field

from whence import limits
from whence.core.ready import BundleItem, Item
from whence.types import Bundle, Incarnation, PeerId, Seq

HEADER_BYTES_MAX = 1 << 17
"""A whole header has a number for every pair in a neighbourhood: 10,000 in a star of 100 nodes. A tree whose headers
could be larger is refused when a group opens (headers.py)."""

LIST_BYTES_MAX = 1 << 12
"""Bytes of acknowledged or fenced numbers in one item; the rest comes with the next."""

NUMBERS_MAX = 1 << 10
"""Numbers of others that go with a name; where there are more, it goes without."""

HeaderBytes: TypeAlias = Annotated[bytes, Meta(max_length=HEADER_BYTES_MAX)]
ListBytes: TypeAlias = Annotated[bytes, Meta(max_length=LIST_BYTES_MAX)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=limits.SEQ_MAX)]
"""The position of a message among those that one node forwarded to another, from 1 on; 0: none."""


class Copy(BundleItem, frozen=True, tag=70):
    """A message as one forwarder forwarded it: COPY."""

    header: HeaderBytes
    bundle: Bundle


class Trail(Item, frozen=True, tag=71):
    """Further vectors of a message that the receiver has: COPY without payload."""

    header: HeaderBytes
    pid: PeerId
    incarnation: Incarnation
    first: Seq


class Ack(Item, frozen=True, tag=72):
    """All your messages to me up to `upto` are durable and complete here; `rest` lists later ones: ACK.

    Each entry of `rest`: a number, the count of forwarders known here (0: complete), and these forwarders.
    `floor`: all my messages to you up to it are durable at all their targets. You need not keep them for me: FLOOR.
    """

    upto: Number
    rest: ListBytes = b""
    floor: Number = 0


class Named(Item, frozen=True, tag=77):
    """The message to which `source` gave this number for you: IDR, the answer to a Lookup."""

    source: PeerId
    number: Number
    pid: PeerId
    incarnation: Incarnation
    first: Seq
    numbers: Annotated[dict[PeerId, Number], Meta(max_length=NUMBERS_MAX)] = field(default_factory=dict)
    """Those that it gave others, as far as they are known: you name the message to them in your turn."""


class FenceAsk(Item, frozen=True, tag=78):
    """Have you processed these? A source and a number each: FENCE."""

    numbers: ListBytes


class FenceTell(Item, frozen=True, tag=79):
    """I have processed these. `trail`: the highest numbers, by pair, of those messages that I still keep."""

    numbers: ListBytes
    trail: HeaderBytes


class Lost(Item, frozen=True, tag=80):
    """I cannot read your headers of this session any more: start another."""

    session: Annotated[int, Meta(ge=0, le=2**31 - 1)]


# --- questions about what is missing ---


class Ask(Item, frozen=True, tag=73):
    """Send me yourself the messages that you numbered above `above` and up to `upto` for me: NACK."""

    above: Number
    upto: Number


class Probe(Item, frozen=True, tag=74):
    """Acknowledge again what you have of my messages: an acknowledgement may have been lost."""

    number: Number


class Back(Item, frozen=True, tag=75):
    """I am up again, in this epoch of the topology: send me what I lack."""

    epoch: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Lookup(Item, frozen=True, tag=76):
    """Which messages did `source` number above `above` and up to `upto` for me? IDQ."""

    source: PeerId
    above: Number
    upto: Number
