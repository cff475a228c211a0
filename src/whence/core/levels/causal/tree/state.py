"""What a member of a localized overlay remembers, and the three transitions that change it for good.

Laws: the column of this member is a fact: `past[x, me]` is the length of the gapless run of numbers from x that were
processed here, never a maximum. A message's dependencies are the past before any of its own numbers entered it. A
duplicate adds names and marks, nothing else. One processing gives one number per target, once, for ever.
A record is complete when every forwarder within f+1 hops before this member has named it: no later copy can then be
mistaken for news. It is forgotten when it is complete and all its targets are done.
Everything durable follows from the transitions alone, so a journal of them is the whole state (section 4.8).
Source: LoCaMu sections 2, 4.3, 4.4, 4.7.
"""

from itertools import islice

from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.id_patterns import NOBODY, IdPattern, IdPatterns, Numbers, Route, Vectors
from whence.core.levels.causal.tree.pairs import NODE_MASK, PairNumbers, pair
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.record import Record, Uid, new_record
from whence.types import Bundle

ALL = frozenset((-1,))
"""What a target has that needs nothing more."""

CHANGES_MAX = 1024
"""Changes of the past that are kept for delta coding; an older baseline costs one look at every cell."""

__all__ = ["ALL", "NOBODY", "Record", "State", "Uid"]


class State:
    """The durable part of a member, and what is derived from it."""

    def __init__(self, place: Place, *, paper: bool = False, retain: bool = False) -> None:
        self.place = place
        self.patterns = IdPatterns(place)
        self.index: dict[tuple[int, int], Record] | None = {} if paper else None
        """By pair and number, where messages are known by their numbers alone (the thesis)."""
        self.me = place.me
        self.range = place.overlay.range
        self.column = tuple((source, pair(source, place.me)) for source in place.reach)
        """Whoever numbers messages for this member, and the key of that cell."""
        self.past: PairNumbers = {}
        self.ahead: dict[int, dict[int, None]] = {}
        """Numbers processed beyond a gap, by source."""
        self.records: dict[Uid, Record] = {}
        self.own: dict[int, dict[int, Record]] = {target: {} for target in place.reach}
        """Per target and number, what is not done there, in the order of the numbers."""
        self.open: dict[int, dict[int, Record]] = {}
        """Per source and number, what is processed but incomplete here."""
        self.changed: list[int] = []
        self.changed_before = 0
        """PairNumbers of the past in the order they changed, and how many older changes were dropped."""
        self.retained_bytes = 0
        self.retain = retain
        self.floors: dict[int, int] = {}
        """Per source, up to which number all targets of its messages have them, as it says."""

    # --- columns ---

    def reached(self, source: int) -> int:
        """Return how many messages of a source were processed here without a gap."""
        return self.past.get(pair(source, self.me), 0)

    def numbered(self, target: int) -> int:
        """Return the last number that was given to a target."""
        return self.past.get(pair(self.me, target), 0)

    def has(self, source: int, number: int) -> bool:
        """Tell whether a source's message was processed here."""
        return number <= self.reached(source) or number in self.ahead.get(source, ())

    def mark(self, source: int, number: int) -> None:
        """Note that a source's message was processed here: the prefix grows only without gaps."""
        key = pair(source, self.me)
        prefix = self.past.get(key, 0)
        if number <= prefix or key not in self.place.pairs:
            return
        ahead = self.ahead.get(source)
        if number > prefix + 1:
            if ahead is None:
                ahead = self.ahead[source] = {}
            ahead[number] = None
            return
        prefix = number
        if ahead is not None:
            while prefix + 1 in ahead:
                prefix += 1
                del ahead[prefix]
            if not ahead:
                del self.ahead[source]
        self.past[key] = prefix
        self.changed.append(key)

    def changes(self, since: int, until: int) -> list[int]:
        """Return the cells of the past that changed between two counts of changes; all cells if it is too long ago."""
        if since < self.changed_before or until - since > len(self.past):
            return list(self.past)
        return self.changed[since - self.changed_before : until - self.changed_before]

    # --- transitions ---

    def merge(self, deps: PairNumbers) -> PairNumbers:
        """Take in what a first copy depends on; return the cells that grew. The own column is never told by others."""
        past, pairs, me = self.past, self.place.pairs, self.me
        grown = {
            key: value
            for key, value in deps.items()
            if value > past.get(key, 0) and key & NODE_MASK != me and key in pairs
        }
        self.grow(grown)
        return grown

    def grow(self, cells: PairNumbers) -> None:
        """Raise cells of the past."""
        self.past.update(cells)
        self.changed += cells

    def admit(
        self, bundle: Bundle, group: int, last: int, h: int, pattern: IdPattern, numbers: Numbers, extra: Vectors
    ) -> Record:
        """Process a message for the first time and forward it: give it a number for every target."""
        past, changed = self.past, self.changed
        route = pattern.routes.get((group, last)) or self._begin_route(pattern, group, last)
        record = new_record(bundle, group, last, h, route)
        if route.own:  # else nobody will be told of them
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
            self._mark_all(extra)
            explained = False
        for key, number in zip(route.raised_keys, route.raised(numbers)):  # noqa: B905 - hot, one length by construction
            if number > past[key]:
                past[key] = number
        changed += route.changes  # some may not have changed: whoever looks compares values
        if route.own:
            mine, own = [], self.own
            for target, key in route.own:
                past[key] = number = past[key] + 1
                mine.append(number)
                own[target][number] = record
            record.mine = tuple(mine)
            record.numbers = route.kept(numbers) + record.mine
        else:
            record.numbers = route.kept(numbers)
        if extra:
            record.extra = self._local(extra, record.ids)
            record.named += self._within_range(record.extra)
        record.changes_after = self.changed_before + len(changed) if explained else record.changes
        self.records[record.uid] = record
        self.retained_bytes += len(bundle.body)
        if self.index is not None:
            self._list(record, record.names)
        if self.open or record.named < self.range:
            self._note_completeness(record)
        if len(changed) > CHANGES_MAX:
            del changed[: CHANGES_MAX // 2]
            self.changed_before += CHANGES_MAX // 2
        return record

    def _begin_route(self, pattern: IdPattern, group: int, last: int) -> Route:
        """Look a route up that is not known yet, and see that its cells are there."""
        route = self.patterns.route(pattern, group, last)
        for key in route.changes:
            self.past.setdefault(key, 0)
        return route

    def begin_from(self, past: PairNumbers, ahead: dict[int, dict[int, None]]) -> None:
        """Take up a state that was written down as a whole; what is still kept follows, by `keep`."""
        self.past, self.ahead = past, ahead
        self.changed_before = 1

    def keep(
        self, bundle: Bundle, group: int, last: int, h: int, pattern: IdPattern, numbers: Numbers, extra: Vectors,
        mine: Numbers, deps: PairNumbers,
    ) -> Record:  # fmt: skip
        """Take up a message that was forwarded before the state was written down."""
        route = self._begin_route(pattern, group, last)
        record = new_record(bundle, group, last, h, route)
        record.deps, record.extra, record.mine, record.numbers = deps, extra, mine, route.kept(numbers) + mine
        record.named += self._within_range(extra)
        record.changes = record.changes_after = self.changed_before  # what changed in between is not known any more
        self.changed_before += 1
        for target, number in zip(route.targets, mine, strict=True):
            self.own[target][number] = record
        self.records[record.uid] = record
        self.retained_bytes += len(bundle.body)
        if self.index is not None:
            self._list(record, record.names)
        self._note_completeness(record)
        return record

    def rename(self, record: Record, vectors: Vectors) -> list[int]:
        """Take the names of a duplicate, identity only; return the forwarders that are new."""
        self._mark_all(vectors)
        fresh = self._local(vectors, record.names)
        if fresh:
            record.extra = record.extra | fresh
            record.named += self._within_range(fresh)
            if self.index is not None:
                self._list(record, fresh)
            for target in list(record.have):
                if not self.is_done(record, target):
                    record.left[target] = None
                    self.own[target][record.number_for(target)] = record
        self._note_completeness(record)
        return list(fresh)

    def mark_named(self, record: Record, source: int, number: int) -> None:
        """Mark a number that somebody else said stands for a message processed here; its vector is still to come."""
        self.mark(source, number)
        if not self.is_complete(record):
            self.open.setdefault(source, {})[number] = record

    def forget(self, record: Record) -> None:
        """Drop a record."""
        del self.records[record.uid]
        if self.index is not None:
            for source, numbers in record.names.items():
                for target, number in numbers.items():
                    self.index.pop((pair(source, target), number), None)
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
        """Tell whether a target that has a message from some forwarders needs no copy of it any more."""
        have, near = record.have[target], self.place.overlay.near(target)
        return all(source in have for source in record.names if source in near)

    def is_collectable(self, record: Record) -> bool:
        """Tell whether a record is needed no more."""
        return not record.left and self.is_complete(record) and not (self.retain and self._kept_for(record))

    # --- keeping for others (floors) ---

    def _kept_for(self, record: Record) -> list[int]:
        """Return the forwarders in range that have not said yet that all their targets have a message."""
        me, floors, names = self.me, self.floors, record.names
        return [source for source in record.forwarders() if floors.get(source, 0) < names.get(source, {}).get(me, 0)]

    def awaited(self) -> list[int]:
        """Return the forwarders whose word is all that some record is kept for."""
        waiting = (record for record in self.records.values() if not record.left and self.is_complete(record))
        return list(dict.fromkeys(source for record in waiting for source in self._kept_for(record)))

    def reached_floors(self) -> dict[int, int]:
        """Return per target the number up to which all messages to it are done at all their targets."""
        floors = {target: self.numbered(target) for target in self.place.reach}
        for record in self.records.values():
            if record.left:
                for target, number in zip(record.targets, record.mine, strict=True):
                    floors[target] = min(floors[target], number - 1)
        return floors

    def take_floor(self, source: int, floor: int) -> list[Record]:
        """Take a forwarder's word; return the records that may be forgotten now."""
        if not self.retain or floor <= self.floors.get(source, 0):
            return []
        self.floors[source] = floor
        return [record for record in self.records.values() if self.is_collectable(record)]

    # --- acknowledgements ---

    def acknowledge(self, target: int, upto: int) -> tuple[int, list[Record]]:
        """Take a target's word that it needs nothing more of all up to a number; return how many that were, and the
        records that may be forgotten."""
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
        """Take what a target says it has of a message; return whether the record may be forgotten."""
        if target in record.left:
            if have is ALL:
                record.have.pop(target, None)
            else:
                record.have[target] = have | record.have.get(target, have)
            if have is ALL or self.is_done(record, target):
                del record.left[target]
                self.own[target].pop(record.number_for(target), None)
        return self.is_collectable(record)

    def by_numbers(self, *parts: Vectors) -> Record | None:
        """Return the record that shares a number with vectors."""
        assert self.index is not None
        for vectors in parts:
            for source, numbers in vectors.items():
                for target, number in numbers.items():
                    record = self.index.get((pair(source, target), number))
                    if record is not None:
                        return record
        return None

    def is_safe(self, names: Vectors, h: int, last: int, target: int) -> bool:
        """Tell whether a copy names enough forwarders for any two such copies to share one (PATHISSAFE)."""
        place = self.place
        window = min(place.overlay.radius, h + place.hops(last, target))
        near = place.overlay.near(target)
        return window - sum(source in near for source in names) <= place.f

    def _list(self, record: Record, vectors: Vectors) -> None:
        assert self.index is not None
        for source, numbers in vectors.items():
            for target, number in numbers.items():
                self.index[pair(source, target), number] = record

    def _mark_all(self, vectors: Vectors) -> None:
        me = self.me
        for source, numbers in vectors.items():
            if me in numbers and source != me:
                self.mark(source, numbers[me])

    def _local(self, vectors: Vectors, known: Vectors) -> Vectors:
        """Return the vectors of near forwarders that are not known yet, without targets that are far."""
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
        """List a message under all numbers given to this member while it is incomplete."""
        me = self.me
        for source, numbers in record.names.items():
            if source != me and me in numbers:
                if not complete:
                    self.open.setdefault(source, {})[numbers[me]] = record
                elif source in self.open:
                    self.open[source].pop(numbers[me], None)
                    if not self.open[source]:
                        del self.open[source]

    def missing(self, header: Header, deps: PairNumbers) -> list[tuple[int, int]]:
        """Return what must be processed here before a copy: sources and numbers. Its own numbers are exempt."""
        lacking = []
        past = self.past
        for source, key in self.column:
            if key in deps and deps[key] > past.get(key, 0):
                needed, own = deps[key], self.exempt(header, source)
                if own and own <= needed:
                    needed = own - 1
                    if needed <= past.get(key, 0):
                        continue
                lacking.append((source, needed))
        return lacking

    def exempt(self, header: Header, source: int) -> int:
        """Return the number that a copy itself has from a source for this member; 0: none."""
        return header.ids.get(source, {}).get(self.me, 0)
