"""The fence: with f >= 2, a copy that jumps over several nodes may not overtake what those nodes still lack.

Numbers reach f+1 hops, and a jump passes over up to f nodes. So a causal chain can pass beside the route of an earlier
message without ever meeting a number of it (E18).
The sentence that decides: before a copy that jumped over two or more nodes is processed, each number that it depends on
for such a node was processed here too, or that node has confirmed it. The node then also sends the numbers it gave when
it forwarded those messages, and the copy depends on them as well.
With f = 1 a jump passes over one node, and nothing is fenced. For f >= 2 the fence rests on a proof sketch and on
search: experimental.
Costs: nothing where the receiver gets the same messages. Otherwise one question to each node that was jumped over; it
answers when it is up.
Source: LoCaMu, section 6.2.
"""

from collections.abc import Iterable

from whence.core.levels.causal.tree.headers import NODES, NUMBER_END
from whence.core.levels.causal.tree.id_patterns import Vectors
from whence.core.levels.causal.tree.inbox import Waiting
from whence.core.levels.causal.tree.items import HEADER_BYTES_MAX, LIST_BYTES_MAX, FenceAsk, FenceTell
from whence.core.levels.causal.tree.pairs import NODE_BITS, NODE_MASK, PairNumbers, pair
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import State
from whence.core.ready import Ready, Send
from whence.core.varint import Reader, put
from whence.types import Instant

TRAIL_BYTES = 5 + 6
"""Bytes of one pair and its number in an answer. A tree whose answers could be too long is refused when a group
opens."""


class Seen:
    """The numbers between two other nodes whose messages were processed here: all up to `prefix`, some beyond it."""

    __slots__ = ("beyond", "prefix")

    def __init__(self) -> None:
        self.prefix = 0
        self.beyond: dict[int, None] = {}

    def add(self, number: int, most: int) -> None:
        """Add a number, unless `most` are kept. A number that is missing here only costs a question."""
        if number > self.prefix and (len(self.beyond) < most or number == self.prefix + 1):
            self.beyond[number] = None
            self._advance()

    def raise_to(self, prefix: int) -> None:
        """Note that the target has processed all numbers up to a prefix."""
        if prefix > self.prefix:
            self.prefix = prefix
            self.beyond = {number: None for number in self.beyond if number > prefix}
            self._advance()

    def _advance(self) -> None:
        while self.prefix + 1 in self.beyond:
            self.prefix += 1
            del self.beyond[self.prefix]


class Fence:
    """Asks the nodes that copies jump over, and answers for this node."""

    def __init__(self, state: State, settings: TreeSettings) -> None:
        self._state = state
        self._settings = settings
        self.on = state.place.f > 1
        self.seen: dict[int, Seen] = {}
        """By pair of other nodes."""

    def processed(self, ids: Vectors, extra: Vectors) -> None:
        """Remember the numbers that a message processed here has for other nodes."""
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
        """Take from a forwarder's dependencies what it has processed itself: its own column is a fact."""
        if self.on:
            for key, value in deps.items():
                if key & NODE_MASK == forwarder and key in self._state.place.pairs:
                    self._seen_of(key).raise_to(value)

    def remembered(self) -> list[tuple[int, int, list[int]]]:
        """Return what is known of other nodes, for a checkpoint."""
        return [(key, seen.prefix, list(seen.beyond)) for key, seen in self.seen.items()]

    def begin_from(self, remembered: list[tuple[int, int, list[int]]]) -> None:
        """Restore what a checkpoint says of other nodes."""
        for key, prefix, beyond in remembered:
            seen = self._seen_of(key)
            seen.prefix, seen.beyond = prefix, dict.fromkeys(beyond)

    def passes(self, waiting: Waiting, now: Instant, ready: Ready) -> bool:
        """Tell whether a copy may pass. If not, ask the nodes it jumped over, every `ask_ns`."""
        jumped = self._state.place.paths[waiting.header.last][:-1]
        if len(jumped) < 2:
            return True
        unmet = self._unmet(waiting, jumped)
        if unmet and now - waiting.fence_asked_at >= self._settings.ask_ns:
            waiting.fence_asked_at = now
            for node, numbers in unmet.items():
                listed = bytearray()
                for source, number in numbers:
                    if len(listed) > LIST_BYTES_MAX - 16:
                        break
                    put(listed, source)
                    put(listed, number)
                ready.send.append(Send((node,), FenceAsk(bytes(listed))))
        return not unmet

    def _unmet(self, waiting: Waiting, jumped: tuple[int, ...]) -> dict[int, list[tuple[int, int]]]:
        """Return the sources and numbers that each node that was jumped over has to confirm."""
        unmet: dict[int, list[tuple[int, int]]] = {}
        ids, fenced = waiting.header.ids, waiting.fenced or {}
        for key, value in waiting.deps.items():
            node, source = key & NODE_MASK, key >> NODE_BITS
            if node not in jumped:
                continue
            own = ids.get(source, {}).get(node)
            needed = value if own is None else min(value, own - 1)
            if needed > fenced.get(key, 0) and (key not in self.seen or needed > self.seen[key].prefix):
                unmet.setdefault(node, []).append((source, needed))
        return unmet

    def answer(self, peer: int, ask: FenceAsk, ready: Ready) -> None:
        """Confirm what was processed here, and send the numbers of those messages that are still kept."""
        state = self._state
        confirmed = {source: number for source, number in _pairs_in(ask.numbers) if number <= state.reached(source)}
        if not confirmed:
            return
        trail: PairNumbers = {}
        for record in state.records.values():
            if any(0 < record.names.get(source, {}).get(state.me, 0) <= number for source, number in confirmed.items()):
                for source, numbers in record.ids.items():
                    for target, number in numbers.items():
                        key = pair(source, target)
                        trail[key] = max(trail.get(key, 0), number)
        packed_trail, listed = bytearray(), bytearray()
        for key, number in trail.items():
            put(packed_trail, key)
            put(packed_trail, number)
        for source, number in confirmed.items():
            put(listed, source)
            put(listed, number)
        if len(packed_trail) <= HEADER_BYTES_MAX:
            ready.send.append(Send((peer,), FenceTell(bytes(listed), bytes(packed_trail))))

    def confirm(self, peer: int, answer: FenceTell, held: Iterable[Waiting]) -> None:
        """Note what a node has processed. Held copies that jumped over it now depend on its numbers too."""
        confirmed = _pairs_in(answer.numbers)
        pairs = self._state.place.pairs
        trail = {key: number for key, number in _pairs_in(answer.trail, NODES << NODE_BITS) if key in pairs}
        for waiting in held:
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
    """Read pairs of numbers. Malformed bytes end the list."""
    reader, pairs = Reader(listed), []
    try:
        while reader.more():
            pairs.append((reader.below(first_end), reader.below(NUMBER_END)))
    except ValueError:
        pass
    return pairs
