"""The durable state of a node: its causal past and its records, and the transitions that change them.

Laws: a message's dependencies are the past before any of its own numbers entered it (E3). A duplicate adds vectors and
marks, nothing else (E7). Processing a message gives it one number per target, once, for ever.
A record is complete when every forwarder within f+1 hops before this node has named it: no later copy can then be
mistaken for a new message. It is forgotten when it is complete and all its targets are done (E11).
Everything durable follows from the transitions alone, so a journal of them is the whole state.
Costs per hop: a copy of the past, and one dict update per pair of the message's pattern.
Source: LoCaMu, sections 2, 4.3, 4.4, 4.7 and 4.8.
"""

from itertools import islice

from whence.core.levels.causal.tree.floors import Floors
from whence.core.levels.causal.tree.id_patterns import NOBODY, IdPattern, IdPatterns, Numbers, Route, Vectors
from whence.core.levels.causal.tree.number_index import NumberIndex
from whence.core.levels.causal.tree.pairs import PairNumbers, pair
from whence.core.levels.causal.tree.past import CausalPast
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.record import Record, Uid, new_record
from whence.types import Bundle

ALL = frozenset((-1,))
"""What a target has that needs nothing more."""

CHANGES_MAX = 1024
"""Changes of the past that are kept for delta coding. An older baseline costs one look at every pair."""

__all__ = ["ALL", "NOBODY", "Record", "State", "Uid"]


class State(CausalPast):
    """The durable part of a node, and what follows from it."""

    def __init__(self, place: Place, *, paper: bool = False, retain: bool = False) -> None:
        super().__init__(place)
        self.patterns = IdPatterns(place)
        self.index = NumberIndex(place) if paper else None
        """With `identity=paper`: the records by number."""
        self.range = place.overlay.range
        self.records: dict[Uid, Record] = {}
        self.own: dict[int, dict[int, Record]] = {target: {} for target in place.reach}
        """By target and number: the messages that are not done there, in the order of their numbers."""
        self.open: dict[int, dict[int, Record]] = {}
        """By source and number: the messages that were processed here and are not complete."""
        self.retained_bytes = 0
        self.floors = Floors(place.me) if retain else None

    # --- transitions ---

    def admit(
        self, bundle: Bundle, group: int, last: int, h: int, pattern: IdPattern, numbers: Numbers, extra: Vectors
    ) -> Record:
        """Process a message for the first time and forward it: give it a number for every target."""
        past, changed = self.past, self.changed
        route = pattern.routes.get((group, last)) or self._begin_route(pattern, group, last)
        record = new_record(bundle, group, last, h, route)
        if route.own:  # else no copy carries them
            record.deps = past.copy()
        record.changes = self.changed_before + len(changed)
        explained, gapless = True, not self.ahead
        for source, key, at in route.marks:
            number = numbers[at]
            if gapless and number == past[key] + 1:
                past[key] = number
            else:
                self.mark(source, number)
                explained &= past[key] <= number
        if extra:
            self.mark_all(extra)
            explained = False
        for key, number in zip(route.raised_keys, route.raised(numbers)):  # noqa: B905 - hot, one length by construction
            if number > past[key]:
                past[key] = number
        changed += route.changes  # some may not have changed: readers compare the numbers
        if route.own:
            mine, own = [], self.own
            for target, key in route.own:
                past[key] = number = past[key] + 1
                mine.append(number)
                own[target][number] = record
            record.mine = tuple(mine)
            record.numbers = route.retained(numbers) + record.mine
        else:
            record.numbers = route.retained(numbers)
        if extra:
            record.extra = self._local(extra, record.ids)
            record.named += self._within_range(record.extra)
        record.changes_after = self.changed_before + len(changed) if explained else record.changes
        self.records[record.uid] = record
        self.retained_bytes += len(bundle.body)
        if self.index is not None:
            self.index.add(record, record.names)
        if self.open or record.named < self.range:
            self._note_completeness(record)
        if len(changed) > CHANGES_MAX:
            del changed[: CHANGES_MAX // 2]
            self.changed_before += CHANGES_MAX // 2
        return record

    def _begin_route(self, pattern: IdPattern, group: int, last: int) -> Route:
        """Return a route that is new here, and give all its pairs an entry in the past."""
        route = self.patterns.route(pattern, group, last)
        for key in route.changes:
            self.past.setdefault(key, 0)
        return route

    def begin_from(self, past: PairNumbers, ahead: dict[int, dict[int, None]]) -> None:
        """Start from a checkpoint. Its records follow, by `restore`."""
        self.past, self.ahead = past, ahead
        self.changed_before = 1

    def restore(
        self, bundle: Bundle, group: int, last: int, h: int, pattern: IdPattern, numbers: Numbers, extra: Vectors,
        mine: Numbers, deps: PairNumbers,
    ) -> Record:  # fmt: skip
        """Restore the record of a message that was forwarded before the checkpoint."""
        route = self._begin_route(pattern, group, last)
        record = new_record(bundle, group, last, h, route)
        record.deps, record.extra, record.mine, record.numbers = deps, extra, mine, route.retained(numbers) + mine
        record.named += self._within_range(extra)
        record.changes = record.changes_after = self.changed_before  # the changes in between are no longer known
        self.changed_before += 1
        for target, number in zip(route.targets, mine, strict=True):
            self.own[target][number] = record
        self.records[record.uid] = record
        self.retained_bytes += len(bundle.body)
        if self.index is not None:
            self.index.add(record, record.names)
        self._note_completeness(record)
        return record

    def add_ids(self, record: Record, vectors: Vectors) -> list[int]:
        """Add the vectors of a duplicate, which only identify it; return the forwarders that are new."""
        self.mark_all(vectors)
        fresh = self._local(vectors, record.names)
        if fresh:
            record.extra = record.extra | fresh
            record.named += self._within_range(fresh)
            if self.index is not None:
                self.index.add(record, fresh)
            for target in list(record.have):
                if not self.is_done(record, target):
                    record.left[target] = None
                    self.own[target][record.number_for(target)] = record
        self._note_completeness(record)
        return list(fresh)

    def resolve(self, record: Record, source: int, number: int) -> None:
        """Mark a number that, as a third node says, is of a message processed here. Its vector comes later."""
        self.mark(source, number)
        if not self.is_complete(record):
            self.open.setdefault(source, {})[number] = record

    def forget(self, record: Record) -> None:
        """Drop a record."""
        del self.records[record.uid]
        if self.index is not None:
            self.index.remove(record)
        self.retained_bytes -= len(record.bundle.body)
        for target in record.left:
            self.own[target].pop(record.number_for(target), None)
        if self.open:
            self._note_open(record, complete=True)

    # --- what follows from them ---

    def is_complete(self, record: Record) -> bool:
        """Tell whether every forwarder within f+1 hops before this member has named the message."""
        named = record.named
        return named >= self.range or named >= record.h

    def is_done(self, record: Record, target: int) -> bool:
        """Tell whether a target that has a message from some forwarders needs no further copy of it."""
        have, near = record.have[target], self.place.overlay.near(target)
        return all(source in have for source in record.names if source in near)

    def is_collectable(self, record: Record) -> bool:
        """Tell whether a record may be forgotten."""
        if record.left or not self.is_complete(record):
            return False
        return self.floors is None or not self.floors.awaited_for(record)

    # --- floors ---

    def awaited(self) -> list[int]:
        """Return the forwarders whose floor is all that some record waits for."""
        floors = self.floors
        assert floors is not None
        waiting = (record for record in self.records.values() if not record.left and self.is_complete(record))
        return list(dict.fromkeys(source for record in waiting for source in floors.awaited_for(record)))

    def own_floors(self) -> dict[int, int]:
        """Return per target the number up to which all messages to it are done at all their targets."""
        floors = {target: self.numbered(target) for target in self.place.reach}
        for record in self.records.values():
            if record.left:
                for target, number in zip(record.targets, record.mine, strict=True):
                    floors[target] = min(floors[target], number - 1)
        return floors

    def take_floor(self, source: int, floor: int) -> list[Record]:
        """Take a forwarder's floor; return the records that may be forgotten now."""
        if self.floors is None or not self.floors.raise_to(source, floor):
            return []
        return [record for record in self.records.values() if self.is_collectable(record)]

    # --- acknowledgements ---

    def acknowledge(self, target: int, upto: int) -> tuple[int, list[Record]]:
        """Mark all messages to a target up to a number as done there.

        Return how many were not done before, and the records that may be forgotten.
        """
        own, done, spare = self.own[target], 0, []
        for number, record in own.items():
            if number > upto:
                break
            done += 1
            left = record.left
            del left[target]
            if record.have:
                record.have.pop(target, None)
            if not left and self.is_collectable(record):
                spare.append(record)
        if done == len(own):
            own.clear()
        else:
            for number in list(islice(own, done)):
                del own[number]
        return done, spare

    def learn(self, record: Record, target: int, have: frozenset[int]) -> bool:
        """Note from which forwarders a target has a message; return whether the record may be forgotten."""
        if target in record.left:
            if have is ALL:
                record.have.pop(target, None)
            else:
                record.have[target] = have | record.have.get(target, have)
            if have is ALL or self.is_done(record, target):
                del record.left[target]
                self.own[target].pop(record.number_for(target), None)
        return self.is_collectable(record)

    def _local(self, vectors: Vectors, known: Vectors) -> Vectors:
        """Return the vectors of near forwarders that are not known yet, without targets that are not near."""
        near, pairs = self.place.near, self.place.pairs
        return {
            source: {target: number for target, number in numbers.items() if pair(source, target) in pairs}
            for source, numbers in vectors.items()
            if source in near and source != self.me and source not in known
        }

    def _within_range(self, vectors: Vectors) -> int:
        near, reach = self.place.near, self.place.overlay.range
        return sum(near[source] <= reach for source in vectors)

    def _note_completeness(self, record: Record) -> None:
        self._note_open(record, complete=self.is_complete(record))

    def _note_open(self, record: Record, *, complete: bool) -> None:
        """List a message in `open` under all numbers given to this node, or remove it if it is complete."""
        me = self.me
        for source, numbers in record.names.items():
            if source != me and me in numbers:
                if not complete:
                    self.open.setdefault(source, {})[numbers[me]] = record
                elif source in self.open:
                    self.open[source].pop(numbers[me], None)
                    if not self.open[source]:
                        del self.open[source]
