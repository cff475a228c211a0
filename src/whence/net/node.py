"""One live node: a process with its connections, its groups and what it keeps on disk.

Groups share the connections; a packet's group decides whose member reads it, and the table of rights whether anybody
does. How a process comes into a group is told in net/entrance.py.
"""

import asyncio
import logging
import os
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from weakref import WeakSet

from whence.core.level import NeedsData, Placed, remembers
from whence.core.links.presence import Place, Presence, presence
from whence.core.links.reached import Reached
from whence.core.member import Founded, Returning
from whence.core.ready import Item
from whence.core.registry import LEVELS, stores_events
from whence.core.runner import OF_MEMBER
from whence.core.settings import by_name
from whence.errors import JoinError, NameTakenError, NotMemberError, TraceError, UsageError
from whence.limits import GROUP_NAME_BYTES_MAX, GROUP_NAME_CHARS_MAX, MERGED_PEER_ID_MAX
from whence.net import tls
from whence.net.clock import incarnation_now, steady_ns
from whence.net.commit import Commit
from whence.net.contacts import Contacts
from whence.net.driver import Driver
from whence.net.entrance import Entrance
from whence.net.otel import Telemetry
from whence.net.permits import Permits
from whence.net.provenance import is_hearsay, without_contradicted
from whence.net.role import Kept, Role, Sink
from whence.net.roster import Roster, Said, configuration, disagreement
from whence.net.scribe import Scribe
from whence.net.settings import NetSettings, settings_of
from whence.net.switch import Switch
from whence.store.directory import DataDirectory
from whence.store.log import Log
from whence.store.steps import Steps
from whence.trace.schema import Kind
from whence.trace.spool import Spool
from whence.types import Process
from whence.wire.items import Packet

log = logging.getLogger("whence.net")

LOOPBACK = ("127.", "localhost", "::1")

ANSWER_S, ALONE_S, POLL_S = 3.0, 0.5, 0.005
"""How long a member that returns waits for those it is connected to, and for anybody at all, to say what they have of
what it published; and how often it looks."""

LAST_WORD_S = 0.25
"""How long a fixed member that is closed stays to say what its application has taken: several times as long as it takes
until it says so (`ack_ns`)."""

TOLD_MAX = 512
"""Peers that are told where this process stands to a group, connected or not. Full: further ones hear of it when they
are connected, and that is logged."""


class LiveNode:
    """A process of the live system."""

    def __init__(
        self,
        pid: int,
        settings: NetSettings | None = None,
        *,
        data: Path | None = None,
        trace: Path | None = None,
        safety: tls.Safety | None = None,
        permits: Permits | None = None,
        insecure: bool = False,
    ) -> None:
        """Prepare a node, and take its data directory. Raises UsageError, StorageError."""
        if type(pid) is not int or not 0 <= pid <= MERGED_PEER_ID_MAX:
            raise UsageError(f"a pid is a whole number from 0 to {MERGED_PEER_ID_MAX}, not {pid!r}")
        self.settings = settings or NetSettings()
        self._data = DataDirectory(data, pid) if data is not None else None
        self.me = Process(pid, self._incarnation(pid))
        self.permits = permits or Permits()
        self.started_ns = steady_ns()
        self.switch = Switch(self.me, self, self.settings, safety)
        self.switch.on_flush = self._flush_traces
        self.drivers: dict[str, Driver] = {}
        self.contacts = Contacts(self.switch, self.settings)
        self._trace = trace
        self._insecure = insecure or safety is not None
        self._spools: dict[str, Spool] = {}
        self._rested: WeakSet[Spool] = WeakSet()
        self._untaken: WeakSet[Steps] = WeakSet()
        """Of groups that were closed: what their applications still take is told and counted there."""
        self._kept: dict[str, Kept] = {}
        self._lives: dict[str, Process] = {}
        """What this process is called in each group it was ever in: who opens a group again is another process there,
        because what the first one promised and how far it had counted are forgotten."""
        self._founders: dict[str, list[Process]] = {}
        self._named: dict[str, list[int]] = {}
        """The founders that each group was opened with."""
        self._roster = Roster()
        self._entering: dict[str, Entrance] = {}
        self._behind: dict[object, None] = {}
        self.failure: NameTakenError | None = None
        """Why this node was stopped."""
        self._refused = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._random = Random(os.urandom(16))

    # --- coming and going ---

    async def start(
        self,
        host: str,
        port: int,
        contacts: Sequence[tuple[str, int]] = (),
        advertise: tuple[str, int] | None = None,
    ) -> None:
        """Listen, and call the contacts until one answers. Raises JoinError where one refuses, UsageError.

        Contacts that are not there yet are called on, and groups are joined once they are.
        """
        for name, _ in [(host, port), *contacts]:
            if not self._insecure and not name.startswith(LOOPBACK):
                raise UsageError(
                    f"{name} is beyond loopback: give certificates (see whence certs), or say insecure if you mean it"
                )
        await self.switch.start(host, port, advertise)
        self.contacts.call(contacts)
        if contacts and not self.settings.alone:
            await self._unless_refused(self.contacts.any())

    def name_refused(self, why: str) -> None:
        """Stop everything: another process has this one's number, or this one was followed by a later life."""
        if self.failure is None:
            log.error("this node stops: %s", why)
            self.failure = NameTakenError(why)
            for driver in list(self.drivers.values()):
                driver.stop(self.failure)
            self._refused.set()
            self.contacts.close()
            self._tasks.append(asyncio.ensure_future(self.switch.close()))

    async def _unless_refused(self, work: Coroutine[None, None, None]) -> None:
        """Do something; raise NameTakenError as soon as this process cannot go by its pid."""
        working, refused = asyncio.ensure_future(work), asyncio.ensure_future(self._refused.wait())
        try:
            await asyncio.wait([working, refused], return_when=asyncio.FIRST_COMPLETED)
        finally:
            refused.cancel()
            if not working.done():
                working.cancel()
            elif not working.cancelled():
                working.exception()
        if self.failure is not None:
            raise self.failure
        working.result()

    async def close(self) -> None:
        """Stop every member and close every connection and file."""
        self.contacts.close()
        for driver in self.drivers.values():
            driver.stop()
        self._flush_traces()
        await self.switch.close()
        for group in list(self._kept):
            await self._let_go(group)
        for spool in [*self._spools.values(), *self._rested]:
            spool.close()
        for steps in list(self._untaken):
            steps.close()
        if self._data is not None:
            self._data.close()

    def _incarnation(self, pid: int) -> int:
        """Return an incarnation that no life of this process had before. Raises StorageError."""
        by_time = incarnation_now(pid)
        return by_time if self._data is None else self._data.begin_life(by_time)

    # --- groups ---

    async def open(
        self,
        group: str,
        level: str,
        sink: Sink,
        given: Mapping[str, Any],
        *,
        founders: Sequence[int] = (),
        durable: bool = False,
        timeout_s: float | None = 30.0,
    ) -> Driver:
        """Become a member of a group. Raises UsageError, SettingError, StorageError, JoinError.

        Without `timeout_s` it waits for founders as long as it takes.
        """
        self._named[group] = list(founders)
        driver, records = self._prepare(
            group, level, sink, settings_of(level, founders, given, udp=self.settings.udp), durable=durable
        )
        try:
            async with asyncio.timeout(timeout_s):
                if returns := _begun(driver.role, records):
                    driver.restore(records)
                    self._founders[group] = driver.member.founders if isinstance(driver.member, Founded) else []
                if driver.joined:
                    self._tell(group, Place.MEMBER)
                else:
                    returns = await self._enter(driver, founders)
                await driver.until(lambda: driver.joined or driver.left)
            if returns:
                await self._answers(driver)
        except TimeoutError:
            entrance = self._entering.get(group)
            why = f"; it waits for {entrance.waits_for}" if entrance is not None and entrance.waits_for else ""
            self._drop(group)
            await self._let_go(group)
            raise JoinError(f"nobody let this process into group {group!r} within {timeout_s:g} s{why}") from None
        except BaseException:
            self._drop(group)
            await self._let_go(group)
            raise
        self._entering.pop(group, None)
        for said in self._roster.members(group):
            self._meet(driver, said)
        driver.offer_again()
        return driver

    async def _answers(self, driver: Driver) -> None:
        """Wait for the word of those who can be reached on how much they have of what was published here.

        Whose journal is an older copy hears it before its numbers are used for other events. Raises StorageError.
        """
        member = driver.member
        if not isinstance(member, Returning):
            return
        everybody = len(member.unanswered())
        began = asyncio.get_running_loop().time()
        while not driver.left and driver.failure is None and (silent := member.unanswered()):
            waited_s = asyncio.get_running_loop().time() - began
            linked = any(pid in self.switch.peers and self.switch.peers[pid].link is not None for pid in silent)
            if waited_s > ANSWER_S or (not linked and (len(silent) < everybody or waited_s > ALONE_S)):
                break
            await asyncio.sleep(POLL_S)
        if driver.failure is not None:
            raise driver.failure

    def _prepare(
        self, group: str, level: str, sink: Sink, given: Mapping[str, Any], *, durable: bool
    ) -> tuple[Driver, list[bytes]]:
        _check_name(group)
        if self.failure is not None:
            raise self.failure
        if group in self.drivers:
            raise UsageError(f"group {group!r} is open already")
        if level not in LEVELS:
            raise UsageError(f"level {level!r} is not built; there are: {', '.join(LEVELS)}")
        if durable and self._data is None:
            raise UsageError("durable needs a data directory; give data=…")
        if durable and not stores_events(level):
            raise UsageError(
                f"level {level} stores no events: what does not come in time is skipped or late, and told; open group "
                f"{group!r} without durable, or at level causal"
            )
        if not self.permits.may(self.me.pid, group, "read"):
            raise UsageError(f"process {self.me.pid} has no permission to read group {group!r}")
        recipe = LEVELS[level]
        if isinstance(recipe, NeedsData) and self._data is None:
            raise UsageError(recipe.why_data)
        settings = recipe.settings_from(given)
        check_place = recipe.check_place if isinstance(recipe, Placed) else None
        if check_place is not None:
            check_place(self.me.pid, settings)
        telemetry = Telemetry(group, level, self.me.pid) if self.settings.otel else None
        if group in self._lives and remembers(recipe):
            raise UsageError(f"group {group!r} remembers its members across restarts; restart this process to return")
        me = self._begin_life(group)
        kept, records = self._journal(group)
        lives = tuple(self._data.lives) if self._data is not None else ()
        role = Role(group, level, recipe, settings, me, self._random.random, self._is_first_life(group), lives)
        scribe = self._scribe(role)
        driver = Driver(role, self, sink, self.switch, scribe, kept, durable=durable)
        driver.ports.telemetry = telemetry
        self.drivers[group] = driver
        self._roster.open(role)
        if scribe is not None and not self._is_first_life(group):
            goes_on = kept is not None and remembers(recipe)
            scribe.write(Kind.RESTART, value=kept.steps.taken if kept is not None and goes_on else None)
        return driver, records

    def _begin_life(self, group: str) -> Process:
        """Return what this process is called in a group: the node's name the first time, then a later life of it."""
        before = self._lives.get(group)
        boot = self.me.boot if before is None else max(before.boot + 1, self._incarnation(self.me.pid))
        self._lives[group] = Process(self.me.pid, boot)
        return self._lives[group]

    def _is_first_life(self, group: str) -> bool:
        """Tell whether this process never was in a group before: only its data directory knows."""
        return self._data is not None and self._data.is_new and self._lives[group] == self.me

    def _journal(self, group: str) -> tuple[Kept | None, list[bytes]]:
        if self._data is None:
            return None, []
        if group not in self._kept:
            stem = self._data.stem(group)
            journal, counters = stem.with_suffix(".journal"), stem.with_suffix(".steps")
            self._data.check_kept(group, [journal, counters])
            steps = Steps.at(counters)
            try:
                self._kept[group] = Kept(Commit(Log(journal)), steps)
            except BaseException:
                steps.close()
                raise
            self._data.note_kept(group)
        kept = self._kept[group]
        records, kept.commit.log.records = kept.commit.log.records, []
        return kept, records

    def _scribe(self, role: Role) -> Scribe | None:
        if self._trace is None:
            return None
        about = {
            "durable": remembers(role.recipe), "founders": self._named.get(role.group, []),
            "settings": by_name(role.settings),
        }  # fmt: skip
        self._spools[role.group] = spool = Spool(
            self._trace, role.group, role.level, *role.me, self.settings.trace_segment_bytes,
            self.settings.trace_segments_max, on_lost=self._rows_lost, about=about,
        )  # fmt: skip
        return Scribe(spool, role.me, role.group)

    async def _enter(self, driver: Driver, founders: Sequence[int]) -> bool:
        """Begin the group or ask to be let in, whichever is right; return whether an earlier life was one of its
        founders."""
        group = driver.group

        def begin(processes: list[Process]) -> None:
            self._founders[group] = processes
            driver.found([founder for founder in processes if founder.pid != self.me.pid])

        def go_on(processes: list[Process]) -> None:
            self._founders[group] = processes
            driver.go_on_from_nothing(processes)

        entrance = Entrance(driver, founders, self._roster, self.switch, self.contacts, begin, go_on)
        self._entering[group] = entrance
        self._tell(group, Place.WANTS)
        self.switch.ask([peer.pid for peer in self.switch.peers.values() if peer.link is not None])
        await entrance.pass_through()
        return entrance.returns

    def _drop(self, group: str) -> None:
        driver = self.drivers.pop(group, None)
        if driver is not None:
            driver.stop()
            self._tell(group, Place.GONE)
            self._roster.close(group)
            self._entering.pop(group, None)

    async def leave(self, group: str, timeout_s: float = 5.0) -> None:
        """Leave a group: say farewell, wait until it has spread, stop. A fixed member goes away and stays one."""
        driver = self.drivers[group]
        try:
            if driver.joined and not driver.left:
                driver.leave()
                await asyncio.wait_for(driver.until(lambda: driver.left), timeout_s)
        except NotMemberError:  # its members are fixed
            await asyncio.sleep(LAST_WORD_S)
        except TimeoutError:
            log.info("the farewell in group %r took too long", group)
        finally:
            self._drop(group)
            await self._let_go(group)

    async def _let_go(self, group: str) -> None:
        """Give back the files and threads of a group that is not open any more."""
        kept, spool = self._kept.pop(group, None), self._spools.pop(group, None)
        if spool is not None:
            spool.rest()
            self._rested.add(spool)
        if kept is not None:
            self._untaken.add(kept.steps)
            await kept.commit.close()

    # --- what drivers ask ---

    def send(self, group: str, to: Sequence[int], item: Item, boot: int) -> int:
        """Queue an item for some peers; return its size on the wire."""
        if group in self.permits.closed:
            to = [pid for pid in to if self.permits.may(pid, group, "read")]
        return self.switch.send(group, to, item, boot, self._lives.get(group))

    def member_changed(self, group: str) -> None:
        """Tell the others that a member joined or left."""
        driver = self.drivers.get(group)
        if driver is not None:
            self._tell(group, Place.MEMBER if driver.joined else Place.GONE)

    def check_act(self, group: str, act: str) -> None:
        """Raise UsageError if this process may not do that."""
        self.permits.check_act(self.me.pid, group, act)

    def members(self, group: str) -> list[int]:
        """Return the members known now, this process among them, and the founders of a fixed group."""
        known = {*self._roster.alike(group), self.me.pid}
        driver = self.drivers.get(group)
        if driver is not None and remembers(driver.role.recipe):
            known |= set(self._named.get(group, ()))
        return sorted(known)

    def _tell(self, group: str, place: Place, to: Sequence[int] | None = None) -> None:
        driver, founders = self.drivers.get(group), self._founders.get(group, ()) if place is Place.MEMBER else ()
        level, settings = configuration(driver.role) if driver is not None else ("", b"")
        told = presence(level, place, founders, settings)
        self.switch.send(group, self._everybody() if to is None else to, told, sender=self._lives.get(group))

    def _everybody(self) -> list[int]:
        """Return the peers whose addresses are known, as far as they are told of groups."""
        known = [address.pid for address in self.switch.book.all() if address.pid != self.me.pid]
        if len(known) > TOLD_MAX and not self.switch.counts["told_max"]:
            log.warning("%d peers are known, and TOLD_MAX is %d: not all are called to be told of groups here",
                        len(known), TOLD_MAX)  # fmt: skip
        self.switch.counts["told_max"] += len(known) > TOLD_MAX
        return known[:TOLD_MAX]

    # --- what the switch tells ---

    def peer_up(self, peer: Process) -> None:
        """Tell a new peer which groups are here."""
        for group, driver in self.drivers.items():
            self._tell(group, Place.MEMBER if driver.joined else Place.WANTS, [peer.pid])
            driver.reports.peer_up(peer)
        self.peer_answered()

    def heartbeat(self) -> None:
        """Call whoever was heard of and never called, to tell it of the groups here: parts of one may meet by it."""
        strange = [pid for pid in self._everybody() if pid not in self.switch.peers] if self.drivers else []
        for group, driver in self.drivers.items() if strange else ():
            self._tell(group, Place.MEMBER if driver.joined else Place.WANTS, strange)

    def peer_answered(self) -> None:
        """Let those that are on their way into a group look again."""
        for entrance in self._entering.values():
            entrance.heard.set()

    def peer_down(self, peer: int, groups: Iterable[str] | None) -> None:
        """Tell members that something did not arrive."""
        if groups is None:
            self._roster.disconnected(peer)
            self.peer_answered()
        for group in list(self.drivers) if groups is None else groups:
            if group in self.drivers:
                self.drivers[group].unreachable(peer)

    def packet(self, packet: Packet, sender: Process, size: int) -> None:
        """Hand a packet to its group's member."""
        group, item = packet.group, packet.items[0]
        driver = self.drivers.get(group)
        if driver is None:
            self.switch.counts["no_such_group"] += 1
            return
        if group in self.permits.closed and not self.permits.admits(packet):
            if not driver.counts["reject:not_permitted"]:
                log.warning(
                    "process %d sent what it has no right to in group %r; it is dropped (told once)",
                    packet.pid, group,
                )  # fmt: skip
            driver.ports.count("reject", "not_permitted", packet.pid)
            return
        if isinstance(item, Reached):
            if packet.to_boot == driver.role.me.boot:
                driver.reached(packet.pid, item.last, item.waited_us / 1e6)
        elif isinstance(item, Presence):
            self._hear(driver, sender, item)
        elif is_hearsay(packet):
            self._hearsay(driver, packet, sender, size)
        else:
            driver.packet(packet, sender, size)

    def _hearsay(self, driver: Driver, packet: Packet, sender: Process, size: int) -> None:
        """Hand on what a peer brings of others, but for what cannot be theirs."""
        group = driver.group
        genuine, refused = without_contradicted(
            packet, driver.role.me, driver.published, lambda pid: self._roster.member(group, pid)
        )
        for _ in range(refused):
            driver.ports.count("reject", "contradicted", packet.pid)
        if genuine is not None:
            driver.packet(genuine, sender, size)

    def _hear(self, driver: Driver, peer: Process, said: Presence) -> None:
        """Take a peer's word on a group that is open here; the first is answered, so that both know of each other."""
        group = driver.group
        if said.place == Place.GONE:
            self._roster.forget(group, peer.pid)
            driver.meet(peer, member=False)
        else:
            first = self._roster.hear(group, peer, said)
            if said.place == Place.MEMBER:
                self._meet(driver, Said(said, peer), loudly=first)
            if first or (said.place == Place.WANTS and driver.joined):
                self._tell(group, Place.MEMBER if driver.joined else Place.WANTS, [peer.pid])
        self.peer_answered()

    def _meet(self, driver: Driver, said: Said, *, loudly: bool = False) -> None:
        """Let a member know another; one that runs the group otherwise is left alone."""
        why = disagreement(driver.role, said) if driver.joined else None
        if why is None:
            driver.meet(said.process, member=True)
        elif loudly:
            log.error("%s; nothing is sent to it", why)

    def pause_for(self, who: object, pause: bool) -> None:
        """Stop reading from peers while somebody here is behind."""
        if pause:
            self._behind[who] = None
        else:
            self._behind.pop(who, None)
        self.switch.pause_reading(pause=bool(self._behind))

    def _rows_lost(self, count: int, error: TraceError) -> None:
        """Go on without rows that the disk does not take; their numbers will be missing, so nobody trusts the rest."""
        if not self.switch.counts["trace_rows_lost"]:
            log.error("the trace is incomplete from now on: %s", error)
        self.switch.counts["trace_rows_lost"] += count

    def _flush_traces(self) -> None:
        for spool in self._spools.values():
            spool.flush()


def _begun(role: Role, records: Sequence[bytes]) -> bool:
    """Tell whether earlier lives left something to take up; where members are fixed, a member must have written it."""
    fixed = remembers(role.recipe)
    return any(record[:1] == OF_MEMBER for record in records) if fixed else bool(records)


def _check_name(group: object) -> None:
    """Look whether a group may be called so. Raises UsageError."""
    if not isinstance(group, str) or not 1 <= len(group) <= GROUP_NAME_CHARS_MAX:
        raise UsageError(f"a group's name is a text of 1 to {GROUP_NAME_CHARS_MAX} characters, not {group!r}")
    try:
        size = len(group.encode())
    except UnicodeEncodeError:
        raise UsageError(f"a group's name is text that can be written as UTF-8, and {group!r} is not") from None
    if size > GROUP_NAME_BYTES_MAX:
        raise UsageError(f"a group's name has at most {GROUP_NAME_BYTES_MAX} bytes as UTF-8, and {group!r} has {size}")
