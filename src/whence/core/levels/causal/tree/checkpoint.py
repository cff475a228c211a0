"""A member's durable state as a few records that stand for all before them, so that its journal need not grow.

Law: to take up a checkpoint is to have the state that the records before it would have given: the past, what was
processed beyond gaps, and every message that is still kept, as it was forwarded. What
each target has is not in it, as it never is: targets are asked again.
Source: LoCaMu review, section 4.8: snapshot and truncation.
"""

from collections.abc import Iterator

from whence.core.levels.causal.tree.journal import Checkpoint, Entry, IdResolved, RecordSnapshot
from whence.core.levels.causal.tree.state import Record, State

KEY_BYTES = 4
"""What a pair takes in a packed pattern."""


def entries_of(state: State, seen: list[tuple[int, int, list[int]]]) -> Iterator[Entry]:
    """Write a state down; `seen` is what the fence remembers."""
    ahead = {source: list(numbers) for source, numbers in state.ahead.items()}
    yield Checkpoint(state.past, ahead, 0, seen)
    for record in state.records.values():
        yield _kept(record)
    for source, opened in state.open.items():
        for number, record in opened.items():
            if record.names.get(source, {}).get(state.me) != number:  # somebody else told; its vector is still to come
                yield IdResolved(*record.uid, source, number)


def take_up(state: State, kept: RecordSnapshot) -> Record:
    """Have a message again as it was when it was written down."""
    return state.keep(
        kept.bundle, kept.group, kept.last, kept.h, state.patterns.unpacked(kept.keys), kept.numbers, kept.extra,
        kept.mine, kept.deps,
    )  # fmt: skip


def _kept(record: Record) -> RecordSnapshot:
    given = len(record.mine)
    keys, numbers = record.pattern.packed, record.numbers
    return RecordSnapshot(
        record.bundle, record.group, record.last, record.h, keys[: len(keys) - KEY_BYTES * given],
        numbers[: len(numbers) - given], record.mine, record.extra, record.deps,
    )  # fmt: skip
