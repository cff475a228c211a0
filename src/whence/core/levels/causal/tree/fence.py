"""The fence: with f >= 2, a copy that leaps over several nodes may not outrun what those nodes are still owed.

Numbers reach f+1 hops and a jump skips up to f nodes, so a causal chain can pass beside the route of an earlier
message without ever meeting a number of it. The sentence that decides: before a copy that leapt over two nodes or more
is processed, each number it depends on for a node leapt over was either processed here too, or is confirmed by that
node, which then tells the numbers it gave on; those are depended on as well.
With f = 1 a jump skips one node and nothing is fenced. For f >= 2 this is a proof sketch and a search: experimental.
Costs: nothing where the receiver gets the same messages; else a question to each node leapt over,
which answers when it is up.
Source: LoCaMu review, section 6.2.
"""

from whence.core.levels.causal.tree.headers import NODES, NUMBER_END
from whence.core.levels.causal.tree.id_patterns import Vectors
from whence.core.levels.causal.tree.inbox import Inbox, Waiting
from whence.core.levels.causal.tree.items import HEADER_BYTES_MAX, LIST_BYTES_MAX, FenceAnswer, FenceAsk
from whence.core.levels.causal.tree.pairs import NODE_BITS, NODE_MASK, PairNumbers, pair
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import State
from whence.core.ready import Ready, Send
from whence.core.varint import Reader, put
from whence.types import Instant

TRAIL_BYTES = 5 + 6
"""Of one pair and its number in an answer. Trees whose answers could be too long are refused when a group opens."""


class Seen:
    """Numbers of one pair of other nodes whose messages were processed here: all up to `prefix`, and some beyond."""

    __slots__ = ("beyond", "prefix")

    def __init__(self) -> None:
        self.prefix = 0
        self.beyond: dict[int, None] = {}

    def add(self, number: int, most: int) -> None:
        """Take a number, unless too many are kept; forgetting one only means to ask."""
        if number > self.prefix and (len(self.beyond) < most or number == self.prefix + 1):
            self.beyond[number] = None
            self._advance()

    def raise_to(self, prefix: int) -> None:
        """Learn that the target has processed all up to here."""
        if prefix > self.prefix:
            self.prefix = prefix
            self.beyond = {number: None for number in self.beyond if number > prefix}
            self._advance()

    def _advance(self) -> None:
        while self.prefix + 1 in self.beyond:
            self.prefix += 1
            del self.beyond[self.prefix]


class Fence:
    """Asks the nodes that copies leap over, and answers for this one."""

    def __init__(self, state: State, inbox: Inbox, settings: TreeSettings) -> None:
        self._state = state
        self._inbox = inbox
        self._settings = settings
        self.on = state.place.f > 1
        self.seen: dict[int, Seen] = {}
        if self.on:
            inbox.passes_fence = self.passes

    def processed(self, ids: Vectors, extra: Vectors) -> None:
        """Remember the numbers for others of a message that was processed here."""
        if not self.on:
            return
        me, pairs, most = self._state.me, self._state.place.pairs, self._settings.seen_max
        for vectors in (ids, extra):
            for source, numbers in vectors.items():
                for target, number in numbers.items():
                    key = pair(source, target)
                    if target != me and key in pairs:
                        self._seen_of(key).add(number, most)

    def learn_from(self, forwarder: int, deps: PairNumbers) -> None:
        """Take a forwarder's own column as what it is: what it has processed itself."""
        if self.on:
            for key, value in deps.items():
                if key & NODE_MASK == forwarder and key in self._state.place.pairs:
                    self._seen_of(key).raise_to(value)

    def remembered(self) -> list[tuple[int, int, list[int]]]:
        """Return what is known of others, to be written down."""
        return [(key, seen.prefix, list(seen.beyond)) for key, seen in self.seen.items()]

    def begin_from(self, remembered: list[tuple[int, int, list[int]]]) -> None:
        """Take up what was written down."""
        for key, prefix, beyond in remembered:
            seen = self._seen_of(key)
            seen.prefix, seen.beyond = prefix, dict.fromkeys(beyond)

    def passes(self, waiting: Waiting, now: Instant, ready: Ready) -> bool:
        """Tell whether a copy may pass; else ask the nodes it leapt over, now and then."""
        leapt = self._state.place.paths[waiting.header.last][:-1]
        if len(leapt) < 2:
            return True
        unmet = self._unmet(waiting, leapt)
        if unmet and now - waiting.fence_asked_at >= self._settings.ask_ns:
            waiting.fence_asked_at = now
            for node, cells in unmet.items():
                listed = bytearray()
                for source, number in cells:
                    if len(listed) > LIST_BYTES_MAX - 16:
                        break
                    put(listed, source)
                    put(listed, number)
                ready.send.append(Send((node,), FenceAsk(bytes(listed))))
        return not unmet

    def _unmet(self, waiting: Waiting, leapt: tuple[int, ...]) -> dict[int, list[tuple[int, int]]]:
        unmet: dict[int, list[tuple[int, int]]] = {}
        ids, fenced = waiting.header.ids, waiting.fenced or {}
        for key, value in waiting.deps.items():
            node, source = key & NODE_MASK, key >> NODE_BITS
            if node not in leapt:
                continue
            own = ids.get(source, {}).get(node)
            needed = value if own is None else min(value, own - 1)
            if needed > fenced.get(key, 0) and (key not in self.seen or needed > self.seen[key].prefix):
                unmet.setdefault(node, []).append((source, needed))
        return unmet

    def asked(self, peer: int, ask: FenceAsk, ready: Ready) -> None:
        """Confirm what was processed here, and tell the numbers that were given on for it."""
        state = self._state
        confirmed = {source: number for source, number in _pairs_in(ask.cells) if number <= state.reached(source)}
        if not confirmed:
            return
        trail: PairNumbers = {}
        for record in state.records.values():
            if any(0 < record.names.get(source, {}).get(state.me, 0) <= number for source, number in confirmed.items()):
                for source, numbers in record.ids.items():
                    for target, number in numbers.items():
                        key = pair(source, target)
                        trail[key] = max(trail.get(key, 0), number)
        told, listed = bytearray(), bytearray()
        for key, number in trail.items():
            put(told, key)
            put(told, number)
        for source, number in confirmed.items():
            put(listed, source)
            put(listed, number)
        if len(told) <= HEADER_BYTES_MAX:
            ready.send.append(Send((peer,), FenceAnswer(bytes(listed), bytes(told))))

    def told(self, peer: int, tell: FenceAnswer) -> None:
        """Take a node's word for what it has processed; held copies then depend on what it gave on."""
        confirmed = _pairs_in(tell.cells)
        pairs = self._state.place.pairs
        trail = {key: number for key, number in _pairs_in(tell.trail, NODES << NODE_BITS) if key in pairs}
        for waiting in self._inbox.held.values():
            if peer not in self._state.place.paths[waiting.header.last][:-1]:
                continue
            fenced = waiting.fenced = waiting.fenced or {}
            for source, number in confirmed:
                key = pair(source, peer)
                fenced[key] = max(fenced.get(key, 0), number)
            deps = waiting.deps
            grown = {key: number for key, number in trail.items() if number > deps.get(key, 0)}
            if grown:
                waiting.deps = deps | grown

    def _seen_of(self, key: int) -> Seen:
        seen = self.seen.get(key)
        if seen is None:
            seen = self.seen[key] = Seen()
        return seen


def _pairs_in(listed: bytes, first_end: int = NODES) -> list[tuple[int, int]]:
    """Read pairs of numbers; what is no pair ends the list."""
    reader, pairs = Reader(listed), []
    try:
        while reader.more():
            pairs.append((reader.below(first_end), reader.below(NUMBER_END)))
    except ValueError:
        pass
    return pairs
