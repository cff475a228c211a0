"""The durable state of a node as a few records that replace all before them, so that the journal need not grow.

Law: restoring a checkpoint gives the same state as replaying the records before it: the past, the numbers processed
beyond gaps, and every record, as its message was forwarded. What each target has is never durable: targets are asked
again.
Source: LoCaMu, section 4.8: snapshot and truncation.
"""

from collections.abc import Iterator

from whence.core.levels.causal.tree.journal import Checkpoint, Entry, IdResolved, RecordSnapshot
from whence.core.levels.causal.tree.state import Record, State

KEY_BYTES = 4
"""Bytes of a pair in a packed pattern."""


def entries_of(state: State, seen: list[tuple[int, int, list[int]]]) -> Iterator[Entry]:
    """Yield the records of a checkpoint. `seen` is what the fence remembers."""
    ahead = {source: list(numbers) for source, numbers in state.ahead.items()}
    yield Checkpoint(state.past, ahead, 0, seen)
    for record in state.records.values():
        yield _snapshot(record)
    for source, opened in state.open.items():
        for number, record in opened.items():
            if record.names.get(source, {}).get(state.me) != number:  # resolved by a third node; its vector comes later
                yield IdResolved(*record.uid, source, number)


def restore(state: State, snapshot: RecordSnapshot) -> Record:
    """Restore a record from its snapshot."""
    return state.restore(
        snapshot.bundle, snapshot.group, snapshot.last, snapshot.h, state.patterns.unpacked(snapshot.keys),
        snapshot.numbers, snapshot.extra, snapshot.mine, snapshot.deps,
    )  # fmt: skip


def _snapshot(record: Record) -> RecordSnapshot:
    given = len(record.mine)
    keys, numbers = record.pattern.packed, record.numbers
    return RecordSnapshot(
        record.bundle, record.group, record.last, record.h, keys[: len(keys) - KEY_BYTES * given],
        numbers[: len(numbers) - given], record.mine, record.extra, record.deps,
    )  # fmt: skip
