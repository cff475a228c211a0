"""The transitions of a member as records of its journal: to play them again is to have the state again.

Law: a record is durable before anything it allows is sent, delivered or acknowledged (section 4.8). Numbers are not
written down: the same transitions in the same order give the same numbers. A checkpoint says in one record what all
before it come to, and in one more for each message that is still kept; then nothing older is needed.
"""

from msgspec import DecodeError, Struct, msgpack

from whence.core.levels.causal.group_started import GroupStarted
from whence.core.levels.causal.tree.id_patterns import Numbers, Vectors
from whence.core.levels.causal.tree.pairs import PairNumbers
from whence.errors import StorageError
from whence.types import Bundle


class MessageProcessed(Struct, frozen=True, tag=1, array_like=True, gc=False):
    """A message was processed for the first time, here or as its publisher."""

    bundle: Bundle
    group: int
    last: int
    h: int
    keys: bytes
    numbers: Numbers
    """Its closed vectors, as a pattern and its numbers."""
    extra: Vectors
    grown: PairNumbers
    """What its dependencies added to the past."""


class IdsAdded(Struct, frozen=True, tag=2, array_like=True, gc=False):
    """A duplicate brought names."""

    pid: int
    boot: int
    first: int
    vectors: Vectors


class IdResolved(Struct, frozen=True, tag=3, array_like=True, gc=False):
    """Somebody else told which message a number stands for."""

    pid: int
    boot: int
    first: int
    source: int
    number: int


class RecordsForgotten(Struct, frozen=True, tag=4, array_like=True, gc=False):
    """Records were needed no more."""

    uids: list[tuple[int, int, int]]


class Checkpoint(Struct, frozen=True, tag=5, array_like=True, gc=False):
    """All that was processed so far and is not kept any more."""

    past: PairNumbers
    ahead: dict[int, list[int]]
    unused: int
    """Earlier versions counted here what the application was handed; core/offsets.py does."""
    seen: list[tuple[int, int, list[int]]]
    """f >= 2: what is known of others, as pair, prefix and numbers beyond."""


class RecordSnapshot(Struct, frozen=True, tag=6, array_like=True, gc=False):
    """A message that was processed before the checkpoint and is still needed, as it was forwarded."""

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
    """Read a record. Raises StorageError for what is none of ours: nothing that follows it could be trusted."""
    try:
        return _decoder.decode(record)
    except DecodeError as error:
        raise StorageError(f"the journal has a record that no causal group of this kind wrote: {error}") from None
