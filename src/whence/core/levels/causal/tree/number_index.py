"""Messages by their numbers: identity as in the thesis, where a message has no name of its own.

Law: two copies are of one message if they share a number. A copy may be the first of its message only on a safe path,
one that names enough forwarders for any two such copies to share one (E15).
Costs: an entry per number of every record; used only with `identity=paper`.
Source: LoCaMu, section 4.2.
"""

from whence.core.levels.causal.tree.id_patterns import Vectors
from whence.core.levels.causal.tree.pairs import pair
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.record import Record


class NumberIndex:
    """Records by pair and number."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._records: dict[tuple[int, int], Record] = {}

    def find(self, *parts: Vectors) -> Record | None:
        """Return the record that shares a number with some of the vectors."""
        for vectors in parts:
            for source, numbers in vectors.items():
                for target, number in numbers.items():
                    record = self._records.get((pair(source, target), number))
                    if record is not None:
                        return record
        return None

    def add(self, record: Record, vectors: Vectors) -> None:
        """List a record under the numbers of its vectors."""
        for source, numbers in vectors.items():
            for target, number in numbers.items():
                self._records[pair(source, target), number] = record

    def remove(self, record: Record) -> None:
        """Remove a record under all its numbers."""
        for source, numbers in record.names.items():
            for target, number in numbers.items():
                self._records.pop((pair(source, target), number), None)

    def is_safe(self, names: Vectors, h: int, last: int, target: int) -> bool:
        """Tell whether a copy names enough forwarders for any two such copies to share one (PATHISSAFE)."""
        place = self._place
        window = min(place.overlay.radius, h + place.hops(last, target))
        near = place.overlay.near(target)
        return window - sum(source in near for source in names) <= place.f
