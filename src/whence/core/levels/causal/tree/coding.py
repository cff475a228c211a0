"""How headers are coded on links. The coding of this module keeps no state: every header is whole.

Law: retransmissions, answers and replays are whole in every coding, because they may come at any time. A coding may
shorten first copies only; sessions.py has the rules.
Source: LoCaMu, section 7.2.
"""

from whence.core.levels.causal.tree.headers import CUT, NUMBER_END, WHOLE, Header, decode_whole, encode_whole
from whence.core.levels.causal.tree.id_patterns import Vectors
from whence.core.levels.causal.tree.items import HEADER_BYTES_MAX
from whence.core.levels.causal.tree.pairs import PairNumbers
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import Record, State

ENTRIES_SPARE = 64
"""A header has at most two numbers for each pair near its forwarder, and these. One with more is malformed."""


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
    """Return the bytes of a message's name in its bundle."""
    size = 3
    if max(record.uid) > 127:
        size = sum([1 if part < 128 else 3 if part < 65536 else 5 for part in record.uid])
    record.name_bytes = size
    return size


class HeaderCoding:
    """Encodes and decodes the headers of one node, for all its links. Here every header is whole."""

    number_end = NUMBER_END
    """Numbers are below it: what the coding can write."""

    def __init__(self, state: State, settings: TreeSettings) -> None:
        self._state = state
        self._place = place = state.place
        self._pruned = not settings.replay
        self._entries_max = 2 * len(place.pairs) + ENTRIES_SPARE
        self.cost = Cost()

    def first(self, record: Record, target: int) -> bytes:
        """Return the header of a first copy. First copies are sent in the order of their numbers."""
        return self.again(record, target)

    def again(self, record: Record, target: int) -> bytes:
        """Return a header that may be sent at any time."""
        header = encode_whole(self.header_of(record, target, cut=self._pruned))
        if len(header) > HEADER_BYTES_MAX and not self._pruned:
            header = encode_whole(self.header_of(record, target, cut=True))
        self.cost.add(len(header) + name_bytes(record))
        return header

    def as_it_came(self, header: Header) -> bytes:
        """Return another forwarder's header, to be replayed for it."""
        data = encode_whole(header)
        self.cost.add(len(data))
        return data

    def header_of(self, record: Record, target: int, *, cut: bool) -> Header:
        """Return the header of a record for a target, with the dependencies of its forwarding, never later ones."""
        place = self._place
        ids, extra, deps = record.ids, record.extra, record.deps
        if cut:
            ids, extra, deps = self.pruned(ids, target), self.pruned(extra, target), self.pruned_deps(deps, target)
        return Header(record.group, place.overlay.epoch, place.me, record.h, ids, extra, deps, cut=cut)

    def pruned(self, vectors: Vectors, target: int) -> Vectors:
        """Return the vectors and numbers whose two nodes are both near the target."""
        near = self._place.overlay.near(target)
        return {
            source: {to: number for to, number in numbers.items() if to in near}
            for source, numbers in vectors.items()
            if source in near
        }

    def pruned_deps(self, numbers: PairNumbers, target: int) -> PairNumbers:
        """Return the dependencies whose two nodes are both near the target."""
        pairs = self._place.overlay.pairs(target)
        return {key: value for key, value in numbers.items() if key in pairs}

    def read(self, peer: int, incarnation: int, data: bytes) -> Header | None:
        """Decode a header; None if it belongs to a lost session. Raises ValueError if it is malformed."""
        if not data or data[0] & ~CUT != WHOLE:
            raise ValueError("not a header of a coding this member reads")
        return decode_whole(data, self._entries_of, self.number_end)

    def _entries_of(self, forwarder: int) -> int:
        """Return how many numbers each part of a forwarder's header may have."""
        place = self._place
        if forwarder not in place.near:
            return self._entries_max
        return 2 * len(place.overlay.pairs(forwarder)) + ENTRIES_SPARE

    def merged(self, header: Header, record: Record) -> None:
        """Note that a header was merged into the past and its message forwarded."""

    def lost(self, peer: int, session: int) -> None:
        """Note that a peer cannot read a session any more."""

    def reset(self, peer: int) -> None:
        """Drop the session with a peer that has restarted."""

    def session_in(self, data: bytes) -> int:
        """Return the session that a header belongs to."""
        return 0
