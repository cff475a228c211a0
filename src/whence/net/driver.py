"""One live member of one group: what it is given, what can be asked of it, and how far the others are.

What the member asks for is carried out by the runner of both worlds (core/runner.py), on real clocks, sockets and disks
(net/ports.py).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from whence.core.flow import BundleLimits, Flow, Outbox, Sources
from whence.core.level import Addressed, BuildContext, ClockWatching, HoldingBytes, Unordered, offsets_of
from whence.core.level import remembers as does_remember
from whence.core.links.reached import Reached
from whence.core.member import Counting, Dynamic, Leased, Living, Member, Refusing, Resuming
from whence.core.membership.full_view import Directory
from whence.core.ready import Note
from whence.core.registry import stores_events
from whence.core.runner import Ports, Runner
from whence.core.settings import by_name
from whence.core.stale_journal import OWN_LOST, TAKEN_LOST, own_lost, taken_lost
from whence.core.ticket_status import TicketStatus
from whence.epochs import generation_of, number_of
from whence.errors import ClosedError, InternalError, Refusal, RemovedError, StorageError, UsageError, WhenceError
from whence.net.acknowledgements import Acknowledgements
from whence.net.clock import SlipWatch, epoch_floor, steady_ns, wall_ns
from whence.net.context import GroupContext, GroupStorage, NodeServices, Sink
from whence.net.membership import ENTERED, OUTSIDE, View, removal
from whence.net.ports import LivePorts
from whence.net.recorder import TraceRecorder
from whence.net.retained import RetainedBundles
from whence.net.settling import Settling
from whence.net.waiters import Waiters
from whence.trace.schema import ACK_MANUAL, CLOSED, Kind
from whence.types import ANY_INCARNATION, Bundle, Process
from whence.wire.items import Packet

log = logging.getLogger("whence.net")

_STALE = {OWN_LOST: own_lost, TAKEN_LOST: taken_lost}
"""Why a member must stop whose data directory is not the newest."""


class Driver:
    """Runs one member."""

    def __init__(
        self, context: GroupContext, node: NodeServices, sink: Sink, outbox: Outbox, recorder: TraceRecorder | None,
        storage: GroupStorage | None, *, durable: bool,
    ) -> None:  # fmt: skip
        self.context = context
        self.group = context.group
        self.joined = self.left = self.ended = False
        """`ended`: the member is out of the group for good: it left, or was removed."""
        self.view_pids: tuple[int, ...] = ()
        """The members of the view it is in, where members change by views."""
        self.knows_removal = False
        """Whether it knows after how long the group has a silent member removed, or found nobody that could tell."""
        self.on_stop: Callable[[], None] = lambda: None
        """Called when the member stops: what was accepted and is pending for it is lost."""
        self.on_leave: Callable[[], None] = self.leave
        """Called when an operator wants the member to leave: what was accepted goes out before it does."""
        self.on_unsent: Callable[[list[Bundle], WhenceError], None] = lambda _bundles, _error: None
        """Called when the member fails with publications that were not on disk yet: nobody else has them."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the member learns that it is out: a view may leave out what was published here."""
        self.failure: WhenceError | None = None
        self.verdict: RemovedError | None = None
        """What the application is told as soon as the member knows that it is out; it may have to tell others yet."""
        self.is_open = False
        """The application has the group."""
        self._node = node
        self.named = node.named  # returns a pid that messages show with its name
        self._sink = sink
        self._recorder = recorder
        self._commit = storage.commit if storage is not None else None
        self.keeps_journal = storage is not None
        remembers = storage is not None and does_remember(context.spec, context.settings)
        self.durable = durable
        """Bundles are retained on disk until every member has them, whether or not the member retains them itself."""
        self._clock = wall_ns if context.spec.reads_wall_clock(context.settings) else steady_ns
        self._changed = asyncio.Event()
        self._watched = 0
        """The number of callers that wait for a change."""
        spec = context.spec
        self.acknowledgements = Acknowledgements(
            context.me, self._acknowledge, partial(self.reached, context.me.pid), self.guarded,
            # where one overlay serves several groups, what is missing may be for others, and nothing is left out
            in_order=not (isinstance(spec, Addressed) or (isinstance(spec, Unordered) and spec.is_unordered)),
        )  # fmt: skip
        self._slips = (
            SlipWatch(spec.clock_slip_ns_max(context.settings)) if isinstance(spec, ClockWatching) else None
        )  # fmt: skip
        around = BuildContext(
            context.rng, self._clock(), Directory(), remembers=storage is not None,
            epoch_floor=epoch_floor() if storage is None else 0, is_first_incarnation=context.is_first_incarnation,
        )  # fmt: skip
        self.member: Member = context.spec.build(context.me, context.settings, around)
        if isinstance(self.member, Living):
            self.member.call_by(node.named)
        counts = remembers or (isinstance(self.member, Counting) and self.member.counts_taken)
        resuming = self.member if counts and isinstance(self.member, Resuming) else None
        store = storage.offsets if storage is not None and remembers else None
        self.offsets = offsets_of(spec)(store, resuming, manual=sink.manual)
        self.offsets.on_taken = self.acknowledgements.taken
        sink.offsets, sink.recorder = self.offsets, recorder
        if recorder is not None and store is not None and sink.manual:
            recorder.write(Kind.NOTE, reason=ACK_MANUAL)
        clock = self._clock if self._slips is None else self._watched_clock
        self.ports = LivePorts(
            self.group, node, sink, recorder, clock, self.offsets, self.guarded(self._wake),
            flushes=durable or store is not None,
        )  # fmt: skip
        self.ports.on_note, self.ports.on_left_out = self._note, self.acknowledgements.left_out
        self.counts = self.ports.counts
        self.runner = Runner(
            self.member, Ports(self.ports, self.ports, self.ports, self._commit, self.offsets, self._failed)
        )  # fmt: skip
        self._refusing = self.member if isinstance(self.member, Refusing) else None
        self.flow = self._make_flow(sink, outbox)
        self.waiters = Waiters(self.flow.ahead)
        self.settling = Settling(self.group, context.me.pid, self.member, self.flow.credit, node)
        self.retained = RetainedBundles(
            context.me, self.runner, self.settling, self._commit, self.counts, self.guarded
        )  # fmt: skip
        self.ports.accepted, self.ports.retained = self.flow.published, self.retained.bundles.append

    def _make_flow(self, sink: Sink, outbox: Outbox) -> Flow:
        context, spec, node = self.context, self.context.spec, self._node
        sources = Sources(
            clock=time.monotonic,
            members=lambda: len(node.members(context.group)),
            publishers=lambda: 1 + self.acknowledgements.publishers(),
            unsettled=lambda: self.settling.slowest(),
            disk_is_behind=lambda: self.runner.waits,
            refusal=self.refusal if self._refusing is not None else None,
            named=self.named,
        )
        limits = BundleLimits.of(by_name(context.settings))
        held_bytes = spec.held_bytes_max(context.settings) if isinstance(spec, HoldingBytes) else None
        flow = Flow(context.me.pid, self.member, limits, sink, outbox, sources, held_bytes_max=held_bytes)
        try:
            node.check_act(context.group, "publish")
        except UsageError as error:
            flow.forbid(error)
        return flow

    # --- inputs ---

    def packet(self, packet: Packet, sender: Process, size: int) -> None:
        """Take a packet of this group."""
        if self.left or self.failure is not None:
            return
        if packet.to_incarnation != ANY_INCARNATION and packet.to_incarnation != self.context.me.incarnation:
            self.ports.count("drop", "other_incarnation", peer=packet.pid)
            return
        if self._recorder is not None:
            self._recorder.received(packet.pid, list(packet.items), size)
        self.runner.receive(sender, packet.items)
        if self.waiters.awaited is not None:
            self.waiters.look()
        if self._watched:
            self._changed.set()

    def unreachable(self, peer: int) -> None:
        """Note that something sent to a peer did not arrive."""
        self.forget_peer(peer)
        if not self.left:
            self.runner.feed(self.member.unreachable, peer)

    def meet(self, peer: Process, *, member: bool) -> None:
        """Note that a connected peer says it is a member, or no longer; levels that keep no views ignore it."""
        (self.expect if member else self.forget_peer)(peer.pid)
        if isinstance(self.member, Dynamic) and not self.left:
            self.runner.feed(self.member.meet if member else self.member.parted, peer)

    def act(self, name: str, argument: int) -> None:
        """Perform an act of the level. Raises what the member raises, and UsageError without the right to it."""
        self.check()
        self._node.check_act(self.group, name)
        self.runner.ask(self.member.act, name, argument)

    def force(self, survivors: Sequence[int]) -> None:
        """Begin to go on with these members only, without a vote. Raises what the member raises, and UsageError without
        the right to it."""
        self.check()
        self._node.check_act(self.group, "force")
        assert isinstance(self.member, Living)
        self.runner.ask(self.member.force, survivors)

    def leave(self) -> None:
        """Begin to leave. Raises NotMemberError."""
        self.check()
        self.runner.ask(self.member.leave)

    def stop(self, error: WhenceError | None = None) -> None:
        """Stop the member. Send nothing to the group: that is `leave`."""
        self.ports.stop_timer()
        if self._recorder is not None and error is None and not self.left:
            self._recorder.fullest(self.member.gauges())
            if not self.ended:
                self._recorder.write(Kind.NOTE, reason=CLOSED)
        self.left = True
        self.failure = self.failure or error
        unsent = self.runner.stop(error or ClosedError("the group was closed before the disk answered"))
        self.flow.close(self.failure or ClosedError(f"group {self.group!r} is closed"))
        self._changed.set()
        self.waiters.look()
        self._sink.end(error)
        if error is not None and unsent:
            self.on_unsent(unsent, error)
        self.on_stop()
        if error is not None and self.joined:  # its connections stay: else the others would wait for its silence
            self.joined = False
            self._node.member_changed(self.group)

    def fail(self, error: Exception) -> InternalError:
        """Stop the member because of a bug of ours; return the error that publishers, receivers and waiting callers
        get."""
        log.error("a bug in group %r", self.group, exc_info=error)
        failure = InternalError(f"the member of group {self.group!r} failed: {type(error).__name__}: {error}")
        self.stop(failure)
        return failure

    def guarded(self, step: Callable[[], None]) -> Callable[[], None]:
        """Return a callback for the loop that cannot fail silently: what it raises ends the group."""
        return partial(_run, step, self.fail)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until the member's state makes something true, or it fails. Raises the failure."""
        self._watched += 1
        try:
            while True:
                if self.failure is not None:
                    raise self.failure
                if self.is_open and self.verdict is not None:
                    raise self.verdict
                if reached():
                    return
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._watched -= 1

    # --- what can be asked ---

    def refusal(self) -> Refusal | None:
        """Return the error that publishing now would raise for want of a ticket, a lease or a clock, if it is known."""
        refusing = self._refusing
        if refusing is None or refusing.refusal(self._clock()) is None:
            return None
        self.runner.feed(self.member.tick)  # the obstacle may be gone, and nothing has looked since
        return refusing.refusal(self._clock())

    def others(self) -> tuple[int, ...]:
        """Return the other members: those in the member's view, and those that announced themselves."""
        known = dict.fromkeys(pid for pid in self._node.members(self.group) if pid != self.context.me.pid)
        if isinstance(self.member, Living):
            return tuple(sorted(known))
        return tuple(sorted(known | dict.fromkeys(self.member.view() or ())))

    @property
    def is_out(self) -> bool:
        """Tell whether the application has no member here any more."""
        return self.left or self.verdict is not None

    @property
    def former(self) -> RemovedError | None:
        """Return the verdict on the member that this process was before, if that is still to be told."""
        former = self.member.former if isinstance(self.member, Living) else None
        return former and former.while_away()

    def ticket(self) -> TicketStatus | None:
        """Return the status of this process's ticket; None at levels without tickets."""
        return self.member.status(self._clock()) if isinstance(self.member, Leased) else None

    @property
    def stores(self) -> bool:
        """Tell whether what is published here survives a crash of the process."""
        retains = self.durable or self.runner.member_persists
        return self._commit is not None and stores_events(self.context.level, self.context.settings) and retains

    # --- what the runner and the clock bring up ---

    def _failed(self, error: Exception) -> None:
        """Stop the member: the disk cannot be written, or there is a bug."""
        if isinstance(error, StorageError):
            log.error("group %r stops: %s", self.group, error)
            self.stop(error)
        else:
            self.fail(error)

    def _watched_clock(self) -> int:
        """Return the time of an input; if a clock stood still, make the member stop relying on a lease that only seemed
        valid."""
        if self._slips is not None and self._slips.slipped():
            self.ports.count("note", "clock_slipped")
            self.runner.ask(self.member.act, "distrust_clock", 0)
        return self._clock()

    # --- how far the others are ---

    def reached(
        self, peer: int, last: int, waited_s: float = 0.0, left_out: Sequence[tuple[int, int]] = ()
    ) -> None:  # fmt: skip
        """Note that a peer's application took our own events up to this one, some time ago, and will never get these in
        order."""
        if left_out:
            self.settling.left_out_by(peer, left_out)
            self._changed.set()
        if self.flow.reached(peer, last, waited_s):
            self._changed.set()
            if self.waiters.awaited is not None:
                self.waiters.look()

    def expect(self, peer: int) -> None:
        """Wait for a connected member's acknowledgements from now on."""
        self.flow.credit.expect(peer)
        self._changed.set()

    def forget_peer(self, peer: int) -> None:
        """Stop waiting for a peer that is gone."""
        self.flow.credit.forget(peer, stays=does_remember(self.context.spec, self.context.settings))
        self.waiters.look()

    def _acknowledge(self, publisher: Process, reached: Reached) -> None:
        if not self.left:
            self._node.send(self.group, (publisher.pid,), reached, publisher.incarnation)

    def _note(self, note: Note) -> None:
        self._changed.set()
        if note.kind == "reset":
            self._sink.reset(note.reason or "unknown")
        elif note.kind == "join":
            self.joined = True
            self._node.member_changed(self.group)
        elif (stale := _STALE.get(note.reason or "")) is not None:
            self.stop(stale(self.group, note.peer if note.peer is None else self.named(note.peer)))
        elif note.kind == "view" and note.reason == ENTERED:
            self._entered(note)
        elif note.kind == "note" and note.reason == OUTSIDE:
            self._learnt_that_it_is_out()
        elif note.kind == "leave":
            self.joined, self._sink.recorder = False, None  # what came before is still handed out, and nothing is owed
            self.ended = True
            self.stop(removal(note, self.member))
            self._node.member_changed(self.group)

    def _learnt_that_it_is_out(self) -> None:
        """Tell the application that the member was removed. It goes on without it, until enough of the others know."""
        note = self.member.verdict() if isinstance(self.member, Living) else None
        self.verdict = removal(note, self.member) if note is not None else None
        if self.verdict is not None:
            self.flow.close(self.verdict)
            self._sink.end(self.verdict)
            self.waiters.look()
        self.on_lost()

    def lost(self) -> list[Bundle]:
        """Return what was published here and a view without this process leaves out, once: the application is told."""
        member = self.member
        if not isinstance(member, Living) or not (lost := member.lost):
            return []
        self.runner.feed(member.lost_told)
        return lost

    def _entered(self, note: Note) -> None:
        """Report a view to the application, and wait no longer for those that it is without."""
        members = note.view or ()
        removed = tuple(pid for pid in self.view_pids if pid not in members)
        added = tuple(pid for pid in members if pid not in self.view_pids)
        self.view_pids = members
        epoch = note.epoch or 0
        self._sink.entered(View(number_of(epoch), members, added, removed, generation_of(epoch)))
        for pid in removed:
            self.forget_peer(pid)

    def _wake(self) -> None:
        if not self.left:
            self.runner.wake()
            if self._recorder is not None and not self.left:
                self._recorder.observe(self.member.gauges(), self.member.view() if self.joined else None)
            self.retained.tick(joined=self.joined)
            self._changed.set()
            self.waiters.look()

    def check(self) -> None:
        """Raise the error that stopped the member, if it has stopped, or the verdict, if it is out."""
        if (ended := self.failure or self.verdict) is not None:
            raise ended
        if self.left:
            raise ClosedError(f"the member of group {self.group!r} has left or was closed")


def _run(step: Callable[[], None], fail: Callable[[Exception], object]) -> None:
    try:
        step()
    except Exception as error:  # noqa: BLE001 - a bug of ours, of any kind
        fail(error)
