"""The header of a copy: which message it is, who forwarded it, and what it follows. And its whole form in bytes.

Vectors: per forwarder, the number it gave the message for each of its targets. `ids` are closed: everything they follow
is in `deps`. `extra` vectors only identify the message; nothing follows from them. `deps` are the forwarder's causal
past when it forwarded.
A whole header can be read without any state of the link: retransmissions and answers have one.
Source: LoCaMu, sections 2, 3 and 7.2.
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

ENTRY_BYTES, NUMBER_BYTES = 8, 6
"""Bytes of a node with a number in the thesis's coding, and of the largest number in ours."""
ROW_BYTES = 8
"""Bytes of a forwarder and the count of its targets."""
HEADER_BYTES_LEAST = 32
"""Bytes of everything that is not a number."""


class Header(Struct, eq=False):
    """A decoded header. Its ids are vectors, or a pattern with numbers, made into vectors on first use."""

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
    """The number that the forwarder gave it for the reader, if the link knows it; 0: see number_for."""
    whole: bool = True
    """Whether `deps` has all that the forwarder knew; otherwise only what may be new to the reader."""
    cut: bool = False
    """Whether something far from the reader was left out. Nobody may replay such a copy (E12)."""

    @property
    def ids(self) -> Vectors:
        """Return the closed vectors."""
        ids = self._ids
        if ids is None:
            assert self.pattern is not None
            ids = self._ids = self.pattern.vectors(self.numbers)
        return ids

    def number_for(self, reader: int) -> int:
        """Return the number that the forwarder gave it for the reader; 0: none."""
        return self.number or self.ids.get(self.last, {}).get(reader, 0)


def largest(place: Place) -> int:
    """Return the size of the largest header of a node; above HEADER_BYTES_MAX if one could be too large to be read.

    A header that is too large as a whole is cut to what is near its reader (coding.py); then that is what counts.
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
    """Return the bytes of a header with a number of dependencies, and the vectors of all forwarders on a path."""
    entry_bytes = max(ENTRY_BYTES, len(packed([place.overlay.size])) + NUMBER_BYTES)
    vectors = 2 * place.overlay.radius * len(place.reach)
    return HEADER_BYTES_LEAST + entry_bytes * (pairs + vectors) + ROW_BYTES * len(place.near)


def encode_whole(header: Header) -> bytes:
    """Return a header in its whole form."""
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


def decode_whole(data: bytes, entries_of: Callable[[int], int], number_end: int = NUMBER_END) -> Header:
    """Read a whole header. `entries_of` bounds the numbers in each part, by forwarder; each is below `number_end`.

    Raises ValueError if it is malformed.
    """
    reader = Reader(data, 1)
    group, epoch, last, h = reader.below(GROUPS_MAX), reader.below(EPOCH_END), reader.below(NODES), reader.below(256)
    entries_max = entries_of(last)
    ids = _take_vectors(reader, entries_max, number_end)
    extra = _take_vectors(reader, entries_max, number_end)
    rows = _take_vectors(reader, entries_max, number_end)
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


def _take_vectors(reader: Reader, entries_max: int, number_end: int) -> Vectors:
    vectors: Vectors = {}
    entries = 0
    for _ in range(reader.below(entries_max + 1)):
        source, size = reader.below(NODES), reader.below(entries_max + 1)
        entries += size
        if entries > entries_max:
            raise ValueError(f"a header names more than {entries_max} numbers")
        vectors[source] = {reader.below(NODES): reader.below(number_end) for _ in range(size)}
    return vectors
