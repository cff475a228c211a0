"""What a publisher can know about its events: accepted, stored, majority, settled; and the bundle they travel in until
then."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from functools import partial

from msgspec import Struct, field

from whence.api.arguments import check_timeout
from whence.core.level import remembers
from whence.core.member import Living
from whence.core.registry import LEVELS, stores_events
from whence.core.runner import Done
from whence.errors import LeftOutError, OutcomeUnknownError, RemovedError, UsageError, WhenceError
from whence.limits import SEQ_MAX
from whence.net.driver import Driver
from whence.net.wait_log import log_long_wait
from whence.types import EventId, Process


class Durability(StrEnum):
    """What an acknowledgement promises, weakest first."""

    ACCEPTED = "accepted"
    STORED = "stored"
    MAJORITY = "majority"
    SETTLED = "settled"


class PendingBundle(Struct, eq=False):
    """The events that will travel as one bundle. A caller that does not ask for their outcome pays nothing for it."""

    driver: Driver
    payloads: list[bytes] = field(default_factory=list)
    size: int = 0
    process: Process | None = None
    """Who publishes them, once the member has taken them."""
    first: int = 0
    """The number of the first of them then."""
    refusal: WhenceError | None = None
    stored: "asyncio.Future[None] | None" = None
    settle: Done | None = None
    """Called once the bundle is durable, or never will be; None where nothing is stored."""
    wanted: bool = False
    """A caller waits for it: it is not held back for batching."""
    on_wanted: Callable[[], None] | None = None
    known: "asyncio.Future[None] | None" = None
    """Done when the member has taken the events, or will not."""

    def __repr__(self) -> str:
        return f"PendingBundle(of {len(self.payloads)} events)"

    def await_disk(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make it known when the events are durable."""
        self.stored = loop.create_future()
        self.settle = partial(_settle, self.stored)

    def refuse(self, refusal: WhenceError) -> None:
        """Note that the member will not take the events."""
        self.refusal = refusal
        self.tell()

    async def accepted(self) -> None:
        """Wait until the member has taken the events. Raises the error with which it refused them."""
        if self.process is None and self.refusal is None:
            self.wanted = True
            if self.known is None:
                self.known = asyncio.get_running_loop().create_future()
            if self.on_wanted is not None:
                self.on_wanted()
            with log_long_wait(lambda: f"group {self.driver.group!r} waits for room: {self.driver.flow.describe()}"):
                await asyncio.shield(self.known)
        if self.refusal is not None:
            raise self.refusal

    def tell(self) -> None:
        """Notify the callers that wait for the member."""
        if self.known is not None and not self.known.done():
            self.known.set_result(None)


def _settle(stored: "asyncio.Future[None]", error: WhenceError | None) -> None:
    """Notify the waiting callers that a publication is durable, or never will be."""
    if stored.done():
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)
        stored.exception()


class Receipt(Struct, eq=False):
    """What is known about events that were published together, and what can still be awaited."""

    _pending: PendingBundle
    place: int
    """The number of events before it in its bundle."""
    _count: int

    def __repr__(self) -> str:
        pending = self._pending
        events = "1 event" if self._count == 1 else f"{self._count} events"
        if pending.refusal is not None:
            return f"Receipt(of {events}, refused: {pending.refusal})"
        if pending.process is None:
            return f"Receipt(of {events}, without a number yet)"
        last = "" if self._count == 1 else f" to {self.event.seq + self._count - 1}"
        return f"Receipt(of {events}, {tuple(self.event)}{last})"

    @property
    def event(self) -> EventId:
        """Return the first event's identity. Raises OutcomeUnknownError before it has one; await `accepted` first."""
        pending = self._pending
        if pending.process is None:
            raise OutcomeUnknownError("the event has no number yet; await receipt.accepted() first")
        return EventId(*pending.process, pending.first + self.place)

    @property
    def full(self) -> bool:
        """Tell whether its bundle has gone out already."""
        return self._pending.process is not None

    async def accepted(self) -> EventId:
        """Wait until the member has taken the events; return the first one's identity. Raises the error with which the
        member refused them."""
        await self._pending.accepted()
        return self.event

    async def stored(self, timeout_s: float | None = None) -> EventId:
        """Wait until the events survive a crash of this process.

        Raises OutcomeUnknownError, which says what it waits for, after `timeout_s`; StorageError, UsageError.
        """
        check_timeout(timeout_s)
        check_stores(self._pending.driver)
        assert self._pending.stored is not None
        try:
            async with asyncio.timeout(timeout_s):
                await self.accepted()
                with log_long_wait(lambda: f"group {self._pending.driver.group!r} waits for the disk"):
                    await asyncio.shield(self._pending.stored)
        except TimeoutError:
            why = "the disk" if self.full else f"room ({self._pending.driver.flow.describe()})"
            raise OutcomeUnknownError(
                f"after {timeout_s:g} s the events wait for {why}; they are stored as soon as that is there"
            ) from None
        return self.event

    async def majority(self, timeout_s: float | None = None) -> EventId:
        """Wait until a quorum of the voters of a living group has the events, on disk where they have one: no change
        of the members that nobody forces loses them then.

        Of a member that was removed, events up to its cut count, and for later ones RemovedError is raised. Raises
        OutcomeUnknownError after `timeout_s` or when the group is closed; UsageError in groups that do not ask for it.
        """
        check_timeout(timeout_s)
        driver = self._pending.driver
        check_majority(driver)
        member = driver.member
        assert isinstance(member, Living)
        first = await self.accepted()
        last = first.seq + self._count - 1
        lacking = partial(_not_stored_at, driver, member, last)
        try:
            async with asyncio.timeout(timeout_s):
                with log_long_wait(lambda: f"group {driver.group!r} waits for majority: {lacking()}"):
                    await driver.until(lambda: (member.majority() or 0) >= last or driver.left)
                    if self._pending.stored is not None and (member.majority() or 0) >= last:
                        await asyncio.shield(self._pending.stored)  # the member counts itself before its disk is done
        except RemovedError as verdict:
            if verdict.covers(EventId(first.pid, first.incarnation, last)):
                return first
            raise
        except TimeoutError:
            raise OutcomeUnknownError(
                f"after {timeout_s:g} s no quorum of the voters is known to have the events: {lacking()}; it may still "
                "come"
            ) from None
        if (member.majority() or 0) < last:
            raise OutcomeUnknownError("the group was closed, and no quorum of the voters is known to have the events")
        return first

    async def settled(self, timeout_s: float | None = None) -> EventId:
        """Wait until every other known member has the events: at levels that retain them, its application.

        This process does not count, nor do former members; of a causal group, all founders do, connected or away. A
        member that is away (it has a data directory, and was closed or died) has the events once it is back and its
        application takes them; `timeout_s` ends the wait, and a removal of that member settles them.
        Of a member that was removed, events up to its cut are settled, and for later ones RemovedError is raised.
        Raises LeftOutError once nobody waits for the events any more, and some member left them out; where levels may.
        Raises OutcomeUnknownError, which names the members whose acknowledgement is missing, after `timeout_s` or when
        the group is closed, or who left out too many to remember which; UsageError for a negative time.
        """
        check_timeout(timeout_s)
        first = await self.accepted()
        driver = self._pending.driver
        last = first.seq + self._count - 1
        if not driver.settling.missing(last):
            return _unless_left_out(driver, first, last)
        try:
            async with asyncio.timeout(timeout_s):
                with log_long_wait(lambda: _waits_for_settled(driver, self.missing())):
                    await driver.until(lambda: not driver.settling.missing(last) or driver.left)
        except RemovedError as verdict:
            if verdict.covers(EventId(first.pid, first.incarnation, last)):
                return first
            raise
        except TimeoutError:
            if missing := self.missing():
                raise OutcomeUnknownError(
                    f"after {timeout_s:g} s, {_listed(missing)} not known to have the events; they may still come"
                ) from None
        if driver.settling.missing(last):
            raise OutcomeUnknownError(
                f"the group was closed, and {_listed(self.missing())} not known to have the events"
            )
        return _unless_left_out(driver, first, last)

    def missing(self) -> tuple[int, ...]:
        """Return the members that `settled` waits for now: those not known to have the events.

        Before the member has taken the events, these are all others; none once it was removed, and they are within its
        cut. Raises the error with which it refused them.
        """
        pending = self._pending
        if pending.refusal is not None:
            raise pending.refusal
        if pending.process is None:
            return pending.driver.settling.missing(SEQ_MAX)
        driver, first = pending.driver, self.event
        last, verdict = first.seq + self._count - 1, driver.failure or driver.verdict
        if isinstance(verdict, RemovedError) and verdict.covers(EventId(first.pid, first.incarnation, last)):
            return ()
        return driver.settling.missing(last)


def _unless_left_out(driver: Driver, first: EventId, last: int) -> EventId:
    """Return the first event, unless members left some of them out. Raises LeftOutError; OutcomeUnknownError where that
    is not known any more."""
    if members := driver.settling.without(first.seq, last):
        raise LeftOutError(members)
    if unknown := driver.settling.perhaps_without(first.seq, last):
        raise OutcomeUnknownError(
            f"{', '.join(map(str, unknown))} left out so many events that it is not known any more whether these were "
            "among them"
        )
    return first


def check_until(until: str, timeout_s: float | None, driver: Driver) -> None:
    """Refuse what nobody can wait for before anything is published. Raises UsageError."""
    if until not in Durability.__members__.values():
        raise UsageError(f"until is accepted, stored, majority or settled, not {until!r}")
    if until == Durability.STORED:
        check_stores(driver)
    elif until == Durability.MAJORITY:
        check_majority(driver)
    check_timeout(timeout_s)


async def wait_until(receipt: Receipt, until: str, timeout_s: float | None) -> None:
    """Wait until events are stored, by a majority, or settled. Raises what the method of that name raises."""
    if until == Durability.STORED:
        await receipt.stored(timeout_s)
    elif until == Durability.MAJORITY:
        await receipt.majority(timeout_s)
    else:
        await receipt.settled(timeout_s)


def check_stores(driver: Driver) -> None:
    """Raise UsageError where nothing is ever stored."""
    if driver.stores:
        return
    level = driver.context.level
    if not stores_events(level, driver.context.settings if driver.keeps_journal else None):
        storing = ", ".join(name for name in LEVELS if stores_events(name))
        so = " with these settings" if stores_events(level) else ""
        raise UsageError(f"level {level}{so} stores no events; levels that do, with a data directory: {storing}")
    if driver.keeps_journal:
        raise UsageError("this group stores nothing here; open it with durable=True")
    also = "" if isinstance(driver.member, Living) or remembers(driver.context.spec) else ", and durable=True"
    raise UsageError(
        f"this process stores nothing, because it has no data directory: join with data=… (--data){also}; or wait for "
        "settled, which needs none"
    )


def check_majority(driver: Driver) -> None:
    """Raise UsageError where publications do not ask the voters to store them."""
    member = driver.member
    if not isinstance(member, Living):
        raise UsageError(f"group {driver.group!r} has no voters: its members do not change by views")
    if member.majority() is None:
        raise UsageError("publications here ask nobody to store them; open the group with settings={'majority': True}")


def _waits_for_settled(driver: Driver, missing: tuple[int, ...]) -> str:
    """Say whom `settled` waits for, and how it ends where one of them is away; empty if it waits for nobody any more,
    and the caller is about to learn it."""
    if not missing:
        return ""
    view = driver.member.view_status() if isinstance(driver.member, Living) else None
    silent = [each.pid for each in view.members if each.suspected] if view is not None else []
    away = ", ".join(str(pid) for pid in missing if pid in silent)
    ends = f"; until {away} is back or removed, it stays so" if away else ""
    return f"group {driver.group!r} waits for settled: {_listed(missing)} behind{ends}"


def _not_stored_at(driver: Driver, member: Living, last: int) -> str:
    """Say whom `majority` waits for."""
    others = tuple(driver.named(pid) for pid in member.majority_lacks(last) if pid != driver.context.me.pid)
    return f"{_listed(others)} not known to have stored them" if others else "the disk here is not done yet"


def _listed(pids: tuple[int, ...]) -> str:
    """Return processes as the subject of a sentence."""
    return f"process {pids[0]} is" if len(pids) == 1 else f"processes {', '.join(map(str, pids))} are"
