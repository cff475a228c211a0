"""Codings with state: both ends of a link remember what it has carried, and a header contains only what is new.

Laws: link state belongs to a session, and a session to one incarnation of the sender. Headers are read at arrival, in
their turn, before anything is held. A header out of turn is not read: the receiver reports the session as lost, and the
sender starts another (E22). On ordered connections, session and turn need not be written. Only first copies belong to a
session, because they are sent in the order of their numbers; everything else is whole.
Source: LoCaMu, section 7.2.
"""

from whence.core.levels.causal.tree.coding import HeaderCoding
from whence.core.levels.causal.tree.headers import WHOLE, Header
from whence.core.levels.causal.tree.id_patterns import IdPattern
from whence.core.levels.causal.tree.pairs import PairNumbers
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import Record, State
from whence.core.varint import Reader, put

FORM_BITS = 2
FRESH = 1 << 2
"""Flag in the first byte: a session starts. The other flags belong to the coding."""

SESSION_END = 1 << 31
TURN_END = 1 << 40


class HeaderTemplate:
    """What many headers on a link have in common, named by an index: group, hops and id pattern.

    `at` is the position of the number for the reader, -1: none.
    """

    __slots__ = ("at", "group", "h", "pattern")

    def __init__(self, group: int, h: int, pattern: IdPattern, at: int) -> None:
        self.group = group
        self.h = h
        self.pattern = pattern
        self.at = at


class LinkState:
    """What one direction of a link has carried in a session. Both ends keep one, and they agree."""

    __slots__ = (
        "changes",
        "incarnation",
        "known",
        "latest",
        "pending",
        "session",
        "template_index",
        "templates",
        "turn",
    )  # fmt: skip

    def __init__(self, session: int, incarnation: int = 0) -> None:
        self.session = session
        self.incarnation = incarnation
        self.turn = 0
        self.known: PairNumbers = {}
        """The highest number carried for each pair."""
        self.changes = 0
        """Sender: up to which count of changes its past was sent."""
        self.pending: PairNumbers = {}
        """Receiver: what was carried since a header was last merged into the past, without the numbers of `latest`."""
        self.latest: Header | None = None
        """Receiver: the last header, unless it was merged into the past."""
        self.template_index: dict[tuple[int, int, IdPattern], int] = {}
        """Sender: the index of each template."""
        self.templates: list[HeaderTemplate] = []
        """Receiver: the template of each index."""


class SessionCoding(HeaderCoding):
    """Keeps sessions and turns; a coding adds what its headers contain."""

    form = WHOLE

    def __init__(self, state: State, settings: TreeSettings) -> None:
        super().__init__(state, settings)
        self._ordered = settings.ordered_links
        self._outgoing: dict[int, LinkState] = {}
        self._incoming: dict[int, LinkState] = {}
        self._sessions = 0

    def first(self, record: Record, target: int) -> bytes:
        """Return the header of a first copy."""
        if record.extra or self._state.ahead:  # rare; only whole headers can have extra vectors, and gaps
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

    def read(self, peer: int, incarnation: int, data: bytes) -> Header | None:
        """Decode a header in its turn; None if it is out of turn. Raises ValueError if it is malformed."""
        if not data or data[0] & (1 << FORM_BITS) - 1 != self.form:
            return super().read(peer, incarnation, data)
        at, link = 1, self._incoming.get(peer)
        fresh = data[0] & FRESH
        if self._ordered:
            if fresh and (link is None or incarnation >= link.incarnation):
                link = self._incoming[peer] = LinkState(1 if link is None else link.session + 1, incarnation)
            elif fresh or link is None or incarnation != link.incarnation:
                return None
        else:
            reader = Reader(data, 1)
            session, turn = reader.below(SESSION_END), reader.below(TURN_END)
            at = reader.at
            if fresh and (link is None or (incarnation, session) > (link.incarnation, link.session)):
                link = self._incoming[peer] = LinkState(session, incarnation)
            if link is None or (incarnation, session, turn) != (link.incarnation, link.session, link.turn):
                return None
        try:
            header = self.decode(peer, link, data, at)
        except ValueError:
            del self._incoming[peer]  # half of it may be in the link state
            raise
        link.turn += 1
        return header

    def encode(self, record: Record, target: int, link: LinkState, into: bytearray) -> int:
        """Write what a header adds to the link state, and add it there; return the flags."""
        raise NotImplementedError

    def decode(self, peer: int, link: LinkState, data: bytes, at: int) -> Header:
        """Read what `encode` wrote, from a position on, and add it to the link state. Raises ValueError."""
        raise NotImplementedError

    def lost(self, peer: int, session: int) -> None:
        """Start a new session with a peer that cannot read the present one."""
        link = self._outgoing.get(peer)
        if link is not None and link.session == session:
            del self._outgoing[peer]

    def reset(self, peer: int) -> None:
        """Start a new session with a peer that has restarted."""
        self._outgoing.pop(peer, None)

    def session_in(self, data: bytes) -> int:
        """Return the session that a header belongs to."""
        return Reader(data, 1).take() if not self._ordered else 0
