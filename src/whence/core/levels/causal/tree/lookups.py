"""Answers to a lookup: which messages are these numbers of a source that seems to be down?

Law: the answer is the source's own copy as it came, if one was received whole; it may then be replayed for the source.
Otherwise it is the message's name with the source's other numbers: nodes that this one does not reach may wait for
theirs, and ask the one that asks here. A copy that was cut is never replayed: it lacks pairs that a third node needs
(E12).
Source: LoCaMu, section 4.6.
"""

from whence.core.levels.causal.tree.coding import HeaderCoding
from whence.core.levels.causal.tree.items import NUMBERS_MAX, Copy, Lookup, Named
from whence.core.levels.causal.tree.record import Record
from whence.core.levels.causal.tree.state import State
from whence.core.ready import Item

ANSWERS_MAX = 16
"""Messages named or replayed for one lookup; the asker asks again for the rest."""


def answers(peer: int, lookup: Lookup, state: State, coding: HeaderCoding) -> list[Item]:
    """Return what is known here of the numbers that a peer looks up."""
    found: list[Item] = []
    for record in state.records.values():
        number = record.names.get(lookup.source, {}).get(peer, 0)
        if lookup.above < number <= lookup.upto:
            found.append(_answer(record, lookup.source, number, coding))
            if len(found) == ANSWERS_MAX:
                break
    return found


def _answer(record: Record, source: int, number: int, coding: HeaderCoding) -> Item:
    raw = record.raw.get(source) if record.raw else None
    if raw is not None:
        return Copy(coding.as_it_came(raw), record.bundle)
    numbers = record.names[source]
    return Named(source, number, *record.uid, dict(numbers) if len(numbers) <= NUMBERS_MAX else {})
