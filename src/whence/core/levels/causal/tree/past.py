"""The causal past of a node: for each pair of near nodes, the highest number it knows of.

Laws: this node's column is a fact, never a maximum: `past[x, me]` is the length of the gapless run of x's numbers that
were processed here. Numbers processed beyond a gap wait in `ahead`. Nobody else can raise the column (E6, E10).
The sentence that decides: a copy may be processed when everything that its dependencies number for this node was
processed here, except its own numbers.
Costs: one dict look-up per source in reach and copy.
Source: LoCaMu, sections 2, 4.3 and 4.4.
"""

from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.id_patterns import Vectors
from whence.core.levels.causal.tree.pairs import NODE_MASK, PairNumbers, pair
from whence.core.levels.causal.tree.place import Place


class CausalPast:
    """What was processed here, and what this node knows that others numbered.

    `State` extends it instead of holding one: each hop reads and writes these fields many times.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.me = place.me
        self.column = tuple((source, pair(source, place.me)) for source in place.reach)
        """The nodes that number messages for this one, each with the key of that pair."""
        self.past: PairNumbers = {}
        self.ahead: dict[int, dict[int, None]] = {}
        """Numbers processed beyond a gap, by source."""
        self.changed: list[int] = []
        """The pairs whose number changed, in order."""
        self.changed_before = 0
        """The count of older changes that were dropped from `changed`."""

    # --- this node's column ---

    def reached(self, source: int) -> int:
        """Return up to which number all messages of a source were processed here."""
        return self.past.get(pair(source, self.me), 0)

    def numbered(self, target: int) -> int:
        """Return the last number that this node gave to a target."""
        return self.past.get(pair(self.me, target), 0)

    def has(self, source: int, number: int) -> bool:
        """Tell whether a source's message was processed here."""
        return number <= self.reached(source) or number in self.ahead.get(source, ())

    def mark(self, source: int, number: int) -> None:
        """Mark a source's message as processed here. The prefix grows only without gaps."""
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

    def mark_all(self, vectors: Vectors) -> None:
        """Mark all numbers for this node in vectors of a message that was processed here."""
        me = self.me
        for source, numbers in vectors.items():
            if me in numbers and source != me:
                self.mark(source, numbers[me])

    # --- the rest of the past ---

    def merge(self, deps: PairNumbers) -> PairNumbers:
        """Add the dependencies of a first copy, except to this node's column; return the numbers that grew."""
        past, pairs, me = self.past, self.place.pairs, self.me
        grown = {
            key: value
            for key, value in deps.items()
            if value > past.get(key, 0) and key & NODE_MASK != me and key in pairs
        }
        self.grow(grown)
        return grown

    def grow(self, numbers: PairNumbers) -> None:
        """Raise numbers of the past."""
        self.past.update(numbers)
        self.changed += numbers

    def changes(self, since: int, until: int) -> list[int]:
        """Return the pairs that changed between two counts of changes; all pairs if `since` is too long ago."""
        if since < self.changed_before or until - since > len(self.past):
            return list(self.past)
        return self.changed[since - self.changed_before : until - self.changed_before]

    # --- what a copy waits for ---

    def missing(self, header: Header, deps: PairNumbers) -> list[tuple[int, int]]:
        """Return the sources and numbers that must be processed here before a copy, its own numbers excepted."""
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
        """Return the number that a source gave the copy's own message for this node; 0: none."""
        return header.ids.get(source, {}).get(self.me, 0)
