"""Replaying the journal: the same transitions in the same order give the same state and the same numbers.

Law: replaying sends nothing. It delivers every message again, in the same order; core/offsets.py knows which of them
the application has.
Source: LoCaMu, section 4.8.
"""

from whence.core.levels.causal.tree.checkpoint import restore
from whence.core.levels.causal.tree.group_started import GroupStarted
from whence.core.levels.causal.tree.journal import (
    Checkpoint,
    Entry,
    IdResolved,
    IdsAdded,
    MessageProcessed,
    RecordsForgotten,
    RecordSnapshot,
)
from whence.core.levels.causal.tree.processing import Processing
from whence.core.ready import Ready


def replay(entry: Entry, processing: Processing, ready: Ready) -> None:
    """Carry out the transition that a journal record describes."""
    state = processing.state
    match entry:
        case GroupStarted():
            pass
        case Checkpoint():
            state.begin_from(entry.past, {source: dict.fromkeys(ahead) for source, ahead in entry.ahead.items()})
            processing.fence.begin_from(entry.seen)
        case RecordSnapshot():
            restore(state, entry)
        case MessageProcessed():
            _process(entry, processing, ready)
        case RecordsForgotten():
            for uid in entry.uids:
                if uid in state.records:
                    state.forget(state.records[uid])
        case IdsAdded() | IdResolved():
            _identify(entry, processing)


def _process(entry: MessageProcessed, processing: Processing, ready: Ready) -> None:
    state, fence = processing.state, processing.fence
    state.grow(entry.grown)
    pattern = state.patterns.unpacked(entry.keys)
    record = state.admit(entry.bundle, entry.group, entry.last, entry.h, pattern, entry.numbers, entry.extra)
    processing.deliver(record, entry.last, 0, ready)
    if fence.on:
        fence.processed(pattern.vectors(entry.numbers), entry.extra)
    if state.is_collectable(record):
        state.forget(record)


def _identify(entry: IdsAdded | IdResolved, processing: Processing) -> None:
    state = processing.state
    record = state.records.get((entry.pid, entry.incarnation, entry.first))
    if record is None:
        return
    if isinstance(entry, IdResolved):
        state.resolve(record, entry.source, entry.number)
        return
    state.add_ids(record, entry.vectors)
    processing.fence.processed(entry.vectors, {})
    if state.is_collectable(record):
        state.forget(record)
