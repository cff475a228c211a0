"""The messages between nodes of a tree. Headers and lists travel packed: see headers.py and varint.py."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from whence.core.levels.causal.items import Number
from whence.core.ready import Item
from whence.types import Boot, Bundle, PeerId, Seq

HEADER_BYTES_MAX = 1 << 17
"""A header that is sent again names every pair in a neighbourhood: 10,000 of them in a star of 100. Trees whose headers
could be larger are refused when a group opens (headers.py)."""

LIST_BYTES_MAX = 1 << 12
"""Acknowledged or fenced numbers in one item; what does not fit comes with the next."""

Header: TypeAlias = Annotated[bytes, Meta(max_length=HEADER_BYTES_MAX)]
Listed: TypeAlias = Annotated[bytes, Meta(max_length=LIST_BYTES_MAX)]


class Copy(Item, frozen=True, tag=70):
    """A message as one forwarder passed it on: COPY."""

    header: Header
    bundle: Bundle

    def sound(self) -> bool:
        """Tell whether the bundle is one."""
        return self.bundle.sound()

    def bundle_count(self) -> int:
        """Return one."""
        return 1

    def payload_bytes(self) -> int:
        """Return the bundle's bytes."""
        return len(self.bundle.body)


class Trail(Item, frozen=True, tag=71):
    """More names of a message that the receiver has already: COPY without payload."""

    header: Header
    pid: PeerId
    boot: Boot
    first: Seq


class Ack(Item, frozen=True, tag=72):
    """All your messages to me up to `upto` are durable here and need nothing more; `rest` lists later ones.

    Each of the rest: its number, how many forwarders of it are known here (0: nothing more is needed), which.
    `floor`: all my messages to you up to it are durable at all their targets; you need not keep them for me (FLOOR).
    """

    upto: Number
    rest: Listed = b""
    floor: Number = 0


class Named(Item, frozen=True, tag=77):
    """What `source` numbered so for you is this message: IDR."""

    source: PeerId
    number: Number
    pid: PeerId
    boot: Boot
    first: Seq


class FenceAsk(Item, frozen=True, tag=78):
    """Tell me when you have processed these: source and number, for each."""

    numbers: Listed


class FenceAnswer(Item, frozen=True, tag=79):
    """These I have processed; `trail` are the numbers that forwarders gave to those of them I still keep."""

    numbers: Listed
    trail: Header


class Lost(Item, frozen=True, tag=80):
    """I cannot read your headers of this session any more: begin another."""

    session: Annotated[int, Meta(ge=0, le=2**31 - 1)]
