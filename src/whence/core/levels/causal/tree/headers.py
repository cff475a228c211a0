"""The header of a copy: what it is, who forwarded it, what it comes after. And the coding that needs no memory.

Vectors: per forwarder, the number it gave the message for each of its targets. `ids` are closed: everything they follow
is in `deps`. `extra` only name the message; nothing follows from them. `deps` are the cells of the forwarder's causal
past at the moment it forwarded.
A whole header can be read on its own: it is what retransmissions, answers and first copies on a link carry.
"""

from collections.abc import Callable

from msgspec import Struct

from whence.core.levels.causal.tree.id_patterns import IdPattern, Numbers, Vectors
from whence.core.levels.causal.tree.items import HEADER_BYTES_MAX
from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.levels.causal.tree.pairs import NODE_BITS, NODE_MASK, PairNumbers, pair
from whence.core.levels.causal.tree.place import Place
from whence.core.varint import Reader, packed, put
from whence.limits import SEQ_MAX

WHOLE, PREDICTED, THESIS = range(3)
"""The first byte of a header: how the rest is coded."""

CUT = 1 << 2
"""Flag in the first byte of a whole header: what is far from its reader was left out."""

NODES = 1 << NODE_BITS
NUMBER_END = SEQ_MAX + 1
EPOCH_END = 1 << 31

CELL_BYTES, NUMBER_BYTES = 8, 6
"""Of a node and a number as the thesis writes them, and of the largest number as we do."""
ROW_BYTES = 8
"""A forwarder, and how many targets follow."""
HEADER_BYTES_LEAST = 32
"""What is not numbers."""


class Header(Struct, eq=False):
    """A decoded header. Its numbers are vectors, or a pattern with its numbers and vectors made when asked for."""

    group: int
    epoch: int
    last: int
    """The forwarder whose copy this is: normally the sender."""
    h: int
    """Hops from the origin to `last`, at most 2f+1."""
    _ids: Vectors | None
    extra: Vectors
    deps: PairNumbers
    pattern: IdPattern | None = None
    numbers: Numbers = ()
    number: int = 0
    """The one that its forwarder gave it for the reader, where the link knows it; 0: look for it."""
    whole: bool = True
    """All cells of the forwarder are there; else only those that may be new to the reader."""
    cut: bool = False
    """Something far from the reader was left out. Nobody may pass such a copy on as it came (E12)."""

    @property
    def ids(self) -> Vectors:
        """Return its numbers as vectors."""
        ids = self._ids
        if ids is None:
            assert self.pattern is not None
            ids = self._ids = self.pattern.vectors(self.numbers)
        return ids

    def number_for(self, reader: int) -> int:
        """Return the number that its forwarder gave it for the reader; 0: none."""
        return self.number or self.ids.get(self.last, {}).get(reader, 0)


def largest(place: Place) -> int:
    """Return how many bytes a header of a node has at most, or, if some cannot be read, how many such a one may have.

    Where all it knows is too much for one, it says only what is near its reader (links.py); that is counted then.
    """
    size = _bytes_of(len(place.pairs), place)
    if size <= HEADER_BYTES_MAX:
        return size
    for target in place.reach:
        size = _bytes_of(len(place.pairs & place.overlay.pairs(target)), place)
        if size > HEADER_BYTES_MAX:
            return size
    return HEADER_BYTES_MAX


def _bytes_of(pairs: int, place: Place) -> int:
    """Return the bytes of a header with so many dependencies, and the vectors of all forwarders on a path."""
    cell = max(CELL_BYTES, len(packed([place.overlay.size])) + NUMBER_BYTES)
    vectors = 2 * place.overlay.radius * len(place.reach)
    return HEADER_BYTES_LEAST + cell * (pairs + vectors) + ROW_BYTES * len(place.near)


def encode_whole(header: Header) -> bytes:
    """Return a header that can be read on its own."""
    into = bytearray((WHOLE | CUT if header.cut else WHOLE,))
    for number in (header.group, header.epoch, header.last, header.h):
        put(into, number)
    _put_vectors(into, header.ids)
    _put_vectors(into, header.extra)
    rows: Vectors = {}
    for key, value in header.deps.items():
        if value:
            rows.setdefault(key >> NODE_BITS, {})[key & NODE_MASK] = value
    _put_vectors(into, rows)
    return bytes(into)


def decode_whole(data: bytes, cells_of: Callable[[int], int], number_end: int = NUMBER_END) -> Header:
    """Read a whole header of at most so many cells in each part, by its forwarder, all below a bound.

    Raises ValueError.
    """
    reader = Reader(data, 1)
    group, epoch, last, h = reader.below(GROUPS_MAX), reader.below(EPOCH_END), reader.below(NODES), reader.below(256)
    cells_max = cells_of(last)
    ids = _take_vectors(reader, cells_max, number_end)
    extra = _take_vectors(reader, cells_max, number_end)
    rows = _take_vectors(reader, cells_max, number_end)
    reader.end()
    deps = {pair(source, target): value for source, row in rows.items() for target, value in row.items()}
    return Header(group, epoch, last, h, ids, extra, deps, cut=bool(data[0] & CUT))


def _put_vectors(into: bytearray, vectors: Vectors) -> None:
    put(into, len(vectors))
    for source, numbers in vectors.items():
        put(into, source)
        put(into, len(numbers))
        for target, number in numbers.items():
            put(into, target)
            put(into, number)


def _take_vectors(reader: Reader, cells_max: int, number_end: int) -> Vectors:
    vectors: Vectors = {}
    cells = 0
    for _ in range(reader.below(cells_max + 1)):
        source, size = reader.below(NODES), reader.below(cells_max + 1)
        cells += size
        if cells > cells_max:
            raise ValueError(f"a header names more than {cells_max} cells")
        vectors[source] = {reader.below(NODES): reader.below(number_end) for _ in range(size)}
    return vectors
