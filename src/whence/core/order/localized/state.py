"""What a member of a localized overlay remembers, and the three transitions that change it for good.

Laws: the column of this member is a fact: `past[x, me]` is the length of the gapless run of numbers from x that were
processed here, never a maximum. A message's dependencies are the past before any of its own numbers entered it. A
duplicate adds names and marks, nothing else. One processing gives one number per target, once, for ever.
A record is complete when every forwarder within f+1 hops before this member has named it: no later copy can then be
mistaken for news. It is forgotten when it is complete and all its targets are done.
Everything durable follows from the transitions alone, so a journal of them is the whole state (section 4.8).
Source: LoCaMu sections 2, 4.3, 4.4, 4.7.
"""

from typing import TypeAlias

from whence.core.members.overlay import Cells, Place, pair
from whence.core.order.localized.heads import Head, Vectors
from whence.types import Bundle

Uid: TypeAlias = tuple[int, int, int]
"""A message's name: publisher, its life, its first event. Opaque; nothing is kept per publisher."""

ALL = frozenset((-1,))
"""What a target has that needs nothing more."""

NOBODY = -1
"""The forwarder before the origin."""

CHANGES_MAX = 4096
"""Changes of the past that are kept for delta coding; an older baseline costs one look at every cell."""


class Record:
    """A message that was processed here and is still needed."""

    __slots__ = (
        "bundle", "changes", "deps", "group", "h", "have", "ids", "left", "mine", "names", "numbers", "raw", "shape",
        "targets", "uid",
    )  # fmt: skip

    def __init__(self, uid: Uid, bundle: Bundle, group: int, h: int, targets: tuple[int, ...]) -> None:
        self.uid = uid
        self.bundle = bundle
        self.group = group
        self.h = h
        """Hops from the origin, at most 2f+1."""
        self.targets = targets
        self.ids: Vectors = {}
        self.names: Vectors = {}
        """All known vectors, `ids` among them."""
        self.deps: Cells = {}
        self.mine: dict[int, int] = {}
        """The numbers this member gave it, by target."""
        self.have: dict[int, frozenset[int]] = {}
        """Per target, the forwarders it knows the message from, or ALL."""
        self.left: dict[int, None] = dict.fromkeys(targets)
        """Targets that are not done."""
        self.changes = 0
        """How many changes the past had seen when `deps` were taken."""
        self.shape: tuple[int, ...] | None = None
        """Group, hops and who is numbered by whom, flat: what predicted coding names by an index."""
        self.numbers: list[int] = []
        """The numbers of the shape, in its order."""
        self.raw: dict[int, Head] = {}
        """Copies as they came, by forwarder, for replay."""


class State:
    """The durable part of a member, and what is derived from it."""

    def __init__(self, place: Place, *, paper: bool = False) -> None:
        self.place = place
        self.index: dict[tuple[int, int], Record] | None = {} if paper else None
        """By pair and number, where messages are known by their numbers alone (the thesis)."""
        self.me = place.me
        self.past: Cells = {}
        self.ahead: dict[int, dict[int, None]] = {}
        """Numbers processed beyond a gap, by source."""
        self.records: dict[Uid, Record] = {}
        self.own: dict[int, dict[int, Record]] = {}
        """Per target and number, what is not done there."""
        self.open: dict[int, dict[int, Record]] = {}
        """Per source and number, what is processed but incomplete here."""
        self.changed: list[int] = []
        self.changed_before = 0
        """Cells of the past in the order they changed, and how many older changes were dropped."""
        self.retained_bytes = 0

    # --- columns ---

    def reached(self, source: int) -> int:
        """Return how many messages of a source were processed here without a gap."""
        return self.past.get(pair(source, self.me), 0)

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
        if since < self.changed_before:
            return list(self.past)
        return self.changed[since - self.changed_before : until - self.changed_before]

    # --- transitions ---

    def merge(self, deps: Cells) -> Cells:
        """Take in what a first copy depends on; return the cells that grew. The own column is never told by others."""
        past, pairs, me = self.past, self.place.pairs, self.me
        grown = {
            key: value
            for key, value in deps.items()
            if value > past.get(key, 0) and key & 0xFFFF != me and key in pairs
        }
        self.grow(grown)
        return grown

    def grow(self, cells: Cells) -> None:
        """Raise cells of the past."""
        self.past.update(cells)
        self.changed += cells

    def admit(
        self, bundle: Bundle, group: int, last: int, h: int, ids: Vectors, extra: Vectors
    ) -> Record:  # fmt: skip
        """Process a message for the first time and forward it: give it a number for every target."""
        place, past, me = self.place, self.past, self.me
        targets = place.targets(group, NOBODY if last == NOBODY else place.upstream(last))
        record = Record((bundle.pid, bundle.boot, bundle.first), bundle, group, h, targets)
        record.deps = past.copy()
        record.changes = self.changed_before + len(self.changed)
        self._mark_all(ids)
        self._mark_all(extra)
        near, pairs, changed = place.near, place.pairs, self.changed
        kept: Vectors = {}
        for source, numbers in ids.items():
            if source not in near or source == me:
                continue
            kept[source] = vector = {}
            row = source << 16
            for target, number in numbers.items():
                key = row | target
                if key in pairs:
                    vector[target] = number
                    if target != me and number > past.get(key, 0):
                        past[key] = number
                        changed.append(key)
        mine, row = record.mine, me << 16
        for target in targets:
            key = row | target
            mine[target] = past[key] = number = past.get(key, 0) + 1
            changed.append(key)
            own = self.own.get(target)
            if own is None:
                own = self.own[target] = {}
            own[number] = record
        kept[me] = mine
        record.ids = kept
        record.names = kept if not extra else kept | self._local(extra, kept)
        self.records[record.uid] = record
        self.retained_bytes += len(bundle.body)
        if self.index is not None:
            self._list(record, record.names)
        self._note_completeness(record)
        if len(changed) > CHANGES_MAX:
            del changed[: CHANGES_MAX // 2]
            self.changed_before += CHANGES_MAX // 2
        return record

    def rename(self, record: Record, vectors: Vectors) -> list[int]:
        """Take the names of a duplicate, identity only; return the forwarders that are new."""
        self._mark_all(vectors)
        fresh = self._local(vectors, record.names)
        if fresh:
            record.names = record.names | fresh
            if self.index is not None:
                self._list(record, fresh)
            for target in record.targets:
                if not self.is_done(record, target):
                    record.left[target] = None
                    self.own.setdefault(target, {})[record.mine[target]] = record
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
        for target in record.targets:
            self._close(self.own, target, record.mine[target])
        for source, numbers in record.names.items():
            if source != self.me and self.me in numbers:
                self._close(self.open, source, numbers[self.me])

    # --- what follows from them ---

    def is_complete(self, record: Record) -> bool:
        """Tell whether every forwarder within f+1 hops before this member has named the message."""
        near, reach, me = self.place.near, self.place.overlay.range, self.me
        named = 0
        for source in record.names:
            if source != me and near[source] <= reach:
                named += 1
        return named >= min(reach, record.h)

    def is_done(self, record: Record, target: int) -> bool:
        """Tell whether a target needs no copy of the message any more."""
        have = record.have.get(target)
        if have is None:
            return False
        if have is ALL:
            return True
        near = self.place.overlay.near(target)
        return all(source in have for source in record.names if source in near)

    def is_collectable(self, record: Record) -> bool:
        """Tell whether a record is needed no more."""
        return not record.left and self.is_complete(record)

    def learn(self, record: Record, target: int, have: frozenset[int]) -> bool:
        """Take what a target says it has; return whether the record may be forgotten."""
        before = record.have.get(target)
        if before is not ALL:
            record.have[target] = have if have is ALL or before is None else have | before
        if target in record.left and self.is_done(record, target):
            del record.left[target]
            self._close(self.own, target, record.mine[target])
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

    def _note_completeness(self, record: Record) -> None:
        me, complete = self.me, self.is_complete(record)
        if complete and not self.open:
            return
        for source, numbers in record.names.items():
            if source != me and me in numbers:
                if complete:
                    self._close(self.open, source, numbers[me])
                else:
                    self.open.setdefault(source, {})[numbers[me]] = record

    def _close(self, index: dict[int, dict[int, Record]], peer: int, number: int) -> None:
        entries = index.get(peer)
        if entries is not None:
            entries.pop(number, None)
            if not entries:
                del index[peer]

    def missing(self, deps: Cells, ids: Vectors) -> list[tuple[int, int]]:
        """Return what must be processed here first: sources and numbers. A message's own numbers are exempt."""
        lacking = []
        past, me = self.past, self.me
        for source in self.place.reach:
            key = pair(source, me)
            needed = deps.get(key, 0)
            if needed > past.get(key, 0):
                own = ids.get(source)
                if own is not None and me in own and own[me] <= needed:
                    needed = own[me] - 1
                    if needed <= past.get(key, 0):
                        continue
                lacking.append((source, needed))
        return lacking
