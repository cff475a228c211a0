"""The items that both variants exchange: questions about what is missing."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from whence import limits
from whence.core.ready import Item
from whence.types import PeerId

Number: TypeAlias = Annotated[int, Meta(ge=0, le=limits.SEQ_MAX)]
"""The position of a message among those that one node forwarded to another, from 1 on; 0: none."""


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
