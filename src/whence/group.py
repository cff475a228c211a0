"""A group that is open: publish, iterate deliveries, wait for what is certain, obtain tickets, close.

Publishes of one turn of the loop travel as one bundle. A publish waits while peers or the group's own consumer are
behind, and raises BackPressureError when that lasts too long. A receipt names what is certain: `accepted` (this process
has it and is spreading it), `stored` (it survives a crash of this process), `settled` (every known member has it).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from whence.core.coordinated import named
from whence.core.members.tickets.joining import Status
from whence.errors import (
    BackPressureError,
    ClosedError,
    JoinError,
    LimitError,
    OutcomeUnknownError,
    UsageError,
    WhenceError,
)
from whence.inbox import Batch, Delivery, Inbox, LateEvent
from whence.limits import BOOT_MAX, BUNDLE_BYTES_MAX, BUNDLE_EVENTS_MAX, PEER_ID_MAX
from whence.net.driver import Driver
from whence.net.pace import QUICK_S
from whence.net.switch import LIGHT_BYTES
from whence.receipt import Durability, Flight, Receipt
from whence.types import Level, Process

if TYPE_CHECKING:
    from whence.node import Node

Typed = TypeVar("Typed")

FLUSH_BYTES = 256 << 10
"""A bundle is sent when it has as many events as one may have, or so many bytes; else at the end of the turn or
`flush_s` later, and some milliseconds after that while peers are busy or delivery takes long (net/pace.py). Whoever
publishes much in one turn fills bundles: fewer, larger ones cost every member less."""

TURN_EVENTS = 1024
"""Publishes after which the others get their turn, and what waits goes out unless they are busy."""

ALONE_BYTES, ALONE_S = 16 << 10, 0.001
"""What is published together, and not more than so much, goes out at once, so often. What is larger, or follows sooner,
is gathered like single events: fewer, larger bundles cost every member less."""

BUSY_BYTES = 256 << 10
BUSY_S = 0.005
"""While so many bytes wait for a peer, or a quarter of the credit is used, sending sooner would not make anything
arrive sooner: bundles then grow beyond the turn, for so long."""

AGAIN_S = 0.002
"""What a member refuses because too much is under way is offered to it again after so long."""

PASSING = ("records_max // 4", "retained_bytes_max // 4")
"""Limits of members that ease by themselves as peers acknowledge."""


class Group:
    """A group this process is a member of."""

    def __init__(self, node: "Node", driver: Driver, inbox: Inbox, *, flush_s: float, wait_s: float) -> None:
        self.name = driver.group
        self.level = Level(driver.role.level)
        self._node = node
        self._driver = driver
        self._inbox = inbox
        self._flush_s, self._wait_s = flush_s, wait_s
        self._loop = asyncio.get_running_loop()
        self._flight: Flight | None = None
        self._timer: asyncio.Handle | None = None
        self._refusal: WhenceError | None = None
        """Why the member does not take the bundle that waits; it will."""
        self._may_write = node.live.permits.may(node.pid, self.name, "write")
        self._switch = node.live.switch
        self._alone_at = 0.0
        """When something last went out at once."""

    # --- publishing ---

    async def publish(self, payload: bytes, *, until: str = "accepted") -> Receipt:
        """Publish an event, waiting for room if need be.

        Returns once the member will take it this turn, or with `until` once it is stored or settled. Raises
        BackPressureError after `publish_wait_s` without room, LimitError for a payload that no bundle can carry,
        NotMemberError, ClosedError, StorageError, UsageError without the right to write. At level `optimistic`
        NotCoordinatorError or LeaseSuspendedError, at level `total` StalledError: each says why and when to retry.
        Should a lease end between this call and the end of the turn, `receipt.accepted()` raises it: nothing is sent,
        and nothing queued for later.
        """
        receipt = self._load((payload,), len(payload))
        if receipt is None:
            receipt = await self._load_with_room((payload,), len(payload))
        if receipt.full or receipt.place % TURN_EVENTS == TURN_EVENTS - 1:
            await asyncio.sleep(0)  # a loop of publishes must leave the others their turn
        await self._reach(receipt, until)
        return receipt

    async def publish_many(self, payloads: Sequence[bytes], *, until: str = "accepted") -> Receipt:
        """Publish events as one bundle; like `publish` otherwise."""
        size = sum(map(len, payloads))
        if len(payloads) > BUNDLE_EVENTS_MAX:
            raise LimitError("BUNDLE_EVENTS_MAX", BUNDLE_EVENTS_MAX, len(payloads))
        receipt = self._load(payloads, size, alone=True) or await self._load_with_room(payloads, size)
        if receipt.full and (receipt.place or len(payloads) >= TURN_EVENTS):
            await asyncio.sleep(0)  # a loop of publishes must leave the others their turn
        if until != Durability.ACCEPTED:
            await self._reach(receipt, until)
        return receipt

    def publish_nowait(self, payload: bytes) -> Receipt:
        """Publish an event without waiting. Raises BackPressureError where `publish` would wait."""
        receipt = self._load((payload,), len(payload))
        if receipt is None:
            raise self._pressure()
        return receipt

    def flush(self) -> None:
        """Hand what was published so far to the member now."""
        flight, self._flight, self._refusal = self._flight, None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if flight is None:
            return
        try:
            flight.accept(self._driver.publish(flight.payloads, flight.stored))
        except WhenceError as refusal:
            if _passes(refusal) and self._loop.time() - flight.since < self._wait_s:
                self._flight, self._refusal = flight, refusal
                self._timer = self._loop.call_later(AGAIN_S, self.flush)
                return
            self._driver.count("reject", type(refusal).__name__)
            flight.refuse(refusal)

    def _end_of_turn(self) -> None:
        """Send what this turn has gathered, or gather more while peers are busy with what they have."""
        flight = self._flight
        if self._is_busy():
            self._timer = self._loop.call_later(BUSY_S, self.flush)
        elif flight is None or flight.wanted or (wait_s := self._driver.credit.wait_s()) <= 0:
            self.flush()
        else:
            self._timer = self._loop.call_later(wait_s, self.flush)
            flight.on_wanted = self._hurry

    def _hurry(self) -> None:
        """Send what was held back for company at the end of this turn: somebody waits for it."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_soon(self.flush)

    def _load(self, payloads: Sequence[bytes], size: int, *, alone: bool = False) -> Receipt | None:
        """Put events aboard the next bundle; return None where there is no room.

        What is published together may go `alone`, at once, unless others are aboard or company makes it arrive sooner.
        """
        driver = self._driver
        if driver.left or driver.failure is not None:
            raise driver.failure or ClosedError(f"group {self.name!r} is closed")
        if not self._may_write:
            self._node.live.check_act(self.name, "publish")
        if driver.may_refuse and (refusal := driver.refusal()) is not None:
            raise refusal
        if size > BUNDLE_BYTES_MAX:
            raise LimitError("BUNDLE_BYTES_MAX", BUNDLE_BYTES_MAX, size)
        quiet = self._is_quiet()
        if not quiet and (
            self._refusal is not None or self._inbox.full() or self._switch.congested() or driver.congested()
        ):
            return None
        flight = self._flight
        if flight is not None and (
            flight.size + size > BUNDLE_BYTES_MAX or len(flight.payloads) + len(payloads) > BUNDLE_EVENTS_MAX
        ):
            self.flush()
            flight = self._flight  # the member may not have taken it
            if flight is not None:
                return None
        fresh = flight is None
        if flight is None:
            self._flight = flight = Flight(driver, self._loop)
        at = len(flight.payloads)
        flight.payloads += payloads
        flight.size += size
        if flight.size >= FLUSH_BYTES or len(flight.payloads) >= BUNDLE_EVENTS_MAX:
            self.flush()
        elif fresh and alone and size <= ALONE_BYTES and self._may_go(quiet=quiet):
            self._switch.at_once(self.flush)
        elif fresh:
            self._timer = (
                self._loop.call_later(self._flush_s, self._end_of_turn)
                if self._flush_s
                else self._loop.call_soon(self._end_of_turn)
            )
        return Receipt(flight, at, len(payloads))

    def _is_quiet(self) -> bool:
        """Tell at little cost that nobody is behind and delivery is quick: then nothing else has to be looked at."""
        switch, inbox, driver = self._switch, self._inbox, self._driver
        credit = driver.credit
        return (
            not switch.most_waiting
            and switch.unlooked_bytes <= LIGHT_BYTES
            and inbox.events < inbox.events_max
            and credit.away_bytes <= credit.quiet_bytes
            and credit.pace is not None
            and credit.pace.delivery_s <= QUICK_S
            and not driver.may_hold_back
            and self._refusal is None
        )

    def _may_go(self, *, quiet: bool) -> bool:
        """Tell whether something may go out at once, without company."""
        now = self._loop.time()
        if self._flush_s or now - self._alone_at < ALONE_S:
            return False
        if not quiet and (self._is_busy() or self._driver.credit.wait_s() > 0):
            return False
        self._alone_at = now
        return True

    def _is_busy(self) -> bool:
        return self._switch.waiting_bytes() > BUSY_BYTES or self._driver.credit.is_strained()

    async def _load_with_room(self, payloads: Sequence[bytes], size: int) -> Receipt:
        """Wait until there is room. Raises BackPressureError when it takes too long."""
        if self._refusal is None:
            self.flush()
        try:
            async with asyncio.timeout(self._wait_s):
                while True:
                    await asyncio.sleep(0)
                    if self._inbox.full():
                        await self._inbox.room()
                    elif self._switch.congested():
                        await self._switch.relief()
                    elif self._refusal is not None:
                        await asyncio.sleep(AGAIN_S)
                    elif self._driver.congested():
                        await self._driver.relief.wait()
                    receipt = self._load(payloads, size)
                    if receipt is not None:
                        return receipt
        except TimeoutError:
            raise self._pressure() from None

    def _pressure(self) -> BackPressureError:
        if self._inbox.full():
            return BackPressureError("inbox_events_max", self._inbox.events_max, self._inbox.events + 1)
        if isinstance(self._refusal, LimitError):
            return BackPressureError(self._refusal.name, self._refusal.value, self._refusal.asked)
        if self._driver.congested():
            return BackPressureError("CREDIT_BYTES", self._driver.credit.limit_bytes(), self._driver.credit.away_bytes)
        high = self._switch.settings.outbox_high_bytes
        most = max((peer.waiting_bytes() for peer in self._switch.peers.values()), default=0)
        return BackPressureError("outbox_high_bytes", high, most)

    async def _reach(self, receipt: Receipt, until: str) -> None:
        if until == Durability.ACCEPTED:
            return
        if until == Durability.STORED:
            await receipt.stored()
        elif until == Durability.SETTLED:
            await receipt.settled()
        else:
            raise UsageError(f"until is accepted, stored or settled, not {until!r}")

    # --- receiving ---

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Yield single deliveries, in order, until the group is closed."""
        async for batch in self.batches():
            for delivery in batch:
                yield delivery

    def batches(self) -> AsyncIterator[Batch]:
        """Return an iterator over deliveries as they came, a bundle at a time: many events for the price of one.

        Raises UsageError where the application is called with them instead.
        """
        return self._inbox.batches()

    async def late(self) -> AsyncIterator[LateEvent]:
        """Yield events that came after their place in the order had passed."""
        while (event := await self._inbox.next_late()) is not None:
            yield event

    # --- the rest ---

    @property
    def position(self) -> int:
        """Return how many events were delivered here."""
        return self._driver.position

    @property
    def skipped(self) -> int:
        """Return how many events were given up here."""
        return self._driver.counts["skipped"]

    @property
    def tells_settled(self) -> bool:
        """Tell whether `until="settled"` can be waited for at this level with these settings."""
        return self._driver.settled() is not None

    def members(self) -> tuple[int, ...]:
        """Return the other members known now; of a causal group, all there are, here or away."""
        return self._driver.others()

    async def gathered(self, count: int, timeout_s: float = 30.0) -> None:
        """Wait until the member knows a group of so many, itself among them. Raises JoinError after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._driver.until(lambda: len(self.members()) + 1 >= count or self._driver.left)
        except TimeoutError:
            known = 1 + len(self.members())
            raise JoinError(f"group {self.name!r} has {known} members after {timeout_s:g} s, not {count}") from None

    @property
    def pid(self) -> int:
        """Return the name of this process."""
        return self._driver.role.me.pid

    # --- tickets ---

    def ticket(self) -> Status | None:
        """Return how this process stands: its ticket and epoch, how long its lease lasts, and why it may not publish.

        None at levels without tickets. (ticket, epoch) guards resources outside, if they refuse a smaller epoch.
        """
        return self._driver.ticket()

    async def cjoin(self, timeout_s: float = 30.0) -> Status:
        """Ask for a ticket, and wait until it may be used.

        Raises NotCoordinatorError or LeaseSuspendedError, which say why, if that takes longer than `timeout_s`; it is
        asked for all the same until `cleave`. Raises UsageError where one is asked for already, or there are none.
        """
        self._driver.act("cjoin", 0)
        await self._unrefused(timeout_s)
        status = self._driver.ticket()
        assert status is not None
        return status

    async def ready_to_publish(self, timeout_s: float | None = 30.0) -> None:
        """Obtain a ticket where one is needed and not asked for yet, and wait until publishing would not be refused.

        Raises what publishing would raise, if that takes longer than `timeout_s`.
        """
        self._node.live.check_act(self.name, "publish")
        status = self._driver.ticket()
        if status is not None and status.standing == "none":
            self._driver.act("cjoin", 0)
        await self._unrefused(timeout_s)

    async def _unrefused(self, timeout_s: float | None) -> None:
        """Look whenever something happens, and when the refusal says: what only time ends, no event tells of."""
        driver = self._driver
        try:
            async with asyncio.timeout(timeout_s):
                while not driver.left and (refusal := driver.refusal()) is not None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(refusal.retry_ns / 1e9 if refusal.retry_ns else None):
                            await driver.until(lambda: driver.refusal() is None or driver.left)
        except TimeoutError:
            refusal = driver.refusal()
            if refusal is not None:
                raise refusal from None
        if driver.left:
            raise ClosedError(f"group {self.name!r} was closed before it could publish")

    async def cleave(self, timeout_s: float = 30.0) -> None:
        """Give the ticket back, and wait until it is; go on as a member that receives.

        Raises UsageError without one, and for the last coordinator, which must stay; OutcomeUnknownError if nobody
        took it over within `timeout_s`: it will be found closed all the same.
        """
        driver = self._driver
        driver.act("cleave", 0)
        try:
            async with asyncio.timeout(timeout_s):
                await driver.until(lambda: (s := driver.ticket()) is None or s.ticket is None or driver.left)
        except TimeoutError:
            raise OutcomeUnknownError(f"nobody took the ticket over within {timeout_s:g} s") from None

    def declare_dead(self, pid: int, boot: int) -> None:
        """Say as an operator that a life of a peer is over for good: it counts as its word in this process.

        Helps where more than k witnesses are gone, and only then (`ticket().waits_for`); given wrongly, two may act at
        once. Raises UsageError if it was heard of a moment ago, or the level has no tickets.
        """
        if not 0 <= pid <= PEER_ID_MAX or not 0 <= boot <= BOOT_MAX:
            raise UsageError(f"a process is a pid up to {PEER_ID_MAX} and a boot up to {BOOT_MAX}, not {pid}:{boot}")
        self._driver.act("declare_dead", named(Process(pid, boot)))

    async def noted(self, kind: str, timeout_s: float = 30.0) -> None:
        """Wait until the member has noted something at least once, such as ticket_acquire. Raises JoinError."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._driver.until(lambda: self._driver.counts[kind] > 0 or self._driver.left)
        except TimeoutError:
            raise JoinError(f"the member of {self.name!r} noted no {kind} within {timeout_s:g} s") from None

    async def act(self, name: str, argument: int = 0) -> None:
        """Let the member do what only its level knows, such as asking for a ticket. Raises UsageError."""
        self._driver.act(name, argument)

    def typed(self, kind: type[Typed]) -> "TypedGroup[Typed]":
        """Return the same group for values of a msgspec type instead of bytes."""
        return TypedGroup(self, kind)

    async def close(self) -> None:
        """Leave the group: what was published goes out, the farewell spreads, iterators end.

        At level `causal` members are fixed: this one is away until a later life of the process opens the group again,
        and what it published and not everybody has waits for that, or is lost if no data directory keeps it. Wait for
        `settled` first where that matters.
        """
        self.flush()
        while self._refusal is not None:
            await asyncio.sleep(AGAIN_S)
        await self._node.live.leave(self.name)
        self._node.groups.pop(self.name, None)


class TypedGroup(Generic[Typed]):
    """A group whose payloads are values of one msgspec type, as MessagePack."""

    def __init__(self, group: Group, kind: type[Typed]) -> None:
        self.group = group
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(kind).decode

    async def publish(self, value: Typed, *, until: str = "accepted") -> Receipt:
        """Publish a value; see Group.publish."""
        return await self.group.publish(self._encode(value), until=until)

    async def __aiter__(self) -> AsyncIterator[tuple[Typed, Delivery]]:
        """Yield values with their deliveries. Raises UsageError at a payload that is no such value."""
        async for delivery in self.group:
            try:
                value = self._decode(delivery.payload)
            except msgspec.DecodeError as error:
                raise UsageError(f"event {tuple(delivery.event)} is no value of this type: {error}") from None
            yield value, delivery


def _passes(refusal: WhenceError) -> bool:
    """Tell whether a member that refuses now will take the same a little later."""
    return isinstance(refusal, LimitError) and refusal.name in PASSING


__all__ = ["Batch", "Delivery", "Durability", "Group", "LateEvent", "Receipt", "Status", "TypedGroup"]
