"""The acknowledgements that a node owes its forwarders: who gets one, when, and what is in it.

Laws: an acknowledgement covers only what is durable and complete here (E13). It waits `ack_ns` for others to the same
forwarder, but not once a quarter of a window was processed: a forwarder with a full window must not wait for a timer.
With `retain` it also carries this node's floor, and a floor that should have come is asked for.
Source: LoCaMu, sections 4.5 and 4.7.
"""

from collections.abc import Callable, Iterable, Iterator

from whence.core.levels.causal.tree.headers import NODES, NUMBER_END
from whence.core.levels.causal.tree.items import LIST_BYTES_MAX, Ack, Probe
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import ALL, State
from whence.core.ready import NEVER, Ready, Send
from whence.core.varint import Reader, put
from whence.types import Instant

ACKS_PER_WINDOW = 4
"""Acknowledgements go out at the latest when this fraction of a window was processed."""


class Acknowledgements:
    """Acknowledgements to forwarders in reach."""

    def __init__(self, state: State, settings: TreeSettings, wake_by: Callable[[Instant], None]) -> None:
        """`wake_by` asks for a tick not later than a time."""
        self.due_at: Instant = NEVER
        """When the next ones go out, or floors are asked for."""
        self._state = state
        self._settings = settings
        self._wake_by = wake_by
        self._reach = dict.fromkeys(state.place.reach)
        self._owed: dict[int, None] = {}
        self._unacknowledged = 0
        """Messages processed since acknowledgements last went out."""
        self._acknowledge_at = max(1, settings.window // ACKS_PER_WINDOW)
        self._ack_at: Instant = NEVER
        self._floor_at: Instant = NEVER
        """When to ask for floors that should have come."""
        self._floor_sent: dict[int, int] = {}

    def owe(self, forwarders: Iterable[int], now: Instant) -> None:
        """Plan an acknowledgement to those of the forwarders that are in reach."""
        self.owe_all({forwarder: None for forwarder in forwarders if forwarder in self._reach}, now)

    def owe_all(self, forwarders: dict[int, None], now: Instant) -> None:
        """Plan an acknowledgement to forwarders that are all in reach."""
        owed = self._owed
        owed.update(forwarders)
        self._unacknowledged += 1
        if owed and (self._ack_at == NEVER or self._settings.retain):
            self.plan(now)
        if self._unacknowledged == self._acknowledge_at:
            self._ack_at = self.due_at = now
            self._wake_by(now)

    def plan(self, now: Instant) -> None:
        """Send what is owed after `ack_ns`, unless that is planned already."""
        if self._ack_at == NEVER:
            self._ack_at = now + self._settings.ack_ns
            self._plan_wake(self._ack_at)
        if self._settings.retain:
            self.expect_floors(now)

    def expect_floors(self, now: Instant) -> None:
        """Plan to ask forwarders for their floors, in case one was lost."""
        if self._floor_at == NEVER:
            self._floor_at = now + self._settings.retry_ns_max
            self._plan_wake(self._floor_at)

    def _plan_wake(self, at: Instant) -> None:
        self.due_at = min(self.due_at, at)
        self._wake_by(at)

    def tick(self, now: Instant, ready: Ready) -> None:
        """Send what is due."""
        if now >= self._ack_at:
            self._ack_at = NEVER
            self._unacknowledged = 0
            owed, self._owed = self._owed, {}
            self._send(owed, ready)
        if now >= self._floor_at:
            self._floor_at = NEVER
            if self._state.records:
                self.expect_floors(now)
                ready.send += [Send((source,), Probe(0)) for source in self._state.awaited()]
        self.due_at = min(self._ack_at, self._floor_at)

    def _send(self, owed: dict[int, None], ready: Ready) -> None:
        """Send acknowledgements to those they are owed to, and to those for whom the floor has risen."""
        if not self._settings.retain:
            ready.send += [Send((source,), self._ack(source, 0)) for source in owed]
            return
        for source, floor in self._state.own_floors().items():
            if source in owed or floor > self._floor_sent.get(source, 0):
                self._floor_sent[source] = floor
                ready.send.append(Send((source,), self._ack(source, floor)))

    def ack_of(self, source: int) -> Ack:
        """Return an acknowledgement of a source's messages, as of now."""
        floor = self._state.own_floors()[source] if self._settings.retain else 0
        return self._ack(source, floor)

    def _ack(self, source: int, floor: int) -> Ack:
        state = self._state
        reached = upto = state.reached(source)
        opened = state.open.get(source, {})
        if not opened and source not in state.ahead:
            return Ack(upto, b"", floor)
        if opened:
            upto = min(upto, min(opened) - 1)
        rest = bytearray()
        for number in sorted({*range(upto + 1, reached + 1), *opened, *state.ahead.get(source, ())}):
            if len(rest) > LIST_BYTES_MAX // 2:
                break
            put(rest, number)
            names = list(opened[number].names) if number in opened else []
            put(rest, len(names))
            for name in names:
                put(rest, name)
        return Ack(upto, bytes(rest), floor)


def acknowledged_singly(rest: bytes) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield the later numbers that an acknowledgement lists, each with the forwarders that the sender knows it from.

    Malformed bytes end the list: what comes before them was acknowledged all the same.
    """
    reader = Reader(rest)
    try:
        while reader.more():
            number = reader.below(NUMBER_END)
            count = reader.below(NODES)
            have = frozenset([reader.below(NODES) for _ in range(min(count, LIST_BYTES_MAX))]) if count else ALL
            yield number, have
    except ValueError:
        return
