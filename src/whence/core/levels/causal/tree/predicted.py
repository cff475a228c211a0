"""Predicted coding: a head says only what the other end cannot foresee.

Who is numbered by whom follows from group and route: such a shape is written once per session and then named by an
index. Each number is expected to be one more than the last that the link carried; only others are written. Of the
dependencies, only cells above what the link carried are written: the numbers of the messages before are implied. What
the other end told is not told back: it told of its own durable past, so leaving it out takes nothing from it. That
needs one care: a head in this coding vouches that its sender has processed everything up to the numbers it was given
itself; with a gap below them it is sent whole. (With f >= 2 all is told back: the fence reads all cells.)
Fault-free a head is one byte of flags and one of shape; session and turn come on top where links are not ordered.
Source: LoCaMu review, section 7.3.
"""

from collections.abc import Iterable

from whence.core.levels.causal.tree.heads import NODES, NUMBER_END, PREDICTED, Head
from whence.core.levels.causal.tree.links import name_bytes
from whence.core.levels.causal.tree.overlay import NODE_BITS, Cells, pair
from whence.core.levels.causal.tree.sessions import Carried, Pattern, Sessions
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.shapes import Numbers, Shape
from whence.core.levels.causal.tree.state import Record, State
from whence.core.varint import Reader, put

NEW_SHAPE, SURPRISES, NEWS = 1 << 3, 1 << 4, 1 << 5
WRITTEN = NEW_SHAPE | SURPRISES | NEWS

PATTERNS_MAX = 1024
"""Shapes remembered per session; further ones are written in full."""


class Predicted(Sessions):
    """Heads by prediction."""

    form = PREDICTED

    def __init__(self, state: State, settings: TreeSettings) -> None:
        super().__init__(state, settings)
        self._shares = state.place.f == 1
        """What the other end told is not told back. With f >= 2 it is: the fence reads all cells."""
        self._cuts = self._pruned or self._shares
        """First copies name only what is near the receiver. Where something is left out, nobody may replay them anyway;
        whole heads are replayed, and are cut only where replaying is off."""
        self._epoch = state.place.overlay.epoch

    def tell(self, record: Record, target: int, carried: Carried, into: bytearray) -> int:
        """Write what the receiver cannot foresee."""
        flags = 0
        shape, numbers, known = record.shape, record.numbers, carried.known
        if self._cuts:
            shape, pick = shape.cuts.get(target) or self._state.shapes.cut(shape, target)
            if pick is not None:
                numbers = pick(numbers)
        index = carried.shapes.get((record.group, record.h, shape))
        if index is None:
            flags |= NEW_SHAPE
            self._begin_shape(record, shape, carried, into)
        elif index < 128:
            into.append(index)
        else:
            put(into, index)
        news = None if carried.changes == record.changes else self._news(record, target, carried)
        carried.changes = record.changes_after
        told = self._told(news, known) if news else b""
        foreseen = [value + 1 for value in shape.of(known)]
        if numbers == tuple(foreseen):
            known.update(zip(shape.keys, numbers))  # noqa: B905 - hot, and one length by construction
        else:
            flags |= SURPRISES
            _put_surprises(into, foreseen, numbers)
            _raise(known, shape.keys, numbers)
        if news:
            flags |= NEWS
            into += told
            _raise(known, news, news.values())  # after a fence, a message may follow its own numbers
        self.cost.add(len(into) + (record.name_bytes or name_bytes(record)))
        return flags

    def _begin_shape(self, record: Record, shape: Shape, carried: Carried, into: bytearray) -> None:
        _put_shape(into, record.group, record.h, shape)
        _begin(carried.known, shape)
        if len(carried.shapes) < PATTERNS_MAX:
            carried.shapes[record.group, record.h, shape] = len(carried.shapes)

    def _news(self, record: Record, target: int, carried: Carried) -> Cells:
        """Return the cells of the dependencies above what the link carried."""
        known, deps = carried.known, record.deps
        came = self._came.get(target) if self._shares else None
        told = {} if came is None else came.known
        pairs = self._place.overlay.pairs(target) if self._cuts else self._place.pairs
        return {
            key: value
            for key in self._state.changes(carried.changes, record.changes)
            if (value := deps.get(key, 0)) > known.get(key, 0) and value > told.get(key, 0) and key in pairs
        }

    def _told(self, news: Cells, known: Cells) -> bytearray:
        """Return cells as differences to what the link carried."""
        into, place_of = bytearray(), self._place.place_of
        put(into, len(news))
        for key, value in news.items():
            put(into, place_of[key])
            put(into, value - known.get(key, 0))
        return into

    def hear(self, peer: int, carried: Carried, data: bytes, at: int) -> Head:
        """Foresee, and correct by what is written."""
        flags, patterns, reader = data[0], carried.patterns, None
        if flags & WRITTEN or len(data) != at + 1:
            reader = Reader(data, at)
            pattern = (
                self._take_shape(peer, carried, reader)
                if flags & NEW_SHAPE
                else patterns[reader.below(len(patterns))]
            )  # fmt: skip
        elif (index := data[at]) < 128 and index < len(patterns):
            pattern = patterns[index]
        else:
            raise ValueError("a head names no shape that the link has carried")
        shape, known = pattern.shape, carried.known
        recent = carried.pending if carried.latest is None else self._not_taken_in(carried, carried.latest)
        foreseen = [value + 1 for value in shape.of(known)]
        if reader is not None:
            if flags & SURPRISES:
                for _ in range(reader.below(len(foreseen) + 1)):
                    place = reader.below(len(foreseen))
                    foreseen[place] = reader.below(NUMBER_END)
            if flags & NEWS:
                self._take_news(peer, known, recent, reader)
            reader.end()
        numbers, shares = tuple(foreseen), self._shares
        number = numbers[pattern.at] if pattern.at >= 0 else 0
        deps = recent if shares else known.copy()
        head = Head(
            pattern.group, self._epoch, peer, pattern.h, None, {}, deps, shape, numbers, number, not shares, self._cuts,
        )  # fmt: skip
        if shares:
            carried.latest = head
        if flags & (SURPRISES | NEWS):
            _raise(known, shape.keys, numbers)
        else:
            known.update(zip(shape.keys, numbers))  # noqa: B905 - hot, and one length by construction
        return head

    def _not_taken_in(self, carried: Carried, latest: Head) -> Cells:
        """Return what was carried since a head was last taken into the past; news of this one will be added."""
        assert latest.shape is not None
        recent = carried.pending.copy()
        _raise(recent, latest.shape.keys, latest.numbers)
        carried.pending = recent
        return recent

    def _take_news(self, peer: int, known: Cells, recent: Cells, reader: Reader) -> None:
        listed = self._place.overlay.listed_pairs(peer)
        for _ in range(reader.below(len(listed) + 1)):
            key = listed[reader.below(len(listed))]
            known[key] = recent[key] = known.get(key, 0) + reader.below(NUMBER_END)

    def merged(self, head: Head, record: Record) -> None:
        """Learn that a head was taken into the past: what the link carried before it need not be looked at again, and
        what changed by it, but for the numbers given here, need not be told back."""
        carried = self._came.get(head.last)
        if carried is not None and carried.latest is head:
            carried.latest = None
            if carried.pending:
                carried.pending = {}
        back = self._sent.get(head.last)
        if back is not None and back.changes == record.changes != record.changes_after:
            back.changes = record.changes_after - len(record.targets)

    def _take_shape(self, peer: int, carried: Carried, reader: Reader) -> Pattern:
        group, h = reader.below(self._place.overlay.group_count), reader.below(256)
        keys: dict[int, None] = {}
        possible = self._place.overlay.pairs(peer)
        for _ in range(reader.below(self._cells_max)):
            source = reader.below(NODES)
            if any(key >> NODE_BITS == source for key in keys):
                raise ValueError("a shape names a forwarder twice")
            for _ in range(reader.below(self._cells_max)):
                key = pair(source, reader.below(NODES))
                if key not in possible:
                    raise ValueError("a shape names a pair that its sender knows nothing of")
                keys[key] = None
        if not any(key >> NODE_BITS == peer for key in keys):
            raise ValueError("a head without its forwarder's numbers")
        shape = self._state.shapes.of(tuple(keys))
        pattern = Pattern(group, h, shape, shape.place_of(peer, self._place.me))
        _begin(carried.known, shape)
        if len(carried.patterns) < PATTERNS_MAX:
            carried.patterns.append(pattern)
        return pattern


def _raise(cells: Cells, keys: Iterable[int], values: Iterable[int]) -> None:
    """Raise cells to values that are higher."""
    value_of = cells.get
    for key, value in zip(keys, values):  # noqa: B905 - hot, and one length by construction
        if value > value_of(key, 0):
            cells[key] = value


def _begin(cells: Cells, shape: Shape) -> None:
    """See that cells have all keys of a shape, so that they can be taken at once."""
    for key in shape.keys:
        cells.setdefault(key, 0)


def _put_surprises(into: bytearray, foreseen: list[int], numbers: Numbers) -> None:
    surprises = [at for at, number in enumerate(numbers) if number != foreseen[at]]
    put(into, len(surprises))
    for at in surprises:
        put(into, at)
        put(into, numbers[at])


def _put_shape(into: bytearray, group: int, h: int, shape: Shape) -> None:
    put(into, group)
    put(into, h)
    put(into, len(shape.rows))
    for source, targets in shape.rows:
        put(into, source)
        put(into, len(targets))
        for target in targets:
            put(into, target)
