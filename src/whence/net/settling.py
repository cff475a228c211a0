"""What of a publisher's own events the other members have, and who is behind; as the level tells, or they do."""

from whence.core.member import FlowControlled, Member, Settled
from whence.errors import BackPressureError
from whence.net.context import NodeServices
from whence.net.credit import Credit


class Settling:
    """One publisher's view of one group. The publisher itself never counts."""

    def __init__(self, group: str, me: int, member: Member, credit: Credit, node: NodeServices) -> None:
        self._group, self._me = group, me
        self._credit = credit
        self._node = node
        self._member = member if isinstance(member, Settled) else None
        self._controlled = member if isinstance(member, FlowControlled) else None

    def settled(self) -> int:
        """Return the last own event that every other member has."""
        known = self._member.settled() if self._member is not None else None
        if known is None:
            known = min([self._credit.told_by(pid) for pid in self._others()], default=self._credit.last)
        return known

    def missing(self, last: int) -> tuple[int, ...]:
        """Return the other members that are not known to have the own events up to this one."""
        known = self._member.missing(last) if self._member is not None else None
        if known is None:
            known = tuple(pid for pid in self._others() if self._credit.told_by(pid) < last)
        return known

    def behind(self) -> tuple[int, ...]:
        """Return the other members that are not known to have all that was published here."""
        return self.missing(self._credit.last)

    def pressure(self) -> BackPressureError:
        """Return the error that says how much is under way, and to whom."""
        window = self._controlled.full_window() if self._controlled is not None else None
        if window is not None:
            return BackPressureError(*window, "the mergers")
        credit = self._credit
        behind = [f"process {pid}" if pid != self._me else "the application here" for pid in credit.behind()]
        return BackPressureError("CREDIT_BYTES", credit.limit_bytes(), credit.away_bytes, ", ".join(behind[:8]))

    def _others(self) -> list[int]:
        return [pid for pid in self._node.members(self._group) if pid != self._me]
