"""The transitions of a member as records of its journal: to play them again is to have the state again.

Law: a record is durable before anything it allows is sent, delivered or acknowledged. Numbers are not written down: the
same transitions in the same order give the same numbers.
"""

from msgspec import Struct, ValidationError, msgpack

from whence.types import Bundle


class Published(Struct, frozen=True, tag=1, array_like=True, gc=False):
    """A message of this node's own: it comes after all that was written down before."""

    bundle: Bundle


class Processed(Struct, frozen=True, tag=2, array_like=True, gc=False):
    """The next message of another node."""

    bundle: Bundle


class Settled(Struct, frozen=True, tag=3, array_like=True, gc=False):
    """Everybody has this node's own messages up to a number."""

    upto: int


class Checkpoint(Struct, frozen=True, tag=4, array_like=True, gc=False):
    """What all records before it come to; own messages that somebody may lack follow, each as `Kept`."""

    reached: list[int]
    settled: int
    steps: int
    """Steps handed to the application."""


class Kept(Struct, frozen=True, tag=5, array_like=True, gc=False):
    """An own message from before the checkpoint that somebody may lack."""

    past: list[int]
    bundle: Bundle


Entry = Published | Processed | Settled | Checkpoint | Kept

encode = msgpack.Encoder().encode
_decoder: msgpack.Decoder[Entry] = msgpack.Decoder(Entry)


def decode(record: bytes) -> Entry | None:
    """Read a record; None if it is none of ours."""
    try:
        return _decoder.decode(record)
    except ValidationError:
        return None
