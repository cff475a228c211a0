"""Codings that remember: both ends of a link keep what it carried, and a copy says only what is new.

Laws: what was carried belongs to a session of one life of the sender; copies are read in their turn, at arrival. One
that comes out of turn is not read, and the receiver says that the session is lost; the sender then begins another.
Where links are ordered connections, turns need not be written. Only first copies, which go in the order of their
numbers, belong to a session; everything else is whole.
"""

from whence.core.levels.causal.tree.heads import WHOLE, Head
from whence.core.levels.causal.tree.links import Links
from whence.core.levels.causal.tree.overlay import Cells
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.shapes import Shape
from whence.core.levels.causal.tree.state import Record, State
from whence.core.varint import Reader, put

FORM_BITS = 2
FRESH = 1 << 2
"""Flag in the first byte: a session begins. The other flags belong to the coding."""

SESSION_END = 1 << 31
TURN_END = 1 << 40


class Pattern:
    """A shape as a link names it by an index: with its group and hops, and the place of the reader's number."""

    __slots__ = ("at", "group", "h", "shape")

    def __init__(self, group: int, h: int, shape: Shape, at: int) -> None:
        self.group = group
        self.h = h
        self.shape = shape
        self.at = at


class Carried:
    """What one direction of a link has carried in a session."""

    __slots__ = (
        "boot", "changes", "known", "latest", "patterns", "pending", "session", "shapes", "turn",
    )  # fmt: skip

    def __init__(self, session: int, boot: int = 0) -> None:
        self.session = session
        self.boot = boot
        self.turn = 0
        self.known: Cells = {}
        """The highest value told for each cell."""
        self.changes = 0
        """How many changes of the sender's past were told."""
        self.pending: Cells = {}
        """Receiver: what was carried since a head was last taken into the past, the numbers of `latest` apart."""
        self.latest: Head | None = None
        """The last one read, unless it was taken into the past."""
        self.shapes: dict[tuple[int, int, Shape], int] = {}
        """Sender: the index of each pattern."""
        self.patterns: list[Pattern] = []
        """Receiver: the pattern of each index."""


class Sessions(Links):
    """Keeps turns; a coding fills in the rest."""

    form = WHOLE

    def __init__(self, state: State, settings: TreeSettings) -> None:
        super().__init__(state, settings)
        self._ordered = settings.ordered_links
        self._sent: dict[int, Carried] = {}
        self._came: dict[int, Carried] = {}
        self._sessions = 0

    def first(self, record: Record, target: int) -> bytes:
        """Return the head of a copy that is sent for the first time."""
        if record.extra or self._state.ahead:  # rare; only whole heads have names that are not closed, and gaps
            return self.again(record, target)
        carried = self._sent.get(target)
        flags = 0
        if carried is None:
            self._sessions += 1
            carried = self._sent[target] = Carried(self._sessions)
            flags = FRESH
        into = bytearray((0,))
        if not self._ordered:
            put(into, carried.session)
            put(into, carried.turn)
        carried.turn += 1
        into[0] = self.form | flags | self.tell(record, target, carried, into)
        return bytes(into)

    def read(self, peer: int, boot: int, data: bytes) -> Head | None:
        """Read a head in its turn; None if it cannot be read. Raises ValueError for what is no head."""
        if not data or data[0] & (1 << FORM_BITS) - 1 != self.form:
            return super().read(peer, boot, data)
        at, carried = 1, self._came.get(peer)
        fresh = data[0] & FRESH
        if self._ordered:
            if fresh and (carried is None or boot >= carried.boot):
                carried = self._came[peer] = Carried(1 if carried is None else carried.session + 1, boot)
            elif fresh or carried is None or boot != carried.boot:
                return None
        else:
            reader = Reader(data, 1)
            session, turn = reader.below(SESSION_END), reader.below(TURN_END)
            at = reader.at
            if fresh and (carried is None or (boot, session) > (carried.boot, carried.session)):
                carried = self._came[peer] = Carried(session, boot)
            if carried is None or (boot, session, turn) != (carried.boot, carried.session, carried.turn):
                return None
        try:
            head = self.hear(peer, carried, data, at)
        except ValueError:
            del self._came[peer]  # half of it may have been taken in
            raise
        carried.turn += 1
        return head

    def tell(self, record: Record, target: int, carried: Carried, into: bytearray) -> int:
        """Write a head as news on top of what was carried; return its flags."""
        raise NotImplementedError

    def hear(self, peer: int, carried: Carried, data: bytes, at: int) -> Head:
        """Read what `tell` wrote, from a place on. Raises ValueError."""
        raise NotImplementedError

    def lost(self, peer: int, session: int) -> None:
        """Begin a new session with a peer that cannot read the present one."""
        carried = self._sent.get(peer)
        if carried is not None and carried.session == session:
            del self._sent[peer]

    def reset(self, peer: int) -> None:
        """Begin anew with a peer that began a new life."""
        self._sent.pop(peer, None)

    def session_in(self, data: bytes) -> int:
        """Return the session that a head belongs to."""
        return Reader(data, 1).take() if not self._ordered else 0
