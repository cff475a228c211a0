"""The transitions of a member as records of its journal: replaying them restores the state.

Law: a record is durable before anything it allows is sent, delivered or acknowledged. Neither payloads of others nor
their arrival are persisted: what the application has not taken is fetched again.
"""

from msgspec import DecodeError, Struct, msgpack

from whence.core.levels.causal.group_started import GroupStarted
from whence.errors import StorageError
from whence.types import Bundle


class Published(Struct, frozen=True, tag=1, array_like=True, gc=False):
    """An own message of this node: its clock, and what the application had taken, which it acknowledges to others."""

    past: list[int]
    taken: list[int]
    bundle: Bundle


class Taken(Struct, frozen=True, tag=2, array_like=True, gc=False):
    """The number of messages of each node that the application has taken, which is acknowledged to others."""

    taken: list[int]


class Settled(Struct, frozen=True, tag=3, array_like=True, gc=False):
    """Every member has this node's own messages up to a number."""

    upto: int


class Checkpoint(Struct, frozen=True, tag=4, array_like=True, gc=False):
    """The state after all records before it; own messages that some member may lack follow as `RetainedMessage`."""

    taken: list[int]
    published: int
    settled: int


class RetainedMessage(Struct, frozen=True, tag=5, array_like=True, gc=False):
    """An own message from before the checkpoint that some member may lack."""

    past: list[int]
    bundle: Bundle


Entry = GroupStarted | Published | Taken | Settled | Checkpoint | RetainedMessage

encode = msgpack.Encoder().encode
_decoder: msgpack.Decoder[Entry] = msgpack.Decoder(Entry)


def decode(record: bytes) -> Entry:
    """Return the entry in a record. Raises StorageError for an unknown record: nothing after it could be trusted."""
    try:
        return _decoder.decode(record)
    except DecodeError as error:
        raise StorageError(f"the journal has a record that no causal group of this kind wrote: {error}") from None
