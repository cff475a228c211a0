"""The transitions of a member as records of its journal: to play them again is to have the state again.

Law: a record is durable before anything it allows is sent, delivered or acknowledged. Payloads of others are not
written down, nor that they came: what the application has not taken is fetched again.
"""

from msgspec import DecodeError, Struct, msgpack

from whence.core.levels.causal.group_started import GroupStarted
from whence.errors import StorageError
from whence.types import Bundle


class Published(Struct, frozen=True, tag=1, array_like=True, gc=False):
    """A message of this node's own: its clock, and what the application had taken, which others are told with it."""

    past: list[int]
    taken: list[int]
    bundle: Bundle


class Taken(Struct, frozen=True, tag=2, array_like=True, gc=False):
    """The application has taken so many messages of each node, and others are told."""

    taken: list[int]


class Settled(Struct, frozen=True, tag=3, array_like=True, gc=False):
    """Everybody has this node's own messages up to a number."""

    upto: int


class Checkpoint(Struct, frozen=True, tag=4, array_like=True, gc=False):
    """What all records before it come to; own messages that somebody may lack follow, each as `RetainedMessage`."""

    taken: list[int]
    published: int
    settled: int


class RetainedMessage(Struct, frozen=True, tag=5, array_like=True, gc=False):
    """An own message from before the checkpoint that somebody may lack."""

    past: list[int]
    bundle: Bundle


Entry = GroupStarted | Published | Taken | Settled | Checkpoint | RetainedMessage

encode = msgpack.Encoder().encode
_decoder: msgpack.Decoder[Entry] = msgpack.Decoder(Entry)


def decode(record: bytes) -> Entry:
    """Read a record. Raises StorageError for what is none of ours: nothing that follows it could be trusted."""
    try:
        return _decoder.decode(record)
    except DecodeError as error:
        raise StorageError(f"the journal has a record that no causal group of this kind wrote: {error}") from None
