"""Id patterns: which pairs of nodes a message's numbers belong to, without the numbers themselves.

A tree has few routes, and each route gives one pattern: the publisher and the group decide which forwarders number
which targets. So a pattern is kept once, and everything that follows from it alone is computed once: what a node keeps
of it, who gets the message next, and what of it a target may see. A hop then only moves numbers (decision 0030).
Costs: computed on first sight, afterwards one look-up. At most ID_PATTERNS_MAX are kept.
Source: LoCaMu, section 2.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from struct import pack, unpack
from typing import Any, TypeAlias

from whence.core.levels.causal.tree.pairs import NODE_BITS, NODE_MASK, pair
from whence.core.levels.causal.tree.place import Place

Vectors: TypeAlias = dict[int, dict[int, int]]
"""Numbers by forwarder and target."""

Numbers: TypeAlias = tuple[int, ...]
"""The numbers of a pattern, in the order of its keys."""

Pick: TypeAlias = Callable[[Any], Numbers]
"""Picks some values of a sequence or a dict; itemgetter does it in C."""

NOBODY = -1
"""The forwarder before the publisher."""

ID_PATTERNS_MAX = 2048
"""Patterns kept per member: some dozens per group, unless many nodes fail in turn. Further ones are made each time."""


def picker(places: Sequence[int]) -> Pick:
    """Return a function that picks the values at these places, or of these keys."""
    if len(places) > 1:
        return itemgetter(*places)
    if places:
        [only] = places
        return lambda values: (values[only],)
    return lambda values: ()


class IdPattern:
    """The pairs of forwarders and targets that are numbered, as keys; those of the copy's forwarder come last."""

    __slots__ = ("cuts", "keys", "of", "packed", "routes", "routes_alike", "rows")

    def __init__(self, keys: tuple[int, ...]) -> None:
        self.keys = keys
        self.of = picker(keys)
        """Picks the numbers of its keys from PairNumbers that have them all."""
        self.rows = _rows(keys)
        """Its forwarders in order, each with its targets."""
        self.packed = pack(f"<{len(keys)}I", *keys)
        """Its keys in bytes, for the journal."""
        self.routes: dict[tuple[int, int], Route] = {}
        """By group and forwarder."""
        self.routes_alike: dict[tuple[bool, tuple[int, ...]], Route] = {}
        """By whether this node delivers, and the targets: groups that agree in both share a route."""
        self.cuts: dict[int, tuple[IdPattern, Pick | None]] = {}
        """By target: the pattern that the target may see, and how to pick its numbers (None: it sees all)."""

    def vectors(self, numbers: Numbers) -> Vectors:
        """Return the numbers as vectors."""
        start, vectors = 0, {}
        for source, targets in self.rows:
            end = start + len(targets)
            vectors[source] = dict(zip(targets, numbers[start:end], strict=True))
            start = end
        return vectors

    def place_of(self, source: int, target: int) -> int:
        """Return the position of a pair, -1 if it is not numbered."""
        key = pair(source, target)
        return self.keys.index(key) if key in self.keys else -1


class Route:
    """What this node does with a message of a pattern: whether it delivers, its targets, and what it keeps."""

    __slots__ = (
        "changes", "delivers", "forwarders", "marks", "named", "onward", "owed", "own", "raised", "raised_keys",
        "retained", "targets",
    )  # fmt: skip

    def __init__(
        self, pattern: IdPattern, place: Place, delivers: bool, targets: tuple[int, ...], patterns: "IdPatterns"
    ) -> None:  # fmt: skip
        me, near, pairs = place.me, place.near, place.pairs
        self.delivers = delivers
        self.targets = targets
        self.own = tuple((target, pair(me, target)) for target in targets)
        """Targets, each with the key of the number that this node gives it."""
        near_rows = {source: None for source, _ in pattern.rows if source in near and source != me}
        self.named = sum(near[source] <= place.overlay.range for source in near_rows)
        """How many forwarders of the pattern are within f+1 hops."""
        self.forwarders = tuple(source for source in near_rows if near[source] <= place.overlay.range)
        self.owed = dict.fromkeys(self.forwarders)
        """The same forwarders: each gets an acknowledgement, and all are in reach."""
        local = [
            (at, key) for at, key in enumerate(pattern.keys) if key in pairs and key >> NODE_BITS in near_rows
        ]  # fmt: skip
        self.retained = picker([at for at, _ in local])
        self.marks = tuple((key >> NODE_BITS, key, at) for at, key in local if key & NODE_MASK == me)
        """Forwarder, key and position of each number given to this node."""
        others = [(at, key) for at, key in local if key & NODE_MASK != me]
        self.raised = picker([at for at, _ in others])
        self.raised_keys = tuple(key for _, key in others)
        own_keys = tuple(key for _, key in self.own)
        self.changes = tuple(key for _, key, _ in self.marks) + self.raised_keys + own_keys
        """The pairs of the past that may change; those that this node numbers come last."""
        self.onward = patterns.of(tuple(key for _, key in local) + own_keys)
        """The pattern of the message when it leaves here."""


class IdPatterns:
    """The patterns that one node has met."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: dict[tuple[int, ...], IdPattern] = {}
        self.none = self.of(())
        """The pattern of a message that nobody has numbered yet."""

    def of(self, keys: tuple[int, ...]) -> IdPattern:
        """Return the pattern of these pairs."""
        found = self._known.get(keys)
        if found is None:
            found = IdPattern(keys)
            if len(self._known) < ID_PATTERNS_MAX:
                self._known[keys] = found
        return found

    def flat(self, vectors: Vectors) -> tuple[IdPattern, Numbers]:
        """Return vectors as a pattern and its numbers."""
        keys = tuple(pair(source, target) for source, numbers in vectors.items() for target in numbers)
        return self.of(keys), tuple(number for numbers in vectors.values() for number in numbers.values())

    def unpacked(self, keys: bytes) -> IdPattern:
        """Return the pattern that was packed. Raises ValueError if it is malformed."""
        if len(keys) % 4:
            raise ValueError("an id pattern is a row of pairs of four bytes")
        return self.of(unpack(f"<{len(keys) // 4}I", keys))

    def route(self, pattern: IdPattern, group: int, last: int) -> Route:
        """Return the route of a pattern that came from a forwarder, for a group."""
        found = pattern.routes.get((group, last))
        if found is None:
            place = self._place
            delivers = place.me in place.overlay.table(group).is_member
            targets = place.targets(group, NOBODY if last == NOBODY else place.upstream(last))
            found = pattern.routes_alike.get((delivers, targets))
            if found is None:
                found = pattern.routes_alike[delivers, targets] = Route(pattern, place, delivers, targets, self)
            pattern.routes[group, last] = found
        return found

    def cut(self, pattern: IdPattern, target: int) -> tuple[IdPattern, Pick | None]:
        """Return what a target may see of a pattern: the pairs whose two nodes are both near it."""
        found = pattern.cuts.get(target)
        if found is None:
            near = self._place.overlay.pairs(target)
            places = [at for at, key in enumerate(pattern.keys) if key in near]
            whole = len(places) == len(pattern.keys)
            seen = pattern if whole else self.of(tuple(pattern.keys[at] for at in places))
            found = pattern.cuts[target] = (seen, None if whole else picker(places))
        return found


def _rows(keys: Iterable[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    grouped: dict[int, list[int]] = {}
    for key in keys:
        grouped.setdefault(key >> NODE_BITS, []).append(key & NODE_MASK)
    return tuple((source, tuple(targets)) for source, targets in grouped.items())
