"""An open group: publish, iterate deliveries, wait for acknowledgements, obtain tickets, close.

Publishes of one turn of the loop travel as one bundle. A publish waits while peers or the group's own consumer are
behind (core/flow.py), and raises BackPressureError when that lasts too long; what was accepted is never discarded
(publisher.py). A receipt names what is certain: `accepted` (this process has it and is spreading it), `stored` (it
survives a crash of this process), `majority` (a quorum of a living group has it), `settled` (every other known member
has it).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from whence.api.arguments import check_count, check_timeout
from whence.api.delivery import Batch, Delivery, LateEvent
from whence.api.inbox import Batches, Events, Inbox
from whence.api.members import Member, member_of
from whence.api.membership import MembershipCalls
from whence.api.payloads import Payload, all_checked, checked
from whence.api.publisher import Publisher, is_leaving
from whence.api.receipts import Durability, Receipt, check_until, wait_until
from whence.api.tickets import TicketCalls
from whence.core.level import Timed, remembers
from whence.core.member import Living
from whence.core.ticket_status import TicketStatus
from whence.errors import (
    ClosedError,
    EventsLostError,
    JoinError,
    LeaveTimeoutError,
    RemovedError,
    UsageError,
)
from whence.limits import MESH_MEMBERS_MAX
from whence.net.driver import Driver
from whence.net.founders import number_of
from whence.net.membership import Removed, View, check_may_leave, leaving_waits_for, without_the_dead
from whence.types import Level

if TYPE_CHECKING:
    from whence.api.node import Node

Typed = TypeVar("Typed")

TURN_EVENTS = 1024
"""Publishes after which other tasks get their turn, and pending events go out unless peers are busy."""


class Group(TicketCalls, MembershipCalls):
    """A group this process is a member of."""

    def __init__(
        self,
        node: "Node",
        driver: Driver,
        inbox: Inbox,
        *,
        flush_s: float,
        wait_s: float,
        on_lost: Callable[[EventsLostError], None] | None = None,
        verdict: RemovedError | None = None,
    ) -> None:
        self.publisher = Publisher(driver, inbox, node.live.outboxes, flush_s=flush_s, wait_s=wait_s, on_lost=on_lost)
        super().__init__(driver, self.publisher.room)
        self.name = driver.group
        self.level = Level(driver.context.level)
        self._node = node
        self._flow = driver.flow
        self._inbox, self._deliveries = inbox, inbox.deliveries
        self.removed_while_away = verdict
        """Set where this process was a member before, and the others removed that one: it tells which of its events
        took effect. This is a new member."""
        self._leaving: asyncio.Future[None] | None = None
        self._is_closing = False
        """The work of leaving a living group, once that was asked for."""
        self._load, self._load_with_room = self.publisher.load, self.publisher.load_with_room
        self._peers = node.live.peers
        self.publisher.lost.lost_before()
        self._member_of = partial(member_of, driver, self._peers)
        inbox.member_of = self._member_of
        self.flush = self.publisher.flush
        """Hand what was published so far to the member now."""

    # --- publishing ---

    async def publish(self, payload: Payload, *, until: str = "accepted", timeout_s: float | None = None) -> Receipt:
        """Publish an event, waiting for room if need be.

        Returns once it will be handed to the member, in this turn or when there is room; with `until`, once it is
        stored or settled, for which it waits `timeout_s` (see Receipt). Raises BackPressureError after `publish_wait_s`
        without room, PayloadError for a payload that is not bytes, LimitError for a payload that no bundle can carry,
        NotMemberError, ClosedError, StorageError, UsageError without the right to write. At level `optimistic`
        NotCoordinatorError or LeaseSuspendedError, at level `total` StalledError: each says why and when to retry.

        What was accepted is retained until the member takes it, and nothing published later overtakes it. Should it
        fail after all (a lease ended before the end of the turn, the group failed), `receipt.accepted()` raises why,
        and the next call of any kind that publishes raises EventsLostError with the events, once; `on_lost` is called
        with the same. So it is with what was published in time, and that the others leave out as they remove this
        member: with everything beyond the `cut` of its verdict.
        """
        if type(payload) is not bytes:
            payload = checked(payload)
        if until != Durability.ACCEPTED or timeout_s is not None:
            check_until(until, timeout_s, self._driver)
        receipt = self._load((payload,), len(payload))
        if receipt is None:
            receipt = await self._load_with_room((payload,), len(payload))
        if self.publisher.pending is None or receipt.place % TURN_EVENTS == TURN_EVENTS - 1:
            await asyncio.sleep(0)  # a loop of publishes must let other tasks run
        if until != Durability.ACCEPTED:
            await wait_until(receipt, until, timeout_s)
        return receipt

    async def publish_many(
        self, payloads: Iterable[Payload], *, until: str = "accepted", timeout_s: float | None = None
    ) -> Receipt:
        """Publish events as one bundle; like `publish` otherwise."""
        events = all_checked(payloads, self._flow.limits.events.value)
        if until != Durability.ACCEPTED or timeout_s is not None:
            check_until(until, timeout_s, self._driver)
        # To copy many small ones is quicker than to ask each for its length.
        size = len(b"".join(events)) if len(events) >= TURN_EVENTS else sum(map(len, events))
        receipt = self._load(events, size, alone=True) or await self._load_with_room(tuple(events), size)
        if self.publisher.pending is None and (receipt.place or len(events) >= TURN_EVENTS):
            await asyncio.sleep(0)  # a loop of publishes must let other tasks run
        if until != Durability.ACCEPTED:
            await wait_until(receipt, until, timeout_s)
        return receipt

    def publish_nowait(self, payload: Payload) -> Receipt:
        """Publish an event without waiting. Raises BackPressureError where `publish` would wait."""
        event = checked(payload)
        receipt = self._load((event,), len(event))
        if receipt is None:
            raise self._flow.error(self._flow.reason())
        return receipt

    async def ready_to_publish(self, timeout_s: float | None = 30.0) -> None:
        """Obtain a ticket where one is needed and not asked for yet, and wait until publishing would not be refused.

        Raises what publishing would raise, if that takes longer than `timeout_s`.
        """
        check_timeout(timeout_s)
        self._node.live.check_act(self.name, "publish")
        status = self._driver.ticket()
        if status is not None and status.state == "none":
            self._driver.act("acquire_ticket", 0)
        await self._room.unrefused(timeout_s)

    # --- receiving ---

    def __aiter__(self) -> AsyncIterator[Delivery]:
        """Return an iterator over single deliveries, in order, until the group is closed.

        Asking for the next one takes the one before. All iterators of a group share one sequence: one that is broken
        off, cancelled or timed out loses nothing, and the next continues after the last event that was handed out.
        Raises UsageError where the group was opened with `on_batch` or without deliveries.
        """
        self._inbox.check_iterable()
        return self._deliveries

    async def next(self, timeout: float | None = None) -> Delivery:
        """Return the next delivery; the one before is taken. Cancelling the call loses nothing.

        Raises TimeoutError after `timeout` seconds without one, ClosedError once the group is closed and everything was
        handed out, or what ended it.
        """
        check_timeout(timeout, "timeout")
        self._inbox.check_iterable()
        delivery = self._deliveries.next_now()
        if delivery is not None:
            return delivery
        try:
            async with asyncio.timeout(timeout):
                return await anext(self._deliveries)
        except StopAsyncIteration:
            raise ClosedError(f"group {self.name!r} is closed, and everything was handed out") from None

    def ack(self, upto: Delivery | Batch | None = None) -> None:
        """Take an event or a batch, and everything handed out before it; without one, everything handed out so far.

        Where the group was opened with `ack="manual"`, nothing else takes: what was not acknowledged comes again in the
        next incarnation of a member that remembers. With `ack="next"` it takes what was handed out without asking for
        more, where events are counted one by one, because members remember; elsewhere it raises UsageError. So it does
        for what was not handed out here in this incarnation; ClosedError where it can no longer be counted. What a
        group handed out before it was closed may be acknowledged after that.
        """
        self._inbox.ack(upto)

    def next_quick(self) -> Delivery | None:
        """Return the next event, None if none is here or it must be counted when the application gets it."""
        return self._deliveries.next_now() if self._inbox.quick else None

    @property
    def manual(self) -> bool:
        """Tell whether the application itself acknowledges what it has taken."""
        return self._inbox.manual

    @property
    def counts_taken(self) -> bool:
        """Tell whether what is handed out and taken is counted event by event, so that `ack` means something."""
        return self._inbox.offsets.counts

    def take_in_hand(self) -> None:
        """Take everything that was handed out, because the application closes the group itself."""
        self._inbox.closing()

    def batches(self) -> AsyncIterator[Batch]:
        """Return an iterator over deliveries as they came, a bundle at a time: many events for the cost of one.

        Asking for the next batch takes the one before. Raises UsageError as `__aiter__` does.
        """
        self._inbox.check_iterable()
        return Batches(self._inbox)

    def events(self) -> AsyncIterator[Delivery | View | Removed]:
        """Return an iterator over deliveries and, in between, the views of a living group: View when this member enters
        one, Removed last of all.

        It shares the sequence of single deliveries. Members see a view at different places. Raises UsageError as
        `__aiter__` does.
        """
        self._inbox.check_iterable()
        return Events(self._inbox)

    def late(self) -> AsyncIterator[LateEvent]:
        """Return an iterator over events that came after their place in the order had passed.

        Raises UsageError where none ever do: only the timed order of level `total` goes on without an event.
        """
        context = self._driver.context
        if not (isinstance(context.spec, Timed) and context.spec.has_late_events(context.settings)):
            raise UsageError(
                f'no event of group {self.name!r} is ever late: only order="timed" at level total goes on without an '
                "event, and hands it out at the side when it comes"
            )
        return self._inbox.late_events

    # --- the rest ---

    @property
    def position(self) -> int:
        """Return the number of events delivered here; where members remember, in all incarnations."""
        return self._driver.offsets.position

    @property
    def lost(self) -> int:
        """Return the number of events that were published here and are lost, or may be; `on_lost` was told of them."""
        return self.publisher.lost.count

    @property
    def skipped(self) -> int:
        """Return the number of events given up here, including those that a full inbox dropped."""
        return self._driver.counts["skipped"] + self._inbox.dropped

    def members(self) -> tuple[Member, ...]:
        """Return the other members known now; of a causal group, all of them, connected or away. Of a closed group,
        none. Each is its number, and tells its name, its address, whether it is suspected, and its lag."""
        return () if self._driver.is_out else tuple(map(self._member_of, self._driver.others()))

    def member(self, who: int | str) -> Member:
        """Return what is known of a process, by its number (`delivery.sender`) or its name. Raises UsageError for a
        name that is not known."""
        return self._member_of(number_of(self._peers, who))

    async def gathered(self, count: int, timeout_s: float | None = 30.0) -> None:
        """Wait until the member knows `count` members, itself included.

        Raises JoinError after `timeout_s`, and UsageError for more than it can ever know (`view_size`; 16 in a living
        group).
        """
        check_count("count", count)
        check_timeout(timeout_s)
        if isinstance(self._driver.member, Living) and count > MESH_MEMBERS_MAX:
            raise UsageError(
                f"a living group has at most {MESH_MEMBERS_MAX} members, and group {self.name!r} is one: {count} will "
                "never be there"
            )
        bound = self._driver.context.others_max()
        if bound is not None and count > bound + 1:
            raise UsageError(
                f"with view_size={bound} a member knows no more than {bound} others, and {count - 1} were asked for"
            )
        try:
            async with asyncio.timeout(timeout_s):
                await self._driver.until(lambda: len(self._driver.others()) + 1 >= count or self._driver.left)
        except TimeoutError:
            known = 1 + len(self._driver.others())
            raise JoinError(f"group {self.name!r} has {known} members after {timeout_s:g} s, not {count}") from None
        if self._driver.left:
            raise ClosedError(f"the member of group {self.name!r} has left or was closed, and knows nobody any more")

    @property
    def pid(self) -> int:
        """Return the pid of this process."""
        return self._driver.context.me.pid

    # --- what only its level knows, and the end ---

    async def noted(self, kind: str, timeout_s: float = 30.0) -> None:
        """Wait until the member has noted `kind` at least once, such as ticket_acquire. Raises JoinError."""
        check_timeout(timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._driver.until(lambda: self._driver.counts[kind] > 0 or self._driver.left)
        except TimeoutError:
            raise JoinError(f"the member of {self.name!r} noted no {kind} within {timeout_s:g} s") from None
        if not self._driver.counts[kind]:
            raise ClosedError(f"the member of {self.name!r} has left or was closed, and noted no {kind}")

    async def act(self, name: str, argument: int = 0) -> None:
        """Let the member do something specific to its level: switch, topic or subscribe at level `total`.

        Raises UsageError for anything that members of live groups may not do (net/permits.py).
        """
        self._driver.act(name, argument)

    def typed(self, kind: type[Typed]) -> "TypedGroup[Typed]":
        """Return the same group for values of a msgspec type instead of bytes. Raises UsageError for anything else."""
        return TypedGroup(self, kind)

    @property
    def stays(self) -> bool:
        """Tell whether this process stays a member of a living group when the group is closed here, because it has a
        data directory: others then wait for it until it is back or removed. `leave` ends that."""
        return self._node.live.stays(self.name)

    async def leave(self, timeout_s: float | None = 30.0) -> None:
        """Leave a living group for good: what was published is settled, the others decide a view without this member,
        iterators end.

        Raises LeaveTimeoutError, which names who is missing, after `timeout_s`: the member goes on leaving, hands out
        what comes and publishes nothing more. Call it again to go on waiting; `close` ends that. Raises ClosedError if
        the group is closed, before or meanwhile, and UsageError while this member forces the group, and in groups whose
        members do not change by views: `close` is enough there.
        """
        check_timeout(timeout_s)
        if self._leaving is None:
            check_may_leave(self._driver)
            if self._is_closing or self._node.groups.get(self.name) is not self:
                raise self._closed_instead()
            self.publisher.refuse(is_leaving(self.name))
            self._leaving = asyncio.ensure_future(self._leave())
            self._leaving.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._leaving)
        except TimeoutError:
            waits_for = leaving_waits_for(self._driver)
            raise LeaveTimeoutError(
                f"group {self.name!r} was not left within {timeout_s:g} s: this member goes on leaving, publishes "
                f"nothing more, and waits for {waits_for}; call leave again to go on waiting, "
                f"{without_the_dead(self._driver)}, or close the group here",
                waits_for,
            ) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._leaving.cancelled() and not (task is not None and task.cancelling()):
                raise self._closed_instead() from None
            raise
        self.publisher.tell_lost()

    def _closed_instead(self) -> ClosedError:
        """Return what to raise where a group that was closed should be left."""
        context = self._driver.context
        if remembers(context.spec, context.settings):
            return ClosedError(
                f"group {self.name!r} was closed here, not left: with a data directory this process is still a member; "
                "open the group and leave it, or remove this process at another member"
            )
        return ClosedError(
            f"group {self.name!r} was closed here, which without a data directory leaves it too: there is nothing left "
            "to leave"
        )

    async def _leave(self) -> None:
        """Leave, however long it takes."""
        self.take_in_hand()
        await self.publisher.drain(why=is_leaving(self.name))
        await self._node.live.leave_for_good(self.name)
        self._node.groups.pop(self.name, None)

    async def stop_leaving(self) -> None:
        """Leave no more, unless the member is out already: the group is closed instead."""
        if self._leaving is not None:
            if not self._driver.left:
                self._leaving.cancel()
            await asyncio.wait([self._leaving])

    async def close(self) -> None:
        """Leave the group: what was published goes out, the farewell spreads, iterators end.

        What the member has not taken after `publish_wait_s` is lost: the group is left, and EventsLostError raised.
        In a tree members are fixed: this one is away until a later incarnation of the process opens the group again; so
        is a member of a living group that has a data directory, which `leave` ends. One without leaves, and waits until
        the others have let it go: longer than they take to remove a member that is dead (`remove_after_s`), so that
        those that stay have a quorum; a minute at most. The log says for whom it waits, and a warning if they did not:
        then it counts as one of them until they remove it.
        Events that a member that is away published and that not every member has wait for its return, or are lost if no
        data directory retains them. Wait for `settled` first where that matters. What the application was handed is
        taken, unless it acknowledges itself. Closing the group again does nothing.
        """
        await self.stop_leaving()
        if self._node.groups.get(self.name) is not self:
            return
        self._is_closing = True
        self.take_in_hand()
        await self.publisher.drain()
        await self._node.live.leave(self.name)
        self._node.groups.pop(self.name, None)
        self.publisher.tell_lost()


class TypedGroup(Generic[Typed]):
    """A group whose payloads are values of one msgspec type, as MessagePack."""

    def __init__(self, group: Group, kind: type[Typed]) -> None:
        self.group = group
        self._encode = msgspec.msgpack.Encoder().encode
        try:
            self._decode = msgspec.msgpack.Decoder(kind).decode
        except (TypeError, RuntimeError) as error:
            raise UsageError(f"typed() takes a type that msgspec can decode, not {kind!r}: {error}") from None

    async def publish(self, value: Typed, *, until: str = "accepted", timeout_s: float | None = None) -> Receipt:
        """Publish a value; see Group.publish."""
        return await self.group.publish(self._encode(value), until=until, timeout_s=timeout_s)

    def __aiter__(self) -> "TypedGroup[Typed]":
        """Return itself, to iterate over values with their deliveries; see Group.__aiter__."""
        self._deliveries = aiter(self.group)
        return self

    async def __anext__(self) -> tuple[Typed, Delivery]:
        """Return the next value. Raises UsageError for a payload of another type; the next call continues after it."""
        return self._read(await anext(self._deliveries))

    async def next(self, timeout: float | None = None) -> tuple[Typed, Delivery]:
        """Return the next value with its delivery; see Group.next. Raises UsageError as well."""
        return self._read(await self.group.next(timeout))

    def _read(self, delivery: Delivery) -> tuple[Typed, Delivery]:
        try:
            return self._decode(delivery.payload), delivery
        except msgspec.DecodeError as error:
            raise UsageError(f"event {tuple(delivery.event)} is no value of this type: {error}") from None


__all__ = ["Batch", "Delivery", "Durability", "Group", "LateEvent", "Receipt", "TicketStatus", "TypedGroup"]
