"""How a process gets into a group: a member lets it in, or it begins the group, with the named founders or alone.

Law: a group with a member anywhere is joined. A group is begun alone only by the lowest pid that wants it, and only
once every contact of this process is connected and every connected peer has answered a question that was asked after
this process announced that it wants the group. Answers come after everything sent before, so a member has announced
itself by then, and of two that begin at once each would know the other. Known addresses are called first; one that
cannot be reached is passed over unless it is a contact, because partitions that meet later become one group
(core/staged.py, meet).
Where all members stopped, the group is begun again by those whose journals know it: by the first of them, as soon as
they are most of the named founders. Whoever lost its journal joins them, and does not believe that nothing has been.
"""

import asyncio
import logging
from collections.abc import Sequence

from whence.core.level import remembers
from whence.core.links.presence import Place
from whence.core.member import Begun, Founded, Returning
from whence.errors import JoinError, NotMemberError, UsageError
from whence.net.agreement import disagreement
from whence.net.clock import steady_ns
from whence.net.contacts import Contacts
from whence.net.driver import Driver
from whence.net.outboxes import Outboxes
from whence.net.peers import PeerPresence, PeerTable
from whence.net.presence import PresenceExchange
from whence.types import Process

log = logging.getLogger("whence.net")

LOOK_S = 0.25
"""How often a waiting process looks again by itself."""

ANSWER_S, ALONE_S, POLL_S = 3.0, 0.5, 0.005
"""How long a returning member waits for its connected peers, and for any peer at all, to report what they have of what
it published; and how often it looks."""


class GroupOpening:
    """One process on its way into one group."""

    def __init__(
        self, driver: Driver, founders: Sequence[int], peers: PeerTable, presence: PresenceExchange,
        outboxes: Outboxes, contacts: Contacts,
    ) -> None:  # fmt: skip
        self.waits_for = ""
        """What it waits for now, in words for a log or an error."""
        self.returns = False
        """The group began with an earlier incarnation of this process."""
        self._driver = driver
        self._group = driver.group
        self._me = driver.context.me.pid
        self._named = list(founders)
        self._peers, self._called = peers, peers.called
        self._presence = presence
        self._outboxes = outboxes
        self._contacts = contacts
        self._heard = asyncio.Event()
        """Set when a peer announced anything, connected or disconnected."""
        self._asked_ns = 0
        self._said = ""

    async def run(self) -> None:
        """Join the group or begin it, as soon as it is clear which is right. Raises JoinError, UsageError."""
        self._presence.waiting[self._heard] = None
        if self._has_begun():
            self._presence.returning[self._group] = [self._driver.context.me]
        try:
            self._presence.tell(self._group, Place.WANTS)
            self._outboxes.ask(self._peers.connected_pids())
            self._asked_ns = steady_ns()
            while not self._step():
                self._heard.clear()
                try:
                    async with asyncio.timeout(LOOK_S):  # wait_for may swallow the end of the caller's own patience
                        await self._heard.wait()
                except TimeoutError:
                    self._say()
        finally:
            del self._presence.waiting[self._heard]

    async def until_known(self) -> None:
        """Wait, where the member turns out to be removed, until the group knows; then it can join anew."""

    async def until_it_votes(self, until: float | None) -> None:
        """Wait a little, but not beyond `until`, until a newcomer counts as much as the others."""

    def _begin(self, founders: list[Process]) -> None:
        self._presence.founders[self._group] = founders
        driver = self._driver
        driver.runner.feed(driver.member.found, [founder for founder in founders if founder.pid != self._me])

    def _go_on(self, founders: list[Process]) -> None:
        """Resume an earlier incarnation that was one of the founders and died before it had written anything."""
        self._presence.founders[self._group] = founders
        driver = self._driver
        if isinstance(driver.member, Founded):
            driver.member.founders = founders
        driver.runner.restore([])

    def _step(self) -> bool:
        """Join or begin if that is possible now; return whether this process is on its way in."""
        members = self._peers.members(self._group)
        for said in members:
            if (why := disagreement(self._driver.context, said, self._called(said.process.pid))) is not None:
                raise UsageError(why)
        listing = next((said for said in members if self._lists_us(said)), None)
        if listing is not None:
            self._begin(listing.presence.founding())
        elif (former := next((said for said in members if self._lists_former(said)), None)) is not None:
            log.info(
                "group %r began with an earlier incarnation of this process, which had not written anything",
                self._group,
            )
            self.returns = True
            self._go_on(former.presence.founding())
        elif members:
            self._join([said.process.pid for said in members])
        elif again := self._again():
            if again[0] != self._me:
                self.waits_for = f"{self._called(again[0])}, which was a member before, to begin it"
                return False
            log.info("group %r had stopped and is begun again by this process", self._group)
            self._begin([])
        elif self._may_begin_alone() and not self._unclear():
            log.debug("group %r begins with this process", self._group)
            self._begin([])
        elif self._named and self._all_founders_here():
            self._begin(self._processes())
        else:
            return False
        return True

    def _lists_us(self, said: PeerPresence) -> bool:
        """Tell whether a member says that the group began with this incarnation of this process. Raises UsageError if
        its founders are not those given here: which list is right cannot be known."""
        listed = said.presence.founding()
        if self._driver.context.me not in listed or not self._named:
            return False
        pids = sorted(founder.pid for founder in listed)
        if pids != sorted(self._named):
            there, here = (", ".join(str(self._driver.named(pid)) for pid in some) for some in (pids, self._named))
            raise UsageError(
                f"{self._called(said.process.pid)} says that group {self._group!r} began with {there}, and its "
                f"founders here are {here}: name the same ones everywhere"
            )
        return True

    def _lists_former(self, said: PeerPresence) -> bool:
        """Tell whether a member says that the group began with an earlier incarnation of this process that its data
        directory knows: that one died before it had written anything, so it sent nothing in the group either."""
        context = self._driver.context
        former = [founder for founder in said.presence.founding() if founder.pid == self._me]
        known = self._driver.keeps_journal and any(founder.incarnation in context.incarnations for founder in former)
        pids = sorted(founder.pid for founder in said.presence.founding())
        return known and pids == sorted(self._named) and remembers(context.spec, context.settings)

    def _join(self, members: list[int]) -> None:
        context = self._driver.context
        bound = context.others_max()
        if bound is not None and len(members) > bound and context.reaches_view_only():
            raise UsageError(
                f"group {self._group!r} has {len(members)} members, and with spread=direct and view_size={bound} each "
                f"serves no more than {bound} others; open it everywhere with a larger view_size, or with spread=gossip"
            )
        try:
            self._driver.runner.ask(self._driver.member.join, members)
        except NotMemberError:
            raise JoinError(
                f"group {self._group!r} has begun, and its members are fixed; one that was there before comes back "
                "with the data directory it had (data=…, --data). If that is lost, what this process published cannot "
                "be told from what it would publish now: begin a group of another name"
            ) from None

    # --- whether to begin again ---

    def _has_begun(self) -> bool:
        member = self._driver.member
        return isinstance(member, Begun) and member.has_begun()

    def _again(self) -> list[int]:
        """Return the processes that know the group of before, if they may begin it again, the first one first."""
        returning = sorted([*self._peers.returning(self._group), *[self._me] * self._has_begun()])
        if self._named:
            returning = [pid for pid in returning if pid in self._named]
            return returning if 2 * len(returning) > len(self._named) else []
        return returning if not self._contacts.missing() and not self._silent() else []

    # --- whether to begin alone ---

    def _may_begin_alone(self) -> bool:
        """Tell whether this process may begin the group by itself."""
        return not self._named

    def _unclear(self) -> bool:
        """Tell whether there may be a member that this process does not know; note in `waits_for` whom it waits for."""
        lower = min(self._peers.wanting(self._group), default=self._me)
        self.waits_for = (
            self._absent_contacts()
            or self._silent()
            or (f"{self._called(lower)}, which wants it too, to begin it" if lower < self._me else "")
        )
        return bool(self.waits_for)

    def _absent_contacts(self) -> str:
        """Return the contacts that are waited for, in words."""
        return self._contacts.missing()

    def _is_waited_for(self, pid: int) -> bool:
        """Tell whether the answer of a known process is waited for."""
        return pid != self._me

    def _silent(self) -> str:
        """Return a known process that has neither answered nor failed to, in words; empty if there is none."""
        for address in self._peers.book.all():
            peer = self._peers.by_pid.get(address.pid)
            if not self._is_waited_for(address.pid):
                continue
            if peer is None or (peer.link is None and not peer.failures):
                self._outboxes.ask([address.pid])  # it is called for that
                return f"{self._called(address.pid)} to be reached"
            if peer.link is not None and peer.echoed_ns < self._asked_ns:
                return f"{self._called(address.pid)} to answer"
        return ""

    # --- named founders ---

    def _all_founders_here(self) -> bool:
        """Tell whether all founders are here and this process is the one to announce it."""
        absent = self._absent()
        names = ", ".join(str(self._driver.named(pid)) for pid in absent)
        self.waits_for = f"its founders {names}" if absent else f"{self._called(min(self._named))} to begin it"
        wanting = self._peers.wanting(self._group)
        others = [pid for pid in self._named if pid != self._me]
        return self._me == min(self._named) and all(pid in wanting for pid in others)

    def _absent(self) -> list[int]:
        """Return the founders that are not members and have not asked to be."""
        return [pid for pid in self._named if pid != self._me and self._peers.presence(self._group, pid) is None]

    def _processes(self) -> list[Process]:
        """Return the founders, each under its name in the group."""
        found = []
        for pid in self._named:
            peer = self._peers.by_pid.get(pid)
            if pid == self._me:
                found.append(self._driver.context.me)
            elif peer is not None and peer.link is not None and peer.process is not None:
                said = peer.presence.get(self._group)
                found.append(said.process if said is not None and said.process > peer.process else peer.process)
        return found

    def _say(self) -> None:
        """Call founders that are not here, and log once whom it waits for."""
        self._outboxes.ask(self._absent())
        if self.waits_for != self._said:
            self._said = self.waits_for
            log.info("group %r waits for %s", self._group, self.waits_for)


async def answers(driver: Driver, peers: PeerTable) -> None:
    """Wait until the peers that can be reached have reported how much they have of what was published here.

    A process whose journal is an older copy learns it before its numbers are used for other events. Raises
    StorageError.
    """
    member = driver.member
    if not isinstance(member, Returning):
        return
    everybody = len(member.unanswered())
    began = asyncio.get_running_loop().time()
    while not driver.left and not (driver.failure or driver.verdict) and (silent := member.unanswered()):
        waited_s = asyncio.get_running_loop().time() - began
        linked = any(peers.is_connected(pid) for pid in silent)
        if waited_s > ANSWER_S or (not linked and (len(silent) < everybody or waited_s > ALONE_S)):
            break
        await asyncio.sleep(POLL_S)
    if driver.failure is not None:
        raise driver.failure
