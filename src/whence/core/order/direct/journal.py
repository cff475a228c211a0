"""The transitions of a member as records of its journal: to play them again is to have the state again.

Laws: a record is durable before anything it allows is sent, delivered or acknowledged. Numbers and clocks are not
written down: the same transitions in the same order give the same. Nor are the payloads of others: only in which order
they were handed to the application, so that its count of taken events tells which; the rest is fetched again.
"""

from msgspec import Struct, ValidationError, msgpack

from whence.types import Bundle


class Published(Struct, frozen=True, tag=1, array_like=True, gc=False):
    """A message of this node's own: it comes after all that was written down before, and is handed out at once."""

    bundle: Bundle
    taken: int
    """How many events the application had taken in all lives: others are told with the message."""


class Handed(Struct, frozen=True, tag=2, array_like=True, gc=False):
    """The next message of another node, or an own one again after a crash, was handed out: so many events."""

    node: int
    events: int


class Taken(Struct, frozen=True, tag=3, array_like=True, gc=False):
    """The application has taken so many events in all lives, and others are told."""

    taken: int


class Settled(Struct, frozen=True, tag=4, array_like=True, gc=False):
    """Everybody has this node's own messages up to a number."""

    upto: int


class Resumed(Struct, frozen=True, tag=5, array_like=True, gc=False):
    """A life began: what the application had not taken by then is not here any more."""

    reached: list[int]
    taken: int


class Checkpoint(Struct, frozen=True, tag=6, array_like=True, gc=False):
    """What all records before it come to. What was handed and not taken follows in order, then own messages that
    somebody may lack, each as `Kept`."""

    has: list[int]
    published: int
    settled: int
    taken: int


class Kept(Struct, frozen=True, tag=7, array_like=True, gc=False):
    """An own message from before the checkpoint that somebody may lack."""

    past: list[int]
    bundle: Bundle


Entry = Published | Handed | Taken | Settled | Resumed | Checkpoint | Kept

encode = msgpack.Encoder().encode
_decoder: msgpack.Decoder[Entry] = msgpack.Decoder(Entry)


def decode(record: bytes) -> Entry | None:
    """Read a record; None if it is none of ours."""
    try:
        return _decoder.decode(record)
    except ValidationError:
        return None
