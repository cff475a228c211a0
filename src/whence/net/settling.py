"""Which of a publisher's own events the other members have, and who is behind; as the level reports it, or as they
do."""

from whence.core.credit import Credit
from whence.core.member import Member, Settled
from whence.net.context import NodeServices


class Settling:
    """One publisher's view of one group. The publisher itself never counts."""

    def __init__(self, group: str, me: int, member: Member, credit: Credit, node: NodeServices) -> None:
        self._group, self._me = group, me
        self._credit = credit
        self._node = node
        self._member = member if isinstance(member, Settled) else None

    def settled(self) -> int:
        """Return the last own event that every other member has."""
        known = self._member.settled() if self._member is not None else None
        if known is None:
            known = min([self._credit.reported_by(pid) for pid in self._others()], default=self._credit.last)
        return known

    def missing(self, last: int) -> tuple[int, ...]:
        """Return the other members that are not known to have our own events up to this one."""
        known = self._member.missing(last) if self._member is not None else None
        if known is None:
            known = tuple(pid for pid in self._others() if self._credit.reported_by(pid) < last)
        return tuple(map(self._node.named, known))

    def behind(self) -> tuple[int, ...]:
        """Return the other members that are not known to have all that was published here."""
        return self.missing(self._credit.last)

    def slowest(self) -> tuple[int, ...]:
        """Return the other members that are not known to have the oldest own event that is not settled: publishers here
        wait for them."""
        return self.missing(self.settled() + 1) if self.settled() < self._credit.last else ()

    def _others(self) -> list[int]:
        return [pid for pid in self._node.members(self._group) if pid != self._me]
