"""Who is in which group: peers announce their open groups to each other.

Law: a process that opens a group announces it to all, and those in it answer; a peer that connects gets an announcement
of every group here. So members get to know each other, unless they run the group with other settings.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from whence.core.level import remembers
from whence.core.links.presence import Place, Presence, presence
from whence.core.member import Living
from whence.net.agreement import agree, announced, configuration, disagreement, separation
from whence.net.driver import Driver
from whence.net.outboxes import Outboxes
from whence.net.peers import PeerPresence, PeerTable
from whence.types import Process

log = logging.getLogger("whence.net")

ANNOUNCED_MAX = 512
"""Peers that get an announcement about a group, connected or not. Full: further ones get it when they are connected,
and that is logged."""


class PresenceExchange:
    """What a node and its peers announce to each other about their groups."""

    def __init__(
        self,
        me: Process,
        drivers: Mapping[str, Driver],
        peers: PeerTable,
        outboxes: Outboxes,
        counts: "Counter[str]",
    ) -> None:
        """`drivers`: the current members of the groups that are open here."""
        self.founders: dict[str, list[Process]] = {}
        """The processes that each group began with, where they are known."""
        self.returning: dict[str, list[Process]] = {}
        """This process, in groups of which it was a member before, by its journal, and that it wants to be in again."""
        self.waiting: dict[asyncio.Event, None] = {}
        """Set when a peer announced anything, came or went: a process on its way into a group looks again."""
        self.asking: dict[str, None] = {}
        """Groups that this process wants to be in and does not begin."""
        self._named: dict[str, list[int]] = {}
        """The founders that each group was opened with."""
        self._configurations: dict[str, str] = {}
        """Level and shared settings, as a mark, with which each group is open here."""
        self._me = me
        self._drivers = drivers
        self._peers = peers
        self._outboxes = outboxes
        self._counts = counts

    def open(self, driver: Driver, founders: Sequence[int]) -> None:
        """Begin to take announcements about a group."""
        self._named[driver.group] = list(founders)
        self._configurations[driver.group], _ = configuration(driver.context)

    def close(self, group: str) -> None:
        """Announce to all peers that this process is out of a group, and forget their announcements about it."""
        del self._named[group], self._configurations[group]
        self.returning.pop(group, None)
        self.asking.pop(group, None)
        self.tell(group, Place.GONE)
        self._peers.forget(group)

    # --- announcing ---

    def tell(self, group: str, place: Place, to: Sequence[int] | None = None) -> None:
        """Announce to some peers, or to all, this process's relation to a group."""
        if place is Place.WANTS and group in self.asking:
            place = Place.ASKS
        known = {Place.MEMBER: self.founders, Place.WANTS: self.returning}.get(place, {})
        founders = known.get(group, ())
        driver = self._drivers.get(group)
        level, settings = announced(driver) if driver is not None and group in self._configurations else ("", b"")
        announcement = presence(level, place, founders, settings, self._line(group))
        self._outboxes.send(group, self._everybody() if to is None else to, announcement)

    def _line(self, group: str) -> int:
        """Return which of the groups of one name this process is in; 0 if it is in none, or cannot tell."""
        driver = self._drivers.get(group)
        return driver.member.line if driver is not None and isinstance(driver.member, Living) else 0

    def member_changed(self, group: str) -> None:
        """Announce to the others that the member joined or left."""
        driver = self._drivers.get(group)
        if driver is not None:
            self.tell(group, Place.MEMBER if driver.joined else Place.GONE)

    def _everybody(self) -> list[int]:
        """Return the peers whose addresses are known, at most those that get announcements."""
        known = [address.pid for address in self._peers.book.all() if address.pid != self._me.pid]
        if len(known) > ANNOUNCED_MAX and not self._counts["told_max"]:
            log.warning("%d peers are known, and ANNOUNCED_MAX is %d: not all are called to be told of groups here",
                        len(known), ANNOUNCED_MAX)  # fmt: skip
        self._counts["told_max"] += len(known) > ANNOUNCED_MAX
        return known[:ANNOUNCED_MAX]

    def _tell_all_groups(self, to: Sequence[int]) -> None:
        for group, driver in self._drivers.items():
            self.tell(group, _place(driver), to)

    # --- hearing ---

    def hear(self, driver: Driver, process: Process, said: Presence) -> None:
        """Take a peer's announcement about a group that is open here; answer the first, so that both know each
        other."""
        group = driver.group
        if said.place == Place.GONE:
            self._peers.forget(group, [process.pid])
            driver.meet(process, member=False)
        else:
            first = self._peers.hear(group, process, said)
            if said.place == Place.MEMBER:
                _meet(driver, PeerPresence(said, process), loudly=first)
            if first or (said.place != Place.MEMBER and driver.joined):
                self.tell(group, _place(driver), [process.pid])
        self.changed()

    def meet_members(self, driver: Driver) -> None:
        """Introduce all other connected members to a member."""
        for said in self._peers.members(driver.group):
            _meet(driver, said)

    def members(self, group: str) -> list[int]:
        """Return the known members, including this process: those of its view in a living group; elsewhere those that
        announced themselves, and the founders of a fixed group."""
        driver = self._drivers.get(group)
        if driver is None:
            return [self._me.pid]
        if isinstance(driver.member, Living):
            view = driver.member.view_status()
            return [self._me.pid] if view is None else sorted(member.pid for member in view.members)
        mark = self._configurations[group]
        known = {said.process.pid for said in self._peers.members(group) if said.presence.level == mark}
        if remembers(driver.context.spec, driver.context.settings):
            known |= set(self._named[group])
        return sorted(known | {self._me.pid})

    # --- what becomes of peers ---

    def peer_up(self, process: Process) -> None:
        """Announce the groups here to a new peer."""
        self._tell_all_groups([process.pid])
        for driver in self._drivers.values():
            driver.acknowledgements.peer_up(process)
        self.changed()

    def peer_down(self, pid: int) -> None:
        """Notify all members that a peer is no longer connected."""
        self.changed()
        self.unreachable(pid, list(self._drivers))

    def unreachable(self, pid: int, groups: Iterable[str]) -> None:
        """Notify members of some groups that something did not arrive."""
        for group in groups:
            if group in self._drivers:
                self._drivers[group].unreachable(pid)

    def heartbeat(self) -> None:
        """Call the processes that are known and were never called, to announce the groups here: partitions of a group
        may meet this way."""
        strange = [pid for pid in self._everybody() if pid not in self._peers.by_pid] if self._drivers else []
        if strange:
            self._tell_all_groups(strange)

    def changed(self) -> None:
        """Let those that are on their way into a group look again."""
        for event in self.waiting:
            event.set()


def _place(driver: Driver) -> Place:
    """Return the relation to a group that its member gives a process."""
    return Place.MEMBER if driver.joined else Place.GONE if driver.left else Place.WANTS


def _meet(driver: Driver, said: PeerPresence, *, loudly: bool = False) -> None:
    """Introduce another member to a member, unless it runs the group with other settings."""
    who = f"process {driver.named(said.process.pid)}"
    why = (disagreement(driver.context, said, who) or separation(driver, said)) if driver.joined else None
    if why is None:
        agree(driver, said.presence)
        driver.meet(said.process, member=True)
    elif loudly:
        log.error("%s; nothing is sent to it", why)
