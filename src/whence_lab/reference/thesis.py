"""The thesis's coding, byte for byte, to reproduce its figures.

Numbers: 4 bytes per forwarder, and 8 for each target. Dependencies: the difference to the last ones sent on the link,
4 bytes per forwarder with a difference, and 8 for each number. What is needed to read them back (lengths, group, hops,
turn) is sent too, but not counted, as in the thesis.
Source: locamu 7.1.
"""

from itertools import chain
from struct import pack, unpack

from whence.core.levels.causal.tree.headers import THESIS, Header
from whence.core.levels.causal.tree.id_patterns import Vectors
from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.levels.causal.tree.pairs import NODE_BITS, NODE_MASK, pair
from whence.core.levels.causal.tree.sessions import LinkState, SessionCoding
from whence.core.levels.causal.tree.state import Record
from whence.core.varint import Reader, put

FORWARDER_BYTES = 4
"""A node or a number; an entry is two of them."""


class ThesisCoding(SessionCoding):
    """Headers as the thesis has them."""

    form = THESIS
    number_end = 1 << 32
    ids_most = 0
    """The most bytes that the numbers of one message took."""

    def encode(self, record: Record, target: int, link: LinkState, into: bytearray) -> int:
        """Write all numbers, and the dependencies that differ from the last."""
        put(into, record.group)
        put(into, record.h)
        ids = self.pruned(record.ids, target) if self._pruned else record.ids
        changes = self._state.changes(link.changes, record.changes)
        link.changes = record.changes
        known, deps = link.known, record.deps
        pairs = self._place.overlay.pairs(target) if self._pruned else self._place.pairs
        rows: Vectors = {}
        for key in changes:
            value = deps.get(key, 0)
            if value > known.get(key, 0) and key in pairs:
                known[key] = value
                rows.setdefault(key >> NODE_BITS, {})[key & NODE_MASK] = value
        size = put_rows(into, ids)
        self.ids_most = max(self.ids_most, size)
        self.cost.add(size + put_rows(into, rows))
        return 0

    def decode(self, peer: int, link: LinkState, data: bytes, at: int) -> Header:
        """Read them back; dependencies are the highest the link has carried."""
        reader = Reader(data, at)
        group, h = reader.below(GROUPS_MAX), reader.below(256)
        ids, rows = self._take_rows(reader), self._take_rows(reader)
        reader.end()
        for source, row in rows.items():
            for target, value in row.items():
                link.known[pair(source, target)] = value
        return Header(group, self._place.overlay.epoch, peer, h, ids, {}, link.known.copy(), cut=self._pruned)

    def numbers_kept(self) -> int:
        """Return how many numbers links remember, of both directions."""
        return sum(len(link.known) for links in (self._outgoing, self._incoming) for link in links.values())

    def _take_rows(self, reader: Reader) -> Vectors:
        sizes = [reader.below(self._entries_max) for _ in range(reader.below(self._entries_max))]
        if sum(sizes) > self._entries_max:
            raise ValueError(f"a header names more than {self._entries_max} numbers")
        counts = [1 + 2 * size for size in sizes]
        values = unpack(f"<{sum(counts)}I", reader.bytes(FORWARDER_BYTES * sum(counts)))
        rows: Vectors = {}
        start = 0
        for count in counts:
            row = values[start : start + count]
            rows[row[0]] = dict(zip(row[1::2], row[2::2], strict=True))
            start += count
        return rows


def put_rows(into: bytearray, rows: Vectors) -> int:
    """Write rows of numbers; return how many bytes the thesis counts for them."""
    put(into, len(rows))
    for numbers in rows.values():
        put(into, len(numbers))
    values: list[int] = []
    for source, numbers in rows.items():
        values.append(source)
        values += chain.from_iterable(numbers.items())
    into += pack(f"<{len(values)}I", *values)
    return FORWARDER_BYTES * len(values)
