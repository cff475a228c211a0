"""How a process gets into a living group: it comes back, begins it with the named founders or alone, or is added.

Law: a journal with a membership is enough to come back. A group with a member anywhere is joined, also by a founder
whose journal is gone; it is begun alone only where that was asked for (`create`). A process is in when its member is
live.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from whence.core.member import Living
from whence.net.opening import LOOK_S, GroupOpening
from whence.net.peers import PeerPresence
from whence.types import Process


class LivingOpening(GroupOpening):
    """One process on its way into one living group."""

    create = False
    """Whether it may begin the group alone."""
    was_there = False
    """Whether its journal has an earlier membership, which may have ended."""

    _contacted: Sequence[int] = ()

    async def run(self) -> None:
        """Come back, or begin or join the group; return when the member is live, or out. Raises UsageError."""
        driver = self._driver
        member = driver.member
        assert isinstance(member, Living)
        if not member.is_member:
            await super().run()
        while not (driver.joined or driver.left):
            self.waits_for = member.opening_waits_for()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await driver.until(lambda: driver.joined or driver.left)
            if not member.is_member:
                self._ask_again()

    def _ask_again(self) -> None:
        """Ask those that are members by now: those that were asked may be gone."""
        members = [said.process.pid for said in self._peers.members(self._group)]
        if members and members != self._contacted:
            self._join(members)

    def _join(self, members: list[int]) -> None:
        self._contacted = members
        self._driver.runner.ask(self._driver.member.join, members)

    def _go_on(self, founders: list[Process]) -> None:
        """Begin as the founder that an earlier incarnation was: it died before it had written or sent anything."""
        self._begin(founders)

    def _lists_former(self, said: PeerPresence) -> bool:
        return not self.was_there and super()._lists_former(said)

    def _may_begin_alone(self) -> bool:
        if not self.create and not self._named:
            self.waits_for = "a member of it (create=True begins it)"
        return self.create and not self._named
