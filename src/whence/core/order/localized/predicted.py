"""Predicted coding: a head says only what the other end cannot foresee.

Who is numbered by whom follows from group and route: such a shape is written once per session and then named by an
index. Each number is expected to be one more than the last that the link carried; only others are written. Of the
dependencies, only cells above what the link carried, in either direction, are written: the numbers of the messages
before are implied, and what the other end told is not told back. (With f >= 2 it is: the fence reads all cells.)
Fault-free a head is one byte of flags and one of shape; session and turn come on top where links are not ordered.
Source: LoCaMu review, section 7.3.
"""

from whence.core.members.overlay import GROUPS_MAX, NODE_BITS, NODE_MASK, pair
from whence.core.order.localized.heads import NODES, NUMBER_END, PREDICTED, Head, Vectors
from whence.core.order.localized.links import name_bytes
from whence.core.order.localized.sessions import Carried, Sessions
from whence.core.order.localized.state import Record
from whence.core.varint import Reader, put

NEW_SHAPE, SURPRISES, NEWS = 1 << 3, 1 << 4, 1 << 5

SHAPES_MAX = 1024
"""Shapes remembered per session; further ones are written in full."""


class Predicted(Sessions):
    """Heads by prediction."""

    form = PREDICTED

    def tell(self, record: Record, target: int, carried: Carried, into: bytearray) -> int:
        """Write what the receiver cannot foresee."""
        flags = 0
        shape = self._shape_of(record, target)
        index = carried.shapes.get(shape)
        if index is None:
            flags |= NEW_SHAPE
            _put_shape(into, shape)
            if len(carried.shapes) < SHAPES_MAX:
                carried.shapes[shape] = len(carried.shapes)
        else:
            put(into, index)
        news = self._news(record, target, carried)
        known = carried.known
        surprises = []
        ids = record.ids
        for place, key in enumerate(shape[2:]):
            number = ids[key >> NODE_BITS][key & NODE_MASK]
            if number != known.get(key, 0) + 1:
                surprises.append((place, number))
        if surprises:
            flags |= SURPRISES
            put(into, len(surprises))
            for place, number in surprises:
                put(into, place)
                put(into, number)
        if news:
            flags |= NEWS
            self._put_news(into, news, carried)
        for key in shape[2:]:
            number = ids[key >> NODE_BITS][key & NODE_MASK]
            if number > known.get(key, 0):
                known[key] = number
        self.cost.add(len(into) + name_bytes(record))
        return flags

    def _shape_of(self, record: Record, target: int) -> tuple[int, ...]:
        """Return group, hops and all pairs of forwarder and target that are numbered."""
        if self._pruned:
            return _flat(record, self.pruned(record.ids, target))
        shape = record.shape
        if shape is None:
            shape = record.shape = _flat(record, record.ids)
        return shape

    def _news(self, record: Record, target: int, carried: Carried) -> dict[int, int]:
        """Return the cells of the dependencies above what the link carried."""
        changes = self._state.changes(carried.changes, record.changes)
        carried.changes = record.changes
        known, deps = carried.known, record.deps
        pairs = self._place.overlay.pairs(target) if self._pruned else self._place.pairs
        came = self._came.get(target) if self._place.f == 1 else None
        heard = came.known if came is not None else {}
        return {
            key: value
            for key in changes
            if (value := deps.get(key, 0)) > known.get(key, 0) and value > heard.get(key, 0) and key in pairs
        }

    def _put_news(self, into: bytearray, news: dict[int, int], carried: Carried) -> None:
        known, place_of = carried.known, self._state.place.place_of
        put(into, len(news))
        for key, value in news.items():
            put(into, place_of[key])
            put(into, value - known.get(key, 0))
            known[key] = value

    def hear(self, peer: int, flags: int, carried: Carried, reader: Reader) -> Head:
        """Foresee, and correct by what is written."""
        shape = self._take_shape(flags, carried, reader)
        known = carried.known
        keys = shape[2:]
        numbers = [known.get(key, 0) + 1 for key in keys]
        if flags & SURPRISES:
            for _ in range(reader.below(len(keys) + 1)):
                place = reader.below(len(keys))
                numbers[place] = reader.below(NUMBER_END)
        if flags & NEWS:
            listed = self._place.overlay.listed_pairs(peer)
            for _ in range(reader.below(len(listed) + 1)):
                key = listed[reader.below(len(listed))]
                known[key] = known.get(key, 0) + reader.below(NUMBER_END)
        reader.end()
        deps = known.copy()
        ids: Vectors = {}
        for key, number in zip(keys, numbers, strict=True):
            source = key >> NODE_BITS
            vector = ids.get(source)
            if vector is None:
                vector = ids[source] = {}
            vector[key & NODE_MASK] = number
            if number > known.get(key, 0):
                known[key] = number
        if peer not in ids:
            raise ValueError("a head without its forwarder's numbers")
        overlay = self._place.overlay
        return Head(shape[0], overlay.epoch, peer, shape[1], ids, {}, deps, whole=self._place.f > 1)

    def _take_shape(self, flags: int, carried: Carried, reader: Reader) -> tuple[int, ...]:
        shapes = carried.shapes_by_index
        if not flags & NEW_SHAPE:
            return shapes[reader.below(len(shapes))]
        group, h = reader.below(GROUPS_MAX), reader.below(256)
        flat = [group, h]
        for _ in range(reader.below(self._cells_max)):
            source = reader.below(NODES)
            for _ in range(reader.below(self._cells_max)):
                flat.append(pair(source, reader.below(NODES)))
                if len(flat) > self._cells_max + 2:
                    raise ValueError("a shape names too many pairs")
        shape = tuple(flat)
        if len(shapes) < SHAPES_MAX:
            shapes.append(shape)
        return shape


def _flat(record: Record, ids: Vectors) -> tuple[int, ...]:
    flat = [record.group, record.h]
    for source, numbers in ids.items():
        row = source << NODE_BITS
        flat += [row | target for target in numbers]
    return tuple(flat)


def _put_shape(into: bytearray, shape: tuple[int, ...]) -> None:
    put(into, shape[0])
    put(into, shape[1])
    rows: dict[int, list[int]] = {}
    for key in shape[2:]:
        rows.setdefault(key >> NODE_BITS, []).append(key & NODE_MASK)
    put(into, len(rows))
    for source, targets in rows.items():
        put(into, source)
        put(into, len(targets))
        for target in targets:
            put(into, target)
