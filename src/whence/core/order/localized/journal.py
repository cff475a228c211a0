"""The transitions of a member as records of its journal: to play them again is to have the state again.

Law: a record is durable before anything it allows is sent, delivered or acknowledged (section 4.8). Numbers are not
written down: the same transitions in the same order give the same numbers.
"""

from typing import Annotated

from msgspec import Meta, Struct, ValidationError, msgpack

from whence.core.members.overlay import Cells
from whence.core.order.localized.shapes import Numbers, Vectors
from whence.types import Bundle

Step = Annotated[int, Meta(ge=0)]


class Admitted(Struct, frozen=True, tag=1, array_like=True, gc=False):
    """A message was processed for the first time, here or as its publisher."""

    bundle: Bundle
    group: int
    last: int
    h: int
    keys: bytes
    numbers: Numbers
    """Its closed vectors, as a shape and its numbers."""
    extra: Vectors
    grown: Cells
    """What its dependencies added to the past."""


class Renamed(Struct, frozen=True, tag=2, array_like=True, gc=False):
    """A duplicate brought names."""

    pid: int
    boot: int
    first: int
    vectors: Vectors


class Marked(Struct, frozen=True, tag=3, array_like=True, gc=False):
    """Somebody else told which message a number stands for."""

    pid: int
    boot: int
    first: int
    source: int
    number: int


class Forgotten(Struct, frozen=True, tag=4, array_like=True, gc=False):
    """Records were needed no more."""

    uids: list[tuple[int, int, int]]


Entry = Admitted | Renamed | Marked | Forgotten

encode = msgpack.Encoder().encode
_decoder: msgpack.Decoder[Entry] = msgpack.Decoder(Entry)


def decode(record: bytes) -> Entry | None:
    """Read a record; None if it is none of ours."""
    try:
        return _decoder.decode(record)
    except ValidationError:
        return None
