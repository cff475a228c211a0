"""The calls of a group that concern its ticket: at level `optimistic` a process publishes only while it holds one.

At levels without tickets there is nothing to obtain, and asking for one is refused.
"""

import asyncio

from whence.api.arguments import check_timeout
from whence.api.room import Room
from whence.core.ticket_status import TicketStatus, dead_argument
from whence.errors import OutcomeUnknownError, UsageError
from whence.limits import INCARNATION_MAX, MERGED_PEER_ID_MAX
from whence.net.driver import Driver
from whence.net.founders import number_of
from whence.net.peers import PeerTable
from whence.types import Process


class TicketCalls:
    """What an application and an operator may do about the ticket of one group."""

    _peers: PeerTable

    def __init__(self, driver: Driver, room: Room) -> None:
        self._driver = driver
        self._room = room

    def ticket(self) -> TicketStatus | None:
        """Return how this process stands: its ticket and epoch, how long its lease lasts, and why it may not publish.

        None at levels without tickets. (ticket, epoch) guards resources outside, if they refuse a smaller epoch.
        """
        return self._driver.ticket()

    async def acquire_ticket(self, timeout_s: float = 30.0) -> TicketStatus:
        """Ask for a ticket (the paper's cjoin), and wait until it may be used.

        Raises NotCoordinatorError or LeaseSuspendedError, which say why, if that takes longer than `timeout_s`; the
        request stands until `release_ticket`. Raises UsageError where one is asked for already, and at levels without
        tickets.
        """
        check_timeout(timeout_s)
        self._check_has_tickets()
        self._driver.act("acquire_ticket", 0)
        await self._room.unrefused(timeout_s)
        status = self._driver.ticket()
        assert status is not None
        return status

    async def release_ticket(self, timeout_s: float = 30.0) -> None:
        """Give the ticket back (the paper's cleave), and wait until that is done; stay as a member that receives.

        Raises UsageError without one, and for the last coordinator, which must stay; OutcomeUnknownError if no other
        process took it over within `timeout_s`: it will still be found closed.
        """
        check_timeout(timeout_s)
        self._check_has_tickets()
        driver = self._driver
        driver.act("release_ticket", 0)
        try:
            async with asyncio.timeout(timeout_s):
                await driver.until(lambda: (s := driver.ticket()) is None or s.ticket is None or driver.left)
        except TimeoutError:
            raise OutcomeUnknownError(f"nobody took the ticket over within {timeout_s:g} s") from None

    cjoin, cleave = acquire_ticket, release_ticket
    """The older names of both: the paper's."""

    def declare_dead(self, who: int | str, incarnation: int) -> None:
        """State as an operator that an incarnation of a peer, given by its name or pid, is gone for good: in this
        process it counts as the peer's own statement.

        Helps where more than k witnesses are gone, and only then (`ticket().waits_for`); given wrongly, two may act at
        once. Raises UsageError if the peer was heard from a moment ago, or the level has no tickets.
        """
        self._check_has_tickets()
        pid = number_of(self._peers, who) if isinstance(who, str) else who
        if not _is_number(pid, MERGED_PEER_ID_MAX) or not _is_number(incarnation, INCARNATION_MAX):
            raise UsageError(
                f"a process is a pid from 0 to {MERGED_PEER_ID_MAX} and an incarnation from 0 to {INCARNATION_MAX}, "
                f"not {pid!r} and {incarnation!r}"
            )
        self._driver.act("declare_dead", dead_argument(Process(pid, incarnation)))

    def _check_has_tickets(self) -> None:
        if self._driver.ticket() is None:
            raise UsageError(f"level {self._driver.context.level} has no tickets")


def _is_number(value: object, most: int) -> bool:
    return type(value) is int and 0 <= value <= most
