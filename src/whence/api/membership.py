"""The calls of a group that concern its members, where members join, leave and are removed (living groups).

In other groups there is no view, and asking for a change of the members is refused.
"""

import asyncio
from collections.abc import Sequence

from whence.api.arguments import check_timeout, processes_of
from whence.core.member import Living, ViewStatus
from whence.errors import NotMemberError, OutcomeUnknownError, QuorumError
from whence.net.driver import Driver
from whence.net.founders import number_of
from whence.net.membership import as_told, begin_force, begin_removal, living
from whence.net.peers import PeerTable


class MembershipCalls:
    """What an application and an operator may do about the members of one group."""

    _driver: Driver
    _peers: PeerTable

    def view(self) -> ViewStatus | None:
        """Return the view this member is in: its members, who leads a change of it, and whom that waits for.

        None in groups without views, and once this member is out.
        """
        member = self._driver.member
        if not isinstance(member, Living) or self._driver.is_out:
            return None
        return as_told(member.view_status(), self._peers)

    async def remove(self, who: int | str, timeout_s: float | None = 30.0) -> None:
        """Remove another member, given by its name or pid, and wait until it is out: nothing that it has not shared
        yet takes effect any more.

        Raises QuorumError with the voters that are missing where those that stay may not decide it, also because of a
        change meanwhile, or cannot within `timeout_s`; OutcomeUnknownError, which names whom it waits for, if it takes
        longer for another reason. Where it took too long, the removal stays wanted. Raises UsageError without the right
        to administer the group, for a process that is no other member, and in groups without views.
        """
        check_timeout(timeout_s)
        pid = number_of(self._peers, who)
        driver, member = self._driver, living(self._driver)
        target = begin_removal(driver, pid)
        what = f"process {driver.named(pid)} cannot be removed from group {driver.group!r}"
        try:
            async with asyncio.timeout(timeout_s):
                await driver.until(
                    lambda: driver.left or not self._has(pid, target.joined) or self._is_refused(member, pid)
                )
        except TimeoutError:
            silent = [each.pid for each in self._status().members if each.suspected and each.pid != pid]
            if missing := member.removal_lacks([pid, *silent]):
                raise QuorumError(f"{what} within {timeout_s:g} s", list(map(driver.named, missing))) from None
            waiting = map(driver.named, self._status().waits_for or silent)
            waits = ", ".join(map(str, waiting)) or "whoever leads the change"
            raise OutcomeUnknownError(
                f"{what} within {timeout_s:g} s; it waits for {waits}: whoever of them is gone must be removed too"
            ) from None
        if driver.left:
            driver.check()
        if self._is_refused(member, pid):
            what = f"{what} any more, because its view has changed"
            raise QuorumError(what, list(map(driver.named, member.removal_lacks([pid]))))

    @staticmethod
    def _is_refused(member: Living, pid: int) -> bool:
        """Tell whether a view that was decided meanwhile makes a removal impossible. It is not wanted then any more."""
        return not member.removes(pid) and bool(member.removal_lacks([pid]))

    async def force(
        self, survivors: Sequence[int | str], timeout_s: float | None = 30.0, *, despite_quorum: bool = False
    ) -> None:
        """Go on with these members only, given by name or pid, this one among them, where no quorum of the voters is
        left, and return then.

        **Nothing is promised across it.** What only the others have is lost, also what was acknowledged as `majority`
        or `settled`; and if the others still run, the group is split until they meet the survivors, who count. Then
        they are out, do not learn how far their events took effect, and may join anew. Prefer to bring the others back.
        Where a quorum answers, `remove` does it without such losses, and this is refused unless `despite_quorum`.

        Raises OutcomeUnknownError, which names the survivors that did not answer, if it takes longer than `timeout_s`;
        UsageError where a quorum answers, without the right to administer the group, if this member is leaving or not
        among the survivors, if one of them is no member, and in groups without views.
        """
        check_timeout(timeout_s)
        chosen = [number_of(self._peers, survivor) for survivor in processes_of("survivors", survivors)]
        driver, before = self._driver, self._status().generation
        begin_force(driver, chosen, despite_quorum=despite_quorum)
        try:
            async with asyncio.timeout(timeout_s):
                await driver.until(lambda: driver.left or self._status().generation > before)
        except TimeoutError:
            waits = ", ".join(str(driver.named(pid)) for pid in self._status().waits_for) or "a view to be entered"
            raise OutcomeUnknownError(
                f"group {driver.group!r} was not forced within {timeout_s:g} s; it waits for {waits}: name only "
                "members that run and can be reached"
            ) from None
        driver.check()

    def _has(self, pid: int, joined: int) -> bool:
        return any((each.pid, each.joined) == (pid, joined) for each in self._status().members)

    def _status(self) -> ViewStatus:
        status = living(self._driver).view_status()
        if status is None:
            raise NotMemberError(f"this process is in no view of group {self._driver.group!r}")
        return status
