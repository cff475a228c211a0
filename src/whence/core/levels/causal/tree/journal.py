"""The records of a node's journal, one per transition: replaying them gives the state again.

Laws: a record is durable before anything that it allows is sent, delivered or acknowledged (E13). The numbers that this
node gives are not written: the same transitions in the same order give the same numbers. A checkpoint replaces
everything before it by one record, and a snapshot of each record that is still kept.
Tags and the order of fields are on disk, and never change.
Source: LoCaMu, section 4.8.
"""

from msgspec import DecodeError, Struct, msgpack

from whence.core.levels.causal.tree.group_started import GroupStarted
from whence.core.levels.causal.tree.id_patterns import Numbers, Vectors
from whence.core.levels.causal.tree.pairs import PairNumbers
from whence.errors import StorageError
from whence.types import Bundle


class MessageProcessed(Struct, frozen=True, tag=1, array_like=True, gc=False):
    """A message was processed for the first time: a first copy, or a publication of this node's own."""

    bundle: Bundle
    group: int
    last: int
    h: int
    keys: bytes
    numbers: Numbers
    """Its closed vectors: `keys` is their packed pattern."""
    extra: Vectors
    grown: PairNumbers
    """The numbers of the past that its dependencies raised."""


class IdsAdded(Struct, frozen=True, tag=2, array_like=True, gc=False):
    """A duplicate brought further vectors of a message."""

    pid: int
    incarnation: int
    first: int
    vectors: Vectors


class IdResolved(Struct, frozen=True, tag=3, array_like=True, gc=False):
    """A third node said which message has a number."""

    pid: int
    incarnation: int
    first: int
    source: int
    number: int


class RecordsForgotten(Struct, frozen=True, tag=4, array_like=True, gc=False):
    """Records were forgotten: complete, and done at all their targets."""

    uids: list[tuple[int, int, int]]


class Checkpoint(Struct, frozen=True, tag=5, array_like=True, gc=False):
    """Everything that was processed so far; the records that are still kept follow."""

    past: PairNumbers
    ahead: dict[int, list[int]]
    unused: int
    """Earlier versions counted here what the application was handed; now core/offsets.py does."""
    seen: list[tuple[int, int, list[int]]]
    """f >= 2: what the fence remembers of other nodes, as pair, prefix and numbers beyond it."""


class RecordSnapshot(Struct, frozen=True, tag=6, array_like=True, gc=False):
    """A record that is still kept at a checkpoint, as its message was forwarded."""

    bundle: Bundle
    group: int
    last: int
    h: int
    keys: bytes
    numbers: Numbers
    mine: Numbers
    extra: Vectors
    deps: PairNumbers


Entry = GroupStarted | MessageProcessed | IdsAdded | IdResolved | RecordsForgotten | Checkpoint | RecordSnapshot

encode = msgpack.Encoder().encode
_decoder: msgpack.Decoder[Entry] = msgpack.Decoder(Entry)


def decode(record: bytes) -> Entry:
    """Read a record. Raises StorageError if it is malformed: nothing that follows it could be trusted."""
    try:
        return _decoder.decode(record)
    except DecodeError as error:
        raise StorageError(f"the journal has a record that no causal group of this kind wrote: {error}") from None
