"""One live node: a process with its connections, its groups and its files.

Groups share the connections. net/opening.py says how a process gets into a group, net/router.py how packets find their
group.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from whence.core.level import ByViews, NeedsData, Placed, remembers
from whence.core.links.greeting import Why
from whence.core.links.presence import Place
from whence.core.member import Founded, Living
from whence.core.ready import Item
from whence.core.registry import LEVELS, stores_events
from whence.core.runner import OF_MEMBER
from whence.errors import JoinTimeoutError, NameTakenError, NotMemberError, StorageError, UsageError
from whence.limits import GROUP_NAME_BYTES_MAX, GROUP_NAME_CHARS_MAX
from whence.net import tls
from whence.net.agreement import stand_by_removal
from whence.net.clock import steady_ns
from whence.net.connections import ConnectionManager
from whence.net.contacts import Contacts
from whence.net.context import GroupContext, NodeServices, Sink
from whence.net.driver import Driver
from whence.net.files import GroupFiles
from whence.net.incarnations import Incarnations
from whence.net.leaving import let_go
from whence.net.living_opening import LivingOpening
from whence.net.names import NumberUsedError
from whence.net.opening import GroupOpening, answers
from whence.net.otel import Telemetry
from whence.net.outboxes import Outboxes
from whence.net.peers import PeerTable
from whence.net.permits import Permits
from whence.net.presence import PresenceExchange
from whence.net.resolver import is_loopback
from whence.net.settings import NetSettings, settings_of
from whence.store.directory import DataDirectory
from whence.trace.schema import Kind

log = logging.getLogger("whence.net")

FAREWELL_S = 0.25
"""How long a fixed member that is closed stays to acknowledge what its application has taken: several times the delay
of an acknowledgement (`ack_ns`)."""


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
        name: str = "",
        may_move: bool = False,
    ) -> None:
        """Prepare a node, and lock its data directory. `may_move`: it can be given another pid while no group is open.

        Raises UsageError, StorageError.
        """
        self.settings = settings = settings or NetSettings()
        self.permits = permits or Permits()
        self.started_ns = steady_ns()
        self.counts: Counter[str] = Counter()
        """Counts of what happened on connections and between nodes."""
        self._directory = directory = DataDirectory(data, pid, name) if data is not None else None
        self.name = name = directory.name if directory is not None else name
        """The name of this process; empty where it goes by its pid alone."""
        self._incarnations = Incarnations(pid, directory)
        self.me = me = self._incarnations.me
        self.files = GroupFiles(directory, trace, settings, self.counts, name)
        known = directory.names if directory is not None else None
        self.peers = PeerTable(me, settings, name, known, self._name_met)
        self.permits.name_of = self.peers.names.name
        self.outboxes = Outboxes(me, self.peers, settings, self.counts, self._incarnations.by_group)
        if trace is not None:
            self.outboxes.on_flush = self.files.flush_traces
        self.drivers: dict[str, Driver] = {}
        """The members of the groups that are open."""
        self._openings: dict[str, GroupOpening] = {}
        """How this process gets into the groups that it has not joined yet."""
        self.unmet_founders: dict[str, list[str]] = {}
        """Groups that are to be opened here, and their founders whose numbers are not known yet."""
        self._presence = PresenceExchange(me, self.drivers, self.peers, self.outboxes, self.counts)
        self.connections = ConnectionManager(
            me, self.drivers, self.peers, self.outboxes, self._presence, self.permits, settings, safety, self.counts,
            self._name_refused, name, lambda: not self.may_move,
        )  # fmt: skip
        self._insecure = insecure or safety is not None
        self.contacts = Contacts(
            self.peers, settings, self.connections.call, loopback_only=not self._insecure
        )  # fmt: skip
        self.on_number_used: Callable[[], None] = lambda: None
        """Called when the pid turns out to be another name's, and this node may still take another."""
        self._may_move = may_move
        self.failure: NameTakenError | None = None
        """Why this node was stopped."""
        self.keeps_data = directory is not None
        self._behind: dict[object, None] = {}
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

        Contacts that are not up yet are called again and again, and groups are joined once they are.
        """
        for name, _ in [(host, port), *contacts]:
            if not self._insecure and not is_loopback(name):
                raise UsageError(
                    f"{name} is beyond loopback: give certificates (see whence certs), or say insecure if you mean it"
                )
        await self.connections.start(host, port, advertise)
        self.contacts.call(contacts)
        if contacts and not self.settings.alone:
            await self._unless_refused(self.contacts.any())

    @property
    def may_move(self) -> bool:
        """Tell whether this process can still take another pid: no group is open, and none is stored."""
        stored = self._directory is not None and self._directory.has_groups
        return self._may_move and not self.drivers and not stored

    def _name_met(self, names: dict[str, int]) -> None:
        """Store which pid is whose, so that no later process takes that of one that is away."""
        if self._directory is not None:
            try:
                self._directory.note_names(names)
            except StorageError as error:
                log.warning("the names of other processes are not kept: %s", error)

    def _name_refused(self, why: str, kind: int) -> None:
        """Stop everything: another process has this one's name or pid, or a later incarnation has followed this one."""
        if self.failure is None:
            moves = kind == Why.NUMBER_USED and self.may_move
            if moves:
                log.info("%s takes another number: %s", self.name, why)
            else:
                log.error("this node stops: %s", why)
            self.failure = NumberUsedError(why) if moves else NameTakenError(why)
            for driver in list(self.drivers.values()):
                driver.stop(self.failure)
            self._refused.set()
            self.contacts.close()
            self._tasks.append(asyncio.ensure_future(self.connections.close()))
            if moves:
                self.on_number_used()

    async def _unless_refused(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine; raise NameTakenError as soon as this process cannot use its pid."""
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
        self.files.flush_traces()
        await self.connections.close()
        await self.files.close()

    def pause_for(self, who: object, pause: bool) -> None:
        """Stop reading from peers while any consumer here is behind."""
        if pause:
            self._behind[who] = None
        else:
            self._behind.pop(who, None)
        self.connections.pause_reading(pause=bool(self._behind))

    def check_act(self, group: str, act: str) -> None:
        """Raise UsageError if this process may not perform an act in a group."""
        self.permits.check_act(self.me.pid, group, act)

    # --- groups ---

    async def open(
        self,
        group: str,
        level: str,
        sink: Sink,
        given: Mapping[str, Any],
        *,
        founders: Sequence[int] = (),
        create: bool | None = None,
        durable: bool = False,
        timeout_s: float | None = 30.0,
    ) -> Driver:
        """Become a member of a group. Raises UsageError, SettingError, StorageError, JoinError; RemovedError where an
        earlier incarnation was removed before this one was live.

        Without `timeout_s` it waits for founders without limit. `create`: whether a living group without
        founders is begun here; see LivingOpening.
        """
        chosen = settings_of(level, founders, given, data=self.keeps_data, udp=self.settings.udp)
        driver, records = self._prepare(group, level, sink, chosen, founders, create=create, durable=durable)
        opening = self._openings[group] = self._opening(driver, founders, records, create=create)
        until = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(until):
                if returns := _has_begun(driver.context, records):
                    driver.retained.restore(records)
                    self._presence.founders[group] = (
                        driver.member.founders if isinstance(driver.member, Founded) else []
                    )  # fmt: skip
                if driver.joined:
                    self._presence.tell(group, Place.MEMBER)
                else:
                    await opening.run()
                    returns = opening.returns
                await driver.until(lambda: driver.joined or driver.left)
            if returns:
                await answers(driver, self.peers)
                async with asyncio.timeout_at(until):
                    await opening.until_known()
            else:
                await opening.until_it_votes(until)
            driver.is_open = True
        except TimeoutError:
            why = f"; it waits for {opening.waits_for}" if opening.waits_for else ""
            await self._close_group(group)
            raise JoinTimeoutError(
                f"nobody let this process into group {group!r} within {timeout_s:.3g} s{why}"
            ) from None
        except BaseException:
            await self._close_group(group)
            raise
        finally:
            self._openings.pop(group, None)
        self._presence.meet_members(driver)
        stand_by_removal(driver, self.peers)
        driver.retained.offer_again()
        return driver

    def opening_waits_for(self, group: str) -> str:
        """Say what this process waits for before it is in a group; empty if it is, or there is no such group."""
        opening = self._openings.get(group)
        return opening.waits_for if opening is not None else ""

    def _opening(
        self, driver: Driver, founders: Sequence[int], records: Sequence[bytes], *, create: bool | None
    ) -> GroupOpening:
        """Return how this process gets into a group."""
        around = (driver, founders, self.peers, self._presence, self.outboxes, self.contacts)
        if not isinstance(driver.member, Living):
            return GroupOpening(*around)
        opening = LivingOpening(*around)
        opening.create, opening.was_there = create, bool(records)
        return opening

    def _prepare(
        self,
        group: str,
        level: str,
        sink: Sink,
        given: Mapping[str, Any],
        founders: Sequence[int],
        *,
        create: bool | None,
        durable: bool,
    ) -> tuple[Driver, list[bytes]]:
        """Return a driver and the records that earlier incarnations left. Raises UsageError, SettingError,
        StorageError."""
        settings = self._checked(group, level, given, durable=durable)
        spec = LEVELS[level]
        if create is not None and not (isinstance(spec, ByViews) and spec.has_views(settings)):
            raise UsageError(
                f"create is for groups whose members change by views, and group {group!r} at level {level} is none: "
                "leave it out; such a group is begun by its founders, or by the first process that opens it"
            )
        telemetry = Telemetry(group, level, self.me.pid) if self.settings.otel else None
        me = self._incarnations.begin(group)
        storage, records = self.files.open_storage(group)
        is_first = self._incarnations.is_first(group)
        context = GroupContext(
            group, level, spec, settings, me, self._random.random, is_first, self._incarnations.known()
        )  # fmt: skip
        recorder = self.files.open_trace(context, founders)
        driver = Driver(context, self._services(group), sink, self.outboxes, recorder, storage, durable=durable)
        driver.ports.observe(telemetry)
        self.drivers[group] = driver
        self._presence.open(driver, founders)
        if recorder is not None and not is_first:
            goes_on = storage is not None and remembers(spec, settings)
            recorder.write(Kind.RESTART, value=storage.offsets.taken if storage is not None and goes_on else None)
        return driver, records

    def _checked(self, group: str, level: str, given: Mapping[str, Any], *, durable: bool) -> object:
        """Return the settings of a group that may be opened here. Raises UsageError, SettingError."""
        _check_name(group)
        if self.failure is not None:
            raise self.failure
        if group in self.drivers:
            raise UsageError(f"group {group!r} is open already")
        if level not in LEVELS:
            raise UsageError(f"level {level!r} is unknown; there are: {', '.join(LEVELS)}")
        spec = LEVELS[level]
        if durable and not self.keeps_data:
            raise UsageError("durable needs a data directory; give data=…")
        if durable and not stores_events(level, spec.settings_from(given)):
            raise UsageError(
                f"level {level} stores no events: what does not come in time is skipped or late, and told; open group "
                f"{group!r} without durable, or at level causal"
            )
        if not self.permits.may(self.me.pid, group, "read"):
            raise UsageError(f"{self.peers.called(self.me.pid)} has no permission to read group {group!r}")
        settings = spec.settings_from(given)
        if isinstance(spec, NeedsData) and not self.keeps_data and (why := spec.why_data(settings)):
            raise UsageError(why)
        check_place = spec.check_place if isinstance(spec, Placed) else None
        if check_place is not None:
            check_place(self.me.pid, settings)
        return settings

    def _services(self, group: str) -> NodeServices:
        """Return what a member of a group may ask of this node."""
        send = self._send_to_readers if group in self.permits.closed else self.outboxes.send
        return NodeServices(
            send, self._presence.member_changed, self.check_act, self._presence.members, self.peers.names.named
        )

    def _send_to_readers(self, group: str, to: Sequence[int], item: Item, incarnation: int) -> int:
        """Queue an item for those of the peers that may read a closed group; return its size on the wire."""
        return self.outboxes.send(group, [pid for pid in to if self.permits.may(pid, group, "read")], item, incarnation)

    async def leave(self, group: str) -> None:
        """Leave a group: send the farewell, wait until it has spread, stop. A fixed member is away and remains one.

        A member of a living group waits for the removal of one that is silent, if there is such; not without limit."""
        driver = self.drivers[group]
        try:
            if driver.joined and not driver.is_out:
                if self._returns(driver):
                    raise NotMemberError("it is away, and comes back")
                driver.leave()
                await let_go(driver)
        except NotMemberError:  # its members are fixed
            await asyncio.sleep(FAREWELL_S)
        finally:
            await self._close_group(group)

    async def leave_for_good(self, group: str) -> None:
        """Leave a living group, and wait until this process is out."""
        driver = self.drivers[group]
        if not driver.is_out:
            driver.leave()
            await driver.until(lambda: driver.left)
        await self._close_group(group)

    async def part(self) -> None:
        """Leave the groups whose members cannot come back as the same ones, so that nobody waits for them."""
        parting = [
            group
            for group, driver in self.drivers.items()
            if isinstance(driver.member, Living) and driver.joined and not driver.is_out and not self._returns(driver)
        ]
        await asyncio.gather(*map(self.leave, parting))

    def stays(self, group: str) -> bool:
        """Tell whether this process is a member of a living group, and stays one when it closes the group."""
        driver = self.drivers.get(group)
        return driver is not None and driver.joined and not driver.left and self._returns(driver)

    def _returns(self, driver: Driver) -> bool:
        """Tell whether a member of a living group stays one while it is closed."""
        context = driver.context
        return isinstance(driver.member, Living) and remembers(context.spec, context.settings)

    async def _close_group(self, group: str) -> None:
        """Stop the member of a group, notify the others, and release its files."""
        driver = self.drivers.pop(group, None)
        if driver is not None:
            driver.stop()
            self._presence.close(group)
        await self.files.release(group)


def _has_begun(context: GroupContext, records: Sequence[bytes]) -> bool:
    """Tell whether earlier incarnations left something to resume; where members are fixed, only a member's records
    count."""
    fixed = remembers(context.spec, context.settings)
    return any(record[:1] == OF_MEMBER for record in records) if fixed else bool(records)


def _check_name(group: object) -> None:
    """Raise UsageError if a group may not have this name."""
    if not isinstance(group, str) or not 1 <= len(group) <= GROUP_NAME_CHARS_MAX:
        raise UsageError(f"a group's name is a text of 1 to {GROUP_NAME_CHARS_MAX} characters, not {group!r}")
    try:
        size = len(group.encode())
    except UnicodeEncodeError:
        raise UsageError(f"a group's name is text that can be written as UTF-8, and {group!r} is not") from None
    if not group.isprintable():
        raise UsageError(
            f"a group's name is text that can be printed, without control characters, and {group!r} is not"
        )
    if size > GROUP_NAME_BYTES_MAX:
        raise UsageError(f"a group's name has at most {GROUP_NAME_BYTES_MAX} bytes as UTF-8, and {group!r} has {size}")
