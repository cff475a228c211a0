"""How a process gets into a living group: it comes back, begins it with the named founders or alone, or is added.

Law: a journal with a membership is enough to come back. A group with a member anywhere is joined, also by a founder
whose journal is gone. Where no founders are named it is begun by the first process that comes, as net/opening.py has
it, unless that one was told to begin it whatever contacts do not answer, or never (`create`). A process is in when its
member is live. Groups of one name that were begun separately never become one: a process that finds two joins
neither.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from zlib import crc32

from whence.core.level import remembers
from whence.core.links.presence import FOUNDER, Place
from whence.core.member import Living
from whence.epochs import BIRTHS
from whence.errors import JoinError, UsageError
from whence.limits import MESH_MEMBERS_MAX
from whence.net.agreement import agree, are_separate, others_in, two_groups
from whence.net.clock import steady_ns
from whence.net.opening import LOOK_S, GroupOpening
from whence.net.peers import PeerPresence
from whence.net.wait_log import log_long_wait
from whence.types import Process

log = logging.getLogger("whence.net")

TELL_AFTER = 4
"""After so many looks a process that waits to be added tells the members again that it does."""

VOTE_S = 3.0
"""How long a newcomer with a data directory waits to become a voter before it says that it is in. It is one in a
fraction of a second, unless an application is slow. Longer: what comes meanwhile waits for the application here."""

HEAR_NS = 1_000_000_000
"""How long a process that found a group waits for the other connected peers to say which group they are in."""


class LivingOpening(GroupOpening):
    """One process on its way into one living group."""

    create: bool | None = None
    """Whether it begins the group alone: None, once every contact has answered; True, even if one does not; False,
    never."""
    was_there = False
    """Whether its journal has an earlier membership, which may have ended."""

    _contacted: Sequence[int] = ()
    _looks = 0

    async def run(self) -> None:
        """Come back, or begin or join the group; return when the member is live, or out. Raises UsageError."""
        driver = self._driver
        member = self._member
        self.returns = member.is_member
        if not member.is_member:
            if self.create is False and not self._named:
                self._presence.asking[self._group] = None
            await super().run()
        with log_long_wait(lambda: f"group {self._group!r} waits for {self.waits_for}" if self.waits_for else ""):
            while not (driver.joined or driver.left):
                self.waits_for = member.opening_waits_for()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await driver.until(lambda: driver.joined or driver.left)
                if not member.is_member:
                    self._ask_again()

    async def until_it_votes(self, until: float | None) -> None:
        """Wait a little until this newcomer votes: whoever replaces machines one after another goes on when it is in,
        and without its vote the others may be no quorum then."""
        driver = self._driver
        if not remembers(driver.context.spec, driver.context.settings) or not self._will_vote():
            return
        self.waits_for = "the others to let it vote"
        at = asyncio.get_running_loop().time() + VOTE_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(at if until is None else min(at, until)):
                await driver.until(lambda: driver.left or not self._will_vote())
        if self._will_vote():
            log.warning(
                "this process is in group %r and does not vote yet: some application has not taken what was published "
                "before it came. Stop or replace no other member before it votes (whence members)", self._group,
            )  # fmt: skip

    def _will_vote(self) -> bool:
        view = self._member.view_status()
        return view is not None and view.will_vote

    async def until_known(self) -> None:
        """Wait, where the member turns out to be removed, until the group knows. Raises RemovedError then."""
        driver = self._driver
        while driver.verdict is not None:
            self.waits_for = self._member.opening_waits_for()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await driver.until(lambda: False)

    @property
    def _member(self) -> Living:
        member = self._driver.member
        assert isinstance(member, Living)
        return member

    def _ask_again(self) -> None:
        """Ask those that are members by now: those that were asked may be gone. Others may have taken the last place
        meanwhile, and members that are told that it waits answer who is in their view."""
        members = [said.process.pid for said in self._peers.members(self._group)]
        self._check_room()
        self._looks += 1
        if self._looks % TELL_AFTER == 0:
            self._presence.tell(self._group, Place.WANTS, members)
        if members and members != self._contacted:
            self._join(members)

    def _begin(self, founders: list[Process]) -> None:
        self._member.birth = birth_of_group(founders or [self._driver.context.me])
        self._driver.knows_removal = True
        super()._begin(founders)

    def _step(self) -> bool:
        members = [said for said in self._peers.members(self._group) if said.presence.line]
        there = [said for said in members if are_separate(members[0].presence.line, said.presence.line)]
        if there:
            here = [said for said in members if said not in there]
            named = self._driver.named
            names = (", ".join(str(named(said.process.pid)) for said in some) for some in (here, there))
            raise JoinError(two_groups(self._group, *names))
        if members and self._unheard():
            return False
        return super()._step()

    def _unheard(self) -> bool:
        """Tell whether a connected peer, which may be in another group of this name, has not answered yet. It is not
        waited for long."""
        if steady_ns() - self._asked_ns > HEAR_NS:
            return False
        peers = [self._peers.by_pid[pid] for pid in self._peers.connected_pids()]
        return any(peer.echoed_ns < self._asked_ns for peer in peers)

    def _join(self, members: list[int]) -> None:
        self._check_room()
        for said in self._peers.members(self._group):
            agree(self._driver, said.presence)
        self._contacted = members
        self._driver.runner.ask(self._driver.member.join, members)

    def _check_room(self) -> None:
        """Raise UsageError if the group is full, as far as members said. Most of them may not be known here yet, but
        each knows all."""
        said = self._peers.members(self._group)
        known = max([len(said), *[others_in(each.presence, self._me) for each in said]])
        if known >= MESH_MEMBERS_MAX:
            raise UsageError(
                f"group {self._group!r} is full: it has {known} members, and a living group has at most "
                f"{MESH_MEMBERS_MAX}; one must leave or be removed before another joins (whence leave, whence remove)"
            )

    def _go_on(self, founders: list[Process]) -> None:
        """Begin as the founder that an earlier incarnation was: it died before it had written or sent anything."""
        self._begin(founders)

    def _lists_former(self, said: PeerPresence) -> bool:
        return not self.was_there and super()._lists_former(said)

    def _may_begin_alone(self) -> bool:
        if self.create is False and not self._named:
            self.waits_for = "a member of it: this process was told not to begin it (create=False)"
        return self.create is not False and not self._named

    def _absent_contacts(self) -> str:
        return "" if self.create else super()._absent_contacts()

    def _is_waited_for(self, pid: int) -> bool:
        return super()._is_waited_for(pid) and (not self.create or self._peers.is_connected(pid))


def birth_of_group(founders: Iterable[Process]) -> int:
    """Return what tells a group from others of its name: its founders know it from each other's names, and no
    incarnation of a process is there twice. 0 is left to groups that cannot tell."""
    packed = b"".join(FOUNDER.pack(*founder) for founder in sorted(founders))
    return crc32(packed) % (BIRTHS - 1) + 1
