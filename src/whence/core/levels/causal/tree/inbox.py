"""Copies that arrive: duplicates, copies that are ready to be processed, and copies that are held until they are.

The sentence that decides: a copy is processed when everything that its dependencies number for this node was processed
here, except its own numbers. A duplicate needs no such test: it only adds vectors.
Law: a held copy is not acknowledged, so dropping one is safe. It comes again.
Source: LoCaMu, sections 4.3 and 4.6.
"""

from collections.abc import Callable

from msgspec import Struct

from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.items import Ask, Lookup
from whence.core.levels.causal.tree.outbox import Outbox
from whence.core.levels.causal.tree.pairs import NODE_BITS, PairNumbers
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import Record, State, Uid
from whence.core.ready import NEVER, Note, Ready, Send
from whence.types import Bundle, Instant

ASKS_MAX = 8
"""Held copies, the oldest first, whose missing messages are asked for at a time."""


class Waiting(Struct, eq=False):
    """A copy that arrived, and when."""

    sender: int
    header: Header
    bundle: Bundle
    uid: Uid
    number: int
    since: Instant
    deps: PairNumbers
    """What it follows, by its header and by the answers of nodes that it jumped over."""
    fence_asked_at: Instant = -NEVER
    fenced: dict[int, int] | None = None
    """The numbers that the nodes it jumped over have confirmed, by pair."""


class Inbox:
    """Decides what becomes of every copy."""

    def __init__(
        self,
        state: State,
        outbox: Outbox,
        settings: TreeSettings,
        on_first: Callable[[Waiting, Instant, Ready], None],
        on_duplicate: Callable[[Record, Header, Instant, Ready], None],
        passes_fence: Callable[[Waiting, Instant, Ready], bool] | None,
    ) -> None:
        """`passes_fence` is needed with f >= 2."""
        self.state = state
        self.outbox = outbox
        self.settings = settings
        self.held: dict[tuple[int, int], Waiting] = {}
        """By forwarder and its number."""
        self.wake_at: Instant = NEVER
        self._acks = outbox.acks
        self._on_first = on_first
        self._on_duplicate = on_duplicate
        self._passes_fence = passes_fence

    def take(self, sender: int, header: Header, bundle: Bundle, now: Instant, ready: Ready) -> None:
        """Process a copy, or hold it."""
        number = header.number or (header.number_for(self.state.me) if self._is_ours(header) else 0)
        if not number:
            ready.notes.append(Note("reject", "not_for_me", bundle, sender))
            return
        uid = (bundle.pid, bundle.incarnation, bundle.first)
        waiting = Waiting(sender, header, bundle, uid, number, now, header.deps)
        if self.settle(waiting, now, ready):
            if self.held:
                self.pump(now, ready)
            return
        if (header.last, number) in self.held:
            return
        if len(self.held) >= self.settings.held_copies_max:
            ready.notes.append(Note("drop", "held_full", bundle, sender))
            return
        self.held[header.last, number] = waiting
        self._ask_by(now)

    def take_trail(self, sender: int, header: Header, uid: Uid, now: Instant, ready: Ready) -> None:
        """Add the vectors of a copy without payload, if its message is known."""
        state = self.state
        record = state.records.get(uid) if state.index is None else state.index.find(header.ids, header.extra)
        if record is not None:
            self._on_duplicate(record, header, now, ready)
        self._acks.owe([sender], now)
        if record is not None and self.held:
            self.pump(now, ready)

    def _is_ours(self, header: Header) -> bool:
        """Tell whether a header is of this epoch, and its forwarder in reach."""
        overlay = self.state.place.overlay
        return header.epoch == overlay.epoch and header.group < overlay.group_count and header.last in self.outbox.peers

    def settle(self, waiting: Waiting, now: Instant, ready: Ready) -> bool:
        """Process a copy if possible; return False if it must be held."""
        header, state = waiting.header, self.state
        record = state.records.get(waiting.uid) if state.index is None else state.index.find(header.ids, header.extra)
        if record is not None:
            self._on_duplicate(record, header, now, ready)
            self._acks.owe([waiting.sender], now)
        elif waiting.number <= state.past.get(header.last << NODE_BITS | state.me, 0) or (
            state.ahead and state.has(header.last, waiting.number)
        ):
            self._acks.owe([header.last, waiting.sender], now)
            ready.notes.append(Note("drop", "duplicate", waiting.bundle, waiting.sender))
        elif not self.is_ready(waiting, now, ready):
            return False
        elif len(state.records) >= self.settings.records_max or (
            state.retained_bytes >= self.settings.retained_bytes_max
        ):
            ready.notes.append(Note("drop", "records_full", waiting.bundle, waiting.sender))
        else:
            self._on_first(waiting, now, ready)
        return True

    def is_ready(self, waiting: Waiting, now: Instant, ready: Ready) -> bool:
        """Tell whether everything that a copy follows was processed here."""
        state, header = self.state, waiting.header
        if waiting.deps and state.missing(header, waiting.deps):
            return False
        index = state.index
        if index is not None and not index.is_safe(header.ids | header.extra, header.h, header.last, state.me):
            return False
        return self._passes_fence is None or self._passes_fence(waiting, now, ready)

    def pump(self, now: Instant, ready: Ready) -> None:
        """Process held copies until none is ready."""
        progress = True
        while progress:
            progress = False
            for key, waiting in list(self.held.items()):
                if self.settle(waiting, now, ready):
                    del self.held[key]
                    progress = True

    def tick(self, now: Instant, ready: Ready) -> None:
        """Ask the sources of missing messages, and other nodes if a source is suspected."""
        if now < self.wake_at:
            return
        self.wake_at = NEVER
        if not self.held:
            return
        wanted: dict[int, int] = {}
        for waiting in list(self.held.values())[:ASKS_MAX]:
            if now - waiting.since >= self.settings.ask_ns:
                missing = self.state.missing(waiting.header, waiting.deps)
                for source, number in missing:
                    wanted[source] = max(wanted.get(source, 0), number)
                if not missing:
                    self.is_ready(waiting, now, ready)  # asks the nodes that it jumped over once more
        self.ask(wanted, now, ready)
        self._ask_by(now)

    def ask(self, wanted: dict[int, int], now: Instant, ready: Ready) -> None:
        """Ask each source for the messages that it numbered for this node."""
        for source, number in wanted.items():
            reached = self.state.reached(source)
            ready.send.append(Send((source,), Ask(reached, number)))
            if source in self.outbox.suspects.now:
                others = tuple(peer for peer in self.outbox.active if peer != source)
                ready.send.append(Send(others, Lookup(source, reached, number)))

    def _ask_by(self, now: Instant) -> None:
        self.wake_at = min(self.wake_at, now + self.settings.ask_ns)
