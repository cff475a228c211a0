"""Codings that remember: both ends of a link keep what it carried, and a copy says only what is new.

Laws: what was carried belongs to a session of one life of the sender; copies are read in their turn, at arrival. One
that comes out of turn is not read, and the receiver says that the session is lost; the sender then begins another.
Where links are ordered connections, turns need not be written. Only first copies, which go in the order of their
numbers, belong to a session; everything else is whole.
"""

from whence.core.levels.causal.tree.headers import WHOLE, Header
from whence.core.levels.causal.tree.id_patterns import IdPattern
from whence.core.levels.causal.tree.links import Links
from whence.core.levels.causal.tree.pairs import PairNumbers
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import Record, State
from whence.core.varint import Reader, put

FORM_BITS = 2
FRESH = 1 << 2
"""Flag in the first byte: a session begins. The other flags belong to the coding."""

SESSION_END = 1 << 31
TURN_END = 1 << 40


class HeaderTemplate:
    """A pattern as a link names it by an index: with its group and hops, and the place of the reader's number."""

    __slots__ = ("at", "group", "h", "pattern")

    def __init__(self, group: int, h: int, pattern: IdPattern, at: int) -> None:
        self.group = group
        self.h = h
        self.pattern = pattern
        self.at = at


class LinkState:
    """What one direction of a link has carried in a session."""

    __slots__ = (
        "boot",
        "changes",
        "known",
        "latest",
        "pending",
        "session",
        "template_index",
        "templates",
        "turn",
    )  # fmt: skip

    def __init__(self, session: int, boot: int = 0) -> None:
        self.session = session
        self.boot = boot
        self.turn = 0
        self.known: PairNumbers = {}
        """The highest value told for each cell."""
        self.changes = 0
        """How many changes of the sender's past were told."""
        self.pending: PairNumbers = {}
        """Receiver: what was carried since a header was last taken into the past, the numbers of `latest` apart."""
        self.latest: Header | None = None
        """The last one read, unless it was taken into the past."""
        self.template_index: dict[tuple[int, int, IdPattern], int] = {}
        """Sender: the index of each template."""
        self.templates: list[HeaderTemplate] = []
        """Receiver: the template of each index."""


class Sessions(Links):
    """Keeps turns; a coding fills in the rest."""

    form = WHOLE

    def __init__(self, state: State, settings: TreeSettings) -> None:
        super().__init__(state, settings)
        self._ordered = settings.ordered_links
        self._outgoing: dict[int, LinkState] = {}
        self._incoming: dict[int, LinkState] = {}
        self._sessions = 0

    def first(self, record: Record, target: int) -> bytes:
        """Return the header of a copy that is sent for the first time."""
        if record.extra or self._state.ahead:  # rare; only whole headers have names that are not closed, and gaps
            return self.again(record, target)
        link = self._outgoing.get(target)
        flags = 0
        if link is None:
            self._sessions += 1
            link = self._outgoing[target] = LinkState(self._sessions)
            flags = FRESH
        into = bytearray((0,))
        if not self._ordered:
            put(into, link.session)
            put(into, link.turn)
        link.turn += 1
        into[0] = self.form | flags | self.encode(record, target, link, into)
        return bytes(into)

    def read(self, peer: int, boot: int, data: bytes) -> Header | None:
        """Read a header in its turn; None if it cannot be read. Raises ValueError for what is no header."""
        if not data or data[0] & (1 << FORM_BITS) - 1 != self.form:
            return super().read(peer, boot, data)
        at, link = 1, self._incoming.get(peer)
        fresh = data[0] & FRESH
        if self._ordered:
            if fresh and (link is None or boot >= link.boot):
                link = self._incoming[peer] = LinkState(1 if link is None else link.session + 1, boot)
            elif fresh or link is None or boot != link.boot:
                return None
        else:
            reader = Reader(data, 1)
            session, turn = reader.below(SESSION_END), reader.below(TURN_END)
            at = reader.at
            if fresh and (link is None or (boot, session) > (link.boot, link.session)):
                link = self._incoming[peer] = LinkState(session, boot)
            if link is None or (boot, session, turn) != (link.boot, link.session, link.turn):
                return None
        try:
            header = self.decode(peer, link, data, at)
        except ValueError:
            del self._incoming[peer]  # half of it may have been taken in
            raise
        link.turn += 1
        return header

    def encode(self, record: Record, target: int, link: LinkState, into: bytearray) -> int:
        """Write a header as news on top of what was carried; return its flags."""
        raise NotImplementedError

    def decode(self, peer: int, link: LinkState, data: bytes, at: int) -> Header:
        """Read what `tell` wrote, from a place on. Raises ValueError."""
        raise NotImplementedError

    def lost(self, peer: int, session: int) -> None:
        """Begin a new session with a peer that cannot read the present one."""
        link = self._outgoing.get(peer)
        if link is not None and link.session == session:
            del self._outgoing[peer]

    def reset(self, peer: int) -> None:
        """Begin anew with a peer that began a new life."""
        self._outgoing.pop(peer, None)

    def session_in(self, data: bytes) -> int:
        """Return the session that a header belongs to."""
        return Reader(data, 1).take() if not self._ordered else 0
