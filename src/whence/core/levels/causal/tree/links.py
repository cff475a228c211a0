"""Headers on links: which coding each copy gets, and what both ends of a link remember to make it short.

Rules for any coding that remembers: baselines belong to a session of one life of the sender and are read at arrival,
before anything is held; a copy that does not come in its turn is not read, and the receiver asks for a new session.
Retransmissions, answers and replays are whole (section 7.2).
"""

from whence.core.levels.causal.tree.headers import CUT, NUMBER_END, WHOLE, Header, decode_whole, encode_whole
from whence.core.levels.causal.tree.id_patterns import Vectors
from whence.core.levels.causal.tree.items import HEADER_BYTES_MAX
from whence.core.levels.causal.tree.pairs import PairNumbers
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import Record, State

CELLS_MORE = 64
"""Vectors and dependencies name at most every pair near a forwarder, and some twice; a header with far more is none."""


class Cost:
    """Bytes of ordering metadata on the wire, and copies that carried them."""

    __slots__ = ("bytes", "copies", "most")

    def __init__(self) -> None:
        self.bytes = 0
        self.copies = 0
        self.most = 0

    def add(self, size: int) -> None:
        """Count a copy."""
        self.bytes += size
        self.copies += 1
        if size > self.most:
            self.most = size


def name_bytes(record: Record) -> int:
    """Return how many bytes a message's name takes in its bundle."""
    size = 3
    if max(record.uid) > 127:
        size = sum([1 if part < 128 else 3 if part < 65536 else 5 for part in record.uid])
    record.name_bytes = size
    return size


class Links:
    """The headers of one member, for all its links. This one remembers nothing: every header is whole."""

    number_end = NUMBER_END
    """Numbers stay below it: what the coding can write."""

    def __init__(self, state: State, settings: TreeSettings) -> None:
        self._state = state
        self._place = place = state.place
        self._pruned = not settings.replay
        self._cells_max = 2 * len(place.pairs) + CELLS_MORE
        self.cost = Cost()

    def first(self, record: Record, target: int) -> bytes:
        """Return the header of a copy that is sent for the first time, in the order of its numbers."""
        return self.again(record, target)

    def again(self, record: Record, target: int) -> bytes:
        """Return the header of a copy that may be sent at any time."""
        header = encode_whole(self.header_of(record, target, cut=self._pruned))
        if len(header) > HEADER_BYTES_MAX and not self._pruned:
            header = encode_whole(self.header_of(record, target, cut=True))
        self.cost.add(len(header) + name_bytes(record))
        return header

    def as_it_came(self, header: Header) -> bytes:
        """Return a header that another forwarder made, to be replayed for it."""
        data = encode_whole(header)
        self.cost.add(len(data))
        return data

    def header_of(self, record: Record, target: int, *, cut: bool) -> Header:
        """Return what a record says to a target: the state at its forwarding, never today's."""
        place = self._place
        ids, extra, deps = record.ids, record.extra, record.deps
        if cut:
            ids, extra, deps = self.pruned(ids, target), self.pruned(extra, target), self.pruned_cells(deps, target)
        return Header(record.group, place.overlay.epoch, place.me, record.h, ids, extra, deps, cut=cut)

    def pruned(self, vectors: Vectors, target: int) -> Vectors:
        """Return the vectors and entries whose both ends are near the target."""
        near = self._place.overlay.near(target)
        return {
            source: {to: number for to, number in numbers.items() if to in near}
            for source, numbers in vectors.items()
            if source in near
        }

    def pruned_cells(self, cells: PairNumbers, target: int) -> PairNumbers:
        """Return the cells whose both ends are near the target."""
        pairs = self._place.overlay.pairs(target)
        return {key: value for key, value in cells.items() if key in pairs}

    def read(self, peer: int, boot: int, data: bytes) -> Header | None:
        """Read a header; None if it belongs to a session that was lost. Raises ValueError for what is no header."""
        if not data or data[0] & ~CUT != WHOLE:
            raise ValueError("not a header of a coding this member reads")
        return decode_whole(data, self._cells_of, self.number_end)

    def _cells_of(self, forwarder: int) -> int:
        """Return how many cells a header of a forwarder may name."""
        place = self._place
        if forwarder not in place.near:
            return self._cells_max
        return 2 * len(place.overlay.pairs(forwarder)) + CELLS_MORE

    def merged(self, header: Header, record: Record) -> None:
        """Learn that a header was taken into the past and forwarded."""

    def lost(self, peer: int, session: int) -> None:
        """Learn that a peer cannot read a session any more."""

    def reset(self, peer: int) -> None:
        """Forget what was agreed with a peer: it began a new life."""

    def session_in(self, data: bytes) -> int:
        """Return the session that a header belongs to."""
        return 0
