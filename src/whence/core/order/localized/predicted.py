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
from whence.core.order.localized.sessions import SESSION_END, TURN_END, Carried, LostError, Sessions
from whence.core.order.localized.settings import LocalizedSettings
from whence.core.order.localized.state import Record, State
from whence.core.varint import Reader, put

NEW_SHAPE, SURPRISES, NEWS, HEARD = 1 << 3, 1 << 4, 1 << 5, 1 << 6

UNHEARD_MAX = 128
"""Turns kept one by one until the other end says that it has read them; older ones are kept as one."""

SHAPES_MAX = 1024
"""Shapes remembered per session; further ones are written in full."""


class Predicted(Sessions):
    """Heads by prediction."""

    form = PREDICTED

    def __init__(self, state: State, settings: LocalizedSettings) -> None:
        super().__init__(state, settings)
        self._pruned |= state.place.f == 1  # what the receiver told is left out, so nobody could replay it anyway
        self._cuts: dict[tuple[tuple[int, ...], int], tuple[tuple[int, ...], list[int]]] = {}
        """Shapes as a target sees them, and the places of their numbers in the whole."""

    def tell(self, record: Record, target: int, carried: Carried, into: bytearray) -> int:
        """Write what the receiver cannot foresee."""
        flags = self._tell_heard(target, carried, into)
        shape, numbers = self._shape_of(record, target)
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
        deltas = {key: value - known.get(key, 0) for key, value in news.items()}
        surprises = []
        told = news
        for place, (key, number) in enumerate(zip(shape[2:], numbers, strict=True)):
            before = known.get(key, 0)
            if number != before + 1:
                surprises.append((place, number))
            if number > before and number > told.get(key, 0):  # after a fence, a message may follow its own numbers
                told[key] = number
        if surprises:
            flags |= SURPRISES
            put(into, len(surprises))
            for place, number in surprises:
                put(into, place)
                put(into, number)
        if deltas:
            flags |= NEWS
            put(into, len(deltas))
            place_of = self._state.place.place_of
            for key, delta in deltas.items():
                put(into, place_of[key])
                put(into, delta)
        known.update(told)
        if self._place.f == 1:
            self._keep(carried, told)
        self.cost.add(len(into) + name_bytes(record))
        return flags

    def _shape_of(self, record: Record, target: int) -> tuple[tuple[int, ...], list[int]]:
        """Return group, hops and all pairs of forwarder and target that are numbered; and the numbers."""
        whole = record.shape
        if whole is None:
            whole = record.shape = _flat(record, record.ids)
            record.numbers = [number for numbers in record.ids.values() for number in numbers.values()]
        if not self._pruned:
            return whole, record.numbers
        cut = self._cuts.get((whole, target))
        if cut is None:
            pairs = self._place.overlay.pairs(target)
            places = [place for place, key in enumerate(whole[2:]) if key in pairs]
            cut = (whole[:2] + tuple(whole[2 + place] for place in places), places)
            if len(self._cuts) < SHAPES_MAX:
                self._cuts[whole, target] = cut
        numbers = record.numbers
        return cut[0], [numbers[place] for place in cut[1]]

    def _news(self, record: Record, target: int, carried: Carried) -> dict[int, int]:
        """Return the cells of the dependencies above what the link carried."""
        changes = self._state.changes(carried.changes, record.changes)
        carried.changes = record.changes
        known, deps = carried.known, record.deps
        pairs = self._place.overlay.pairs(target) if self._pruned else self._place.pairs
        return {key: value for key in changes if (value := deps.get(key, 0)) > known.get(key, 0) and key in pairs}

    # --- the other direction: what the other end told is known to both once it is said to be read ---

    def _tell_heard(self, target: int, carried: Carried, into: bytearray) -> int:
        """Say what was read since it was last said. At the start of a session all before is passed over, here and
        there: what an earlier session said may never have come."""
        came = self._came.get(target)
        if came is None or (came.turn == came.told_turn and carried.turn > 1) or self._place.f > 1:
            return 0
        if not self._ordered:
            put(into, came.session)
        put(into, came.turn)
        came.told_turn = came.turn
        if carried.turn > 1:
            _raise(carried.known, came.fresh)
        came.fresh.clear()
        return HEARD

    def _keep(self, carried: Carried, told: dict[int, int]) -> None:
        carried.unheard.append((carried.turn, told))
        if len(carried.unheard) > UNHEARD_MAX:
            carried.base_turn, oldest = carried.unheard.popleft()
            _raise(carried.base, oldest)

    def _take_heard(self, peer: int, carried: Carried, reader: Reader) -> None:
        """Take what the other end says it has read into what both know. Raises LostError if that is not kept here."""
        sent, starts = self._sent.get(peer), carried.turn == 0
        session = (sent.session if sent is not None else 0) if self._ordered else reader.below(SESSION_END)
        turn = reader.below(TURN_END)
        if sent is None or sent.session != session:
            if starts:
                return
            raise LostError
        if turn > sent.turn or (turn < sent.base_turn and not starts):
            raise LostError
        known: dict[int, int] = {} if starts else carried.known
        _raise(known, sent.base)
        sent.base = {}
        unheard = sent.unheard
        while unheard and unheard[0][0] <= turn:
            _raise(known, unheard.popleft()[1])

    def hear(self, peer: int, flags: int, carried: Carried, reader: Reader) -> Head:
        """Foresee, and correct by what is written."""
        if flags & HEARD:
            self._take_heard(peer, carried, reader)
        shape = self._take_shape(flags, carried, reader)
        known, fresh = carried.known, carried.fresh
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
                known[key] = fresh[key] = carried.pending[key] = known.get(key, 0) + reader.below(NUMBER_END)
        reader.end()
        deps = known.copy()
        recent = carried.pending
        told = dict(zip(keys, numbers, strict=True))
        if flags & (SURPRISES | NEWS):
            told = {key: number for key, number in told.items() if number > known.get(key, 0)}
        known.update(told)
        fresh.update(told)
        carried.pending = recent | told
        ids: Vectors = {}
        start = 0
        for source, targets in carried.rows_of(shape):
            ids[source] = dict(zip(targets, numbers[start : start + len(targets)], strict=True))
            start += len(targets)
        if peer not in ids:
            raise ValueError("a head without its forwarder's numbers")
        overlay = self._place.overlay
        head = Head(shape[0], overlay.epoch, peer, shape[1], ids, {}, deps, whole=self._place.f > 1)
        if self._place.f == 1:
            head.recent = recent
            carried.latest = head
        return head

    def merged(self, head: Head) -> None:
        """Learn that a head was taken into the past: what the link carried before it need not be looked at again."""
        carried = self._came.get(head.last)
        if carried is not None and carried.latest is head:
            carried.pending = {}

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


def _raise(cells: dict[int, int], to: dict[int, int]) -> None:
    for key, value in to.items():
        if value > cells.get(key, 0):
            cells[key] = value


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
