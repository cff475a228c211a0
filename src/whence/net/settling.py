"""Which of a publisher's own events the other members have, and who is behind; as the level reports it, or as they
do."""

from collections.abc import Iterable

from whence.core.credit import Credit
from whence.core.member import Member, Settled
from whence.net.context import NodeServices
from whence.net.left_out import LeftOut


class Settling:
    """One publisher's view of one group. The publisher itself never counts."""

    def __init__(self, group: str, me: int, member: Member, credit: Credit, node: NodeServices) -> None:
        self._group, self._me = group, me
        self._credit = credit
        self._node = node
        self._member = member if isinstance(member, Settled) else None
        self._left_out: dict[int, LeftOut] = {}
        """Of members that left own events out: which."""

    def left_out_by(self, peer: int, spans: Iterable[tuple[int, int]]) -> None:
        """Note own events that a member left out."""
        self._left_out.setdefault(peer, LeftOut()).add_all(spans)

    def without(self, first: int, last: int) -> tuple[int, ...]:
        """Return the members that left out own events of a span."""
        found = [peer for peer, events in self._left_out.items() if events.has_any(first, last)]
        return tuple(map(self._node.named, found))

    def perhaps_without(self, first: int, last: int) -> tuple[int, ...]:
        """Return the members of which it is not known any more whether they left out own events of a span."""
        found = [peer for peer, events in self._left_out.items() if events.may_have_any(first, last)]
        return tuple(map(self._node.named, found))

    def settled(self) -> int:
        """Return the last own event that every other member has."""
        known = self._member.settled() if self._member is not None else None
        if known is None:
            known = min([self._passed_by(pid) for pid in self._others()], default=self._credit.last)
        return known

    def missing(self, last: int) -> tuple[int, ...]:
        """Return the other members that are not known to have our own events up to this one."""
        known = self._member.missing(last) if self._member is not None else None
        if known is None:
            known = tuple(pid for pid in self._others() if self._passed_by(pid) < last)
        return tuple(map(self._node.named, known))

    def behind(self) -> tuple[int, ...]:
        """Return the other members that are not known to have all that was published here."""
        return self.missing(self._credit.last)

    def slowest(self) -> tuple[int, ...]:
        """Return the other members that are not known to have the oldest own event that is not settled: publishers here
        wait for them."""
        return self.missing(self.settled() + 1) if self.settled() < self._credit.last else ()

    def _passed_by(self, pid: int) -> int:
        """Return the last own event that a member has, or left out after all that it has."""
        last = self._credit.reported_by(pid)
        return self._left_out[pid].beyond(last) if pid in self._left_out else last

    def _others(self) -> list[int]:
        return [pid for pid in self._node.members(self._group) if pid != self._me]
