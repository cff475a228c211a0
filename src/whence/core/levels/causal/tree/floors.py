"""Floors: with `retain`, a node keeps a message until every forwarder before it says that all its targets have it.

Law: a forwarder's floor for a node is the number up to which all its messages to that node are done at all their
targets. While a record lies above the floor of one of its forwarders, others may look it up or replay it here, even if
that forwarder is down. A floor is learned again after a crash.
Source: LoCaMu, section 4.7.
"""

from whence.core.levels.causal.tree.record import Record


class Floors:
    """The floors that forwarders sent."""

    def __init__(self, me: int) -> None:
        self._me = me
        self._floors: dict[int, int] = {}

    def raise_to(self, source: int, floor: int) -> bool:
        """Take a forwarder's floor; return whether it rose."""
        rose = floor > self._floors.get(source, 0)
        if rose:
            self._floors[source] = floor
        return rose

    def awaited_for(self, record: Record) -> list[int]:
        """Return the forwarders in range whose floor is still below a message."""
        me, floors, names = self._me, self._floors, record.names
        return [source for source in record.forwarders() if floors.get(source, 0) < names.get(source, {}).get(me, 0)]
