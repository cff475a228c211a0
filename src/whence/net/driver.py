"""One live member of one group: the contract of Ready on real clocks, sockets and disks.

persist, then send, then deliver, then notes, then wake: a Ready that has something to persist waits for the disk, and
none overtakes it. The same member code runs here and in the simulator (sim/process.py); so does this order.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from whence.core.levels import Surroundings, stores_events
from whence.core.link.reached import Reached
from whence.core.members.full import Directory
from whence.core.members.tickets.joining import Status
from whence.core.offsets import Owed
from whence.core.order.begun import OWN_LOST, own_lost
from whence.core.ready import Delivery, Gap, Gauge, Late, Metric, Ready, Returned, Unheard
from whence.core.spread.direct import Push
from whence.core.stages import Member, Resuming
from whence.errors import ClosedError, InternalError, NotMemberError, Refusal, StorageError, UsageError, WhenceError
from whence.net.clock import SlipWatch, epoch_floor, steady_ns, wall_ns
from whence.net.compaction import Compaction
from whence.net.credit import CREDIT_BYTES_MIN, CREDIT_LOOK_S, Credit, Relief
from whence.net.otel import Telemetry
from whence.net.reports import Reports
from whence.net.role import Kept, Outside, Role, Sink
from whence.net.scribe import Scribe
from whence.net.settling import Settling
from whence.net.taking import Taking
from whence.store.log import Marked
from whence.trace.schema import Kind
from whence.types import ANY_BOOT, Bundle, Process
from whence.wire.items import Packet

log = logging.getLogger("whence.net")

OF_MEMBER, OF_DRIVER, OF_STEPS, OF_UNTAKEN, OF_UNTOLD = b"M", b"P", b"S", b"D", b"R"
"""The first byte of a journal record: the member's own, a bundle that the driver promised to keep; and where a journal
was rewritten, how far the application was, what it had not taken, and publications it was not told of."""

NEVER = 1 << 63

_encode_bundle = msgspec.msgpack.Encoder().encode
_decode_bundle = msgspec.msgpack.Decoder(Bundle).decode
_decode_steps = msgspec.msgpack.Decoder(tuple[int, int]).decode


class Driver:
    """Runs one member."""

    def __init__(
        self, role: Role, outside: Outside, sink: Sink, scribe: Scribe | None, kept: Kept | None, *, durable: bool
    ) -> None:
        self.role = role
        self.group = role.group
        self.joined = False
        self.left = False
        self.published = 0
        self.counts: Counter[str] = Counter()
        self.telemetry: Telemetry | None = None
        self.failure: WhenceError | None = None
        self.on_unheard: Callable[[Bundle], None] = lambda bundle: None
        """Called with a publication that nobody said in time to have."""
        self._outside = outside
        self._sink = sink
        self._scribe = scribe
        self._commit = kept.commit if kept is not None else None
        self.keeps_journal = kept is not None
        if self._commit is not None:
            self._commit.compaction = self._compaction
        remembers = kept is not None and bool(getattr(role.recipe, "durable", False))
        self._steps = kept.steps if kept is not None and remembers else None
        """How far the application is, where a later life goes on from there."""
        self._compacting = Compaction()
        self._durable = durable
        self._loop = asyncio.get_running_loop()
        self._clock = wall_ns if role.recipe.reads_wall_clock() else steady_ns
        self._waiting: deque[tuple[Ready, asyncio.Future[None] | None, Bundle | None]] = deque()
        """Readies that wait for the disk, each with whom to tell when it is durable."""
        self._performing = False
        self._next: deque[Ready] = deque()
        """Readies of what an application did while it was handed something: they come after the rest of that."""
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at = NEVER
        self._changed = asyncio.Event()
        self._watched = 0
        """How many wait for a change."""
        self._member_persists = False
        self._ticks_joined = 0
        held: Callable[[Any], int | None] = getattr(role.recipe, "held_bytes_max", lambda settings: None)
        self.credit = Credit(role.me.pid, held(role.settings))
        self._credit_looked = 0.0
        self.relief = Relief(self.congested)
        self.reports = Reports(self._report, self.guarded)
        self._woken = self.guarded(self._wake)
        self._unsettled: deque[Bundle] = deque()
        """Bundles promised to be kept until everybody has them."""
        slip: Callable[[Any], int | None] = getattr(role.recipe, "clock_slip_ns_max", lambda settings: None)
        self._slips = SlipWatch(slip_ns) if (slip_ns := slip(role.settings)) is not None else None
        around = Surroundings(
            role.dice, self._clock(), Directory(), remembers=kept is not None,
            epoch_floor=epoch_floor() if kept is None else 0, is_first_life=role.is_first_life,
        )  # fmt: skip
        self.member: Member = role.recipe.build(role.me, role.settings, around)
        self._resuming = self.member if remembers and isinstance(self.member, Resuming) else None
        """The member, if it finds again by itself what the application has not taken."""
        self._taking = Taking(sink, scribe, self._steps, self._resuming, self._note_taken)
        self._taking.begin(role.recipe, sink)
        self._held_back: Callable[[], bool] | None = getattr(self.member, "held_back", None)
        """Whether publishing more would make something come too late, at levels where it can."""
        self.may_hold_back = self._held_back is not None
        self._refusal: Callable[[int], Refusal | None] | None = getattr(self.member, "refusal", None)
        self.may_refuse = self._refusal is not None
        self.settling = Settling(self.group, role.me.pid, self.member, self.credit, outside)
        self._checkpoint_bytes: Callable[[], int] = getattr(self.member, "checkpoint_bytes", int)

    @property
    def position(self) -> int:
        """Return the next place that no event ever had here; where members remember, in all lives."""
        return self._taking.position

    # --- inputs ---

    def found(self, peers: Sequence[Process]) -> None:
        """Start as one of the first members."""
        self._do(self.member.found, peers)

    def join(self, contacts: Sequence[int]) -> None:
        """Ask to be let in. Raises NotMemberError where members are fixed."""
        self._apply(self.member.join(contacts, self._clock()))

    def restore(self, records: Sequence[bytes]) -> None:
        """Take up what earlier lives persisted: the member's own, and bundles to be kept. Raises StorageError."""
        own = [record[1:] for record in records if record[:1] == OF_MEMBER]
        self._member_persists = bool(own)
        if self._steps is not None:
            rewritten = [_decode_steps(record[1:]) for record in records if record[:1] == OF_STEPS]
            self._taking.resume(*(rewritten[-1] if rewritten else (0, 0)))
            for record in records:
                if record[:1] == OF_UNTAKEN:
                    self._deliver(Delivery(_decode_bundle(record[1:])))
                elif record[:1] == OF_UNTOLD:
                    self._deliver(Returned(_decode_bundle(record[1:])))
        self._do(self.member.restore, own)
        self._taking.resumed()
        for record in records:
            if record[:1] == OF_DRIVER:
                self._unsettled.append(_decode_bundle(record[1:]))

    def offer_again(self) -> None:
        """Offer the bundles of earlier lives to the group: whoever lacks them will ask for them."""
        for bundle in list(self._unsettled):
            if bundle.process != self.role.me:
                self._do(self.member.receive, bundle.process, Push([bundle]))

    def publish(self, payloads: Sequence[bytes], stored: "asyncio.Future[None] | None" = None) -> Bundle:
        """Publish a bundle; `stored` is told once it is durable. Raises what the member raises."""
        self._check()
        if self._slips is not None and self._slips.slipped():
            self._distrust_clock()
        bundle, ready = self.member.publish(payloads, self._clock())
        self.published += len(payloads)
        self.credit.published(bundle)
        if self.telemetry is not None:
            self.telemetry.published(bundle)
        told_in_turn = bool(self._waiting) and not self._durable and not _returns(ready)
        if self._scribe is not None and not _returns(ready) and not told_in_turn:
            self._scribe.published(bundle, ready.mark)
        if (self._durable or ready.persist) and self._scribe is not None:
            self._scribe.spool.flush()  # what a later life offers again must be known to have been published
        if self._durable and not ready.persist:  # a member that keeps its own events needs no second book of them
            self._unsettled.append(bundle)
            self._persist(ready, _encode_bundle(bundle), stored)
        else:
            self._persist(ready, None, stored, bundle if told_in_turn else None)
        return bundle

    def packet(self, packet: Packet, sender: Process, size: int) -> None:
        """Take a packet of this group."""
        if self.left or self.failure is not None:
            return
        if packet.to_boot != ANY_BOOT and packet.to_boot != self.role.me.boot:
            self.count("drop", "other_boot", peer=packet.pid)
            return
        if self._scribe is not None:
            self._scribe.received(packet.pid, list(packet.items), size)
        for item in packet.items:
            if not self.left:
                self._do(self.member.receive, sender, item)
        if self.relief.awaited is not None:
            self.relief.look()
        if self._watched:
            self._changed.set()

    def unreachable(self, peer: int) -> None:
        """Learn that something sent to a peer did not arrive."""
        self.forget_peer(peer)
        if not self.left:
            self._do(self.member.unreachable, peer)

    def meet(self, peer: Process, *, member: bool) -> None:
        """Learn from a connected peer itself that it is a member, or no more; levels that keep no views need not."""
        (self.expect if member else self.forget_peer)(peer.pid)
        step = getattr(self.member, "meet" if member else "parted", None)
        if step is not None and not self.left:
            self._do(step, peer)

    def act(self, name: str, argument: int) -> None:
        """Do what only the level knows. Raises what the member raises, and UsageError without the right to it."""
        self._check()
        self._outside.check_act(self.group, name)
        self._apply(self.member.act(name, argument, self._clock()))

    def leave(self) -> None:
        """Begin to leave. Raises NotMemberError."""
        self._check()
        self._apply(self.member.leave(self._clock()))

    def count(self, kind: str, reason: str, peer: int | None = None) -> None:
        """Write down something the driver itself did."""
        self.counts[f"{kind}:{reason}"] += 1
        if self._scribe is not None:
            self._scribe.write(Kind(kind), peer=peer, reason=reason)

    def stop(self, error: WhenceError | None = None) -> None:
        """Run no more. Says nothing to the group: that is `leave`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._scribe is not None and error is None and not self.left:
            self._scribe.fullest(self.member.gauges())
        self.left = True
        self.failure = self.failure or error
        for _, stored, _ in self._waiting:
            if stored is not None and not stored.done():
                stored.set_exception(error or ClosedError("the group was closed before the disk answered"))
                stored.exception()
        self._waiting.clear()
        self._changed.set()
        self.relief.look()
        self._sink.end(error)

    def fail(self, error: Exception) -> InternalError:
        """Run no more because of a bug of ours: publishers, receivers and whoever waits hear of it."""
        log.error("a bug in group %r", self.group, exc_info=error)
        failure = InternalError(f"the member of group {self.group!r} failed: {type(error).__name__}: {error}")
        self.stop(failure)
        return failure

    def guarded(self, step: Callable[[], None]) -> Callable[[], None]:
        """Return a callback for the loop that cannot fail in silence: what it raises ends the group."""
        return partial(_run, step, self.fail)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until the member's state makes something true, or it fails. Raises the failure."""
        self._watched += 1
        try:
            while True:
                if self.failure is not None:
                    raise self.failure
                if reached():
                    return
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._watched -= 1

    # --- what can be asked ---

    def refusal(self) -> Refusal | None:
        """Return the error that publishing now would raise for want of a ticket, a lease or a clock, if it is known."""
        check = self._refusal
        if check is None or check(self._clock()) is None:
            return None
        self._do(self.member.tick)  # what stood in the way may be over, and nobody has looked since
        return check(self._clock())

    def others(self) -> tuple[int, ...]:
        """Return the other members: those in the member's view, and those that told themselves."""
        known = dict.fromkeys(pid for pid in self._outside.members(self.group) if pid != self.role.me.pid)
        return tuple(sorted(known | dict.fromkeys(self.member.view() or ())))

    def ticket(self) -> Status | None:
        """Return how the process stands in its cluster; None at levels without tickets."""
        tell: Callable[[int], Status] | None = getattr(self.member, "status", None)
        return tell(self._clock()) if tell is not None else None

    def metrics(self) -> list[Metric]:
        """Return what the level counts and measures beyond its gauges; nothing where it does not."""
        tell: Callable[[], list[Metric]] = getattr(self.member, "metrics", list)
        return tell()

    def gauges(self) -> list[Gauge]:
        """Return how full the member's buffers are."""
        return self.member.gauges()

    @property
    def stores(self) -> bool:
        """Tell whether what is published here survives a crash of the process."""
        return self._commit is not None and stores_events(self.role.level) and (self._durable or self._member_persists)

    # --- the contract of Ready ---

    def _do(self, step: Callable[..., Ready], *given: object) -> None:
        """Feed one input. A member that raises here has a bug, and is not run any more."""
        if self._slips is not None and self._slips.slipped():
            self._distrust_clock()
        try:
            ready = step(*given, self._clock())
        except (UsageError, NotMemberError) as refusal:
            self.count("reject", type(refusal).__name__)
            return
        except StorageError:  # of what earlier lives left: whoever opens the group is told
            raise
        except Exception as error:  # noqa: BLE001 - the member's state is unknown: it must not go on
            self.fail(error)
            return
        if self._commit is None:
            self._perform(ready)
        else:
            self._persist(ready, None, None)

    def _distrust_clock(self) -> None:
        """Let the member do nothing, from this input on, on a lease that a frozen clock took for valid."""
        self.count("note", "clock_slipped")
        self._apply(self.member.act("distrust_clock", 0, self._clock()))

    def _apply(self, ready: Ready) -> None:
        self._persist(ready, None, None)

    def _persist(
        self, ready: Ready, own: bytes | None, stored: "asyncio.Future[None] | None", told: Bundle | None = None
    ) -> None:
        """Persist, then do the rest; a Ready never overtakes one that still waits for the disk.

        `own` is a publication of which the driver keeps the book, where the member persists nothing of it.
        `told` is a publication whose row comes after those of the Readies before it, such as the one with its ticket.
        """
        if self._commit is None or not (ready.persist or own or self._waiting):
            self._perform(ready)
            if stored is not None and not stored.done():
                stored.set_result(None)
            return
        self._member_persists = self._member_persists or bool(ready.persist)
        self._waiting.append((ready, stored, told))
        if own is None:
            self._commit.write(ready.persist, self._committed, OF_MEMBER)
        else:
            self._commit.write([own], self._committed, OF_DRIVER)

    def _committed(self, error: StorageError | None) -> None:
        if not self._waiting:
            return  # stopped meanwhile
        if error is not None:
            log.error("group %r stops: %s", self.group, error)
            self.stop(error)
            return
        ready, stored, told = self._waiting.popleft()
        if told is not None and self._scribe is not None:
            self._scribe.published(told, ready.mark)
        self._perform(ready)
        if stored is not None and not stored.done():
            stored.set_result(None)

    def _perform(self, ready: Ready) -> None:
        """Do what a Ready asks for; what the application does meanwhile comes after it."""
        if self._performing:
            self._next.append(ready)
            return
        scribe, self._performing = self._scribe, True
        try:
            while True:
                deliver = ready.deliver
                if deliver and isinstance(deliver[0], Returned):
                    self._deliver(deliver.pop(0))  # a publication is told of before it is sent
                for send in ready.send:
                    size = self._outside.send(self.group, send.to, send.item, send.boot)
                    if scribe is not None:
                        scribe.sent(send.to, send.item, size)
                for step in deliver:
                    self._deliver(step)
                for note in ready.notes:
                    self._note(note)
                wake_at = ready.wake_at
                if wake_at is not None and wake_at < self._wake_at and not self.left:
                    self._plan_wake(wake_at)
                if not self._next:
                    break
                ready = self._next.popleft()
        except Exception as error:  # noqa: BLE001 - half of a Ready is done: the rest must not follow
            self._next.clear()
            self.fail(error)
        finally:
            self._performing = False

    def _deliver(self, step: Delivery | Gap | Late | Returned | Unheard) -> None:
        if isinstance(step, Returned):
            self._taking.tell(step.bundle)
        elif isinstance(step, Delivery):
            have, again, position = self._taking.deliver(step.bundle)
            if have == step.bundle.count:
                self._note_taken(step.bundle)
                return
            if self.telemetry is not None:
                self.telemetry.delivered(step.bundle, step.hold_ns)
            self._sink.take(step, position, have, again)
        elif isinstance(step, Gap):
            if self._scribe is not None:
                self._scribe.skipped(step.spans)
            events = sum(span.last - span.first + 1 for span in step.spans)
            self.counts["skipped"] += events
            if self.telemetry is not None:
                self.telemetry.skipped(events)
            self._sink.skip(step)
        elif isinstance(step, Unheard):
            self.on_unheard(step.bundle)
        else:
            if self._scribe is not None:
                self._scribe.late(step)
            self.counts["late"] += step.bundle.count
            if self.telemetry is not None:
                self.telemetry.late(step.bundle.count)
            self._note_taken(step.bundle)  # it had its place; nobody must wait for it any more
            self._sink.late(step)

    # --- how far the others are ---

    def reached(self, peer: int, last: int, waited_s: float = 0.0) -> None:
        """Learn that a peer's application has taken own events up to this one, some time ago."""
        if self.credit.reached(peer, last, waited_s):
            self._changed.set()
            if self.relief.awaited is not None:
                self.relief.look()

    def expect(self, peer: int) -> None:
        """Wait for a connected member from now on."""
        self.credit.expect(peer)
        self._changed.set()

    def forget_peer(self, peer: int) -> None:
        """Wait no more for a peer that is gone."""
        self.credit.forget(peer, stays=bool(getattr(self.role.recipe, "durable", False)))
        self.relief.look()

    def congested(self) -> bool:
        """Tell whether publishers should wait until members have taken more of what is under way."""
        if self._held_back is not None and self._held_back():
            return True
        if self.credit.away_bytes <= CREDIT_BYTES_MIN:
            return False
        now = self._loop.time()
        if now >= self._credit_looked:
            self._credit_looked = now + CREDIT_LOOK_S
            self.credit.share(len(self._outside.members(self.group)), 1 + self.reports.publishers())
        return self.credit.is_used_up()

    def _report(self, publisher: Process, reached: Reached) -> None:
        if not self.left:
            self._outside.send(self.group, (publisher.pid,), reached, publisher.boot)

    def _note_taken(self, bundle: Bundle) -> None:
        me = self.role.me
        if bundle.pid == me.pid and bundle.boot == me.boot:
            self.reached(me.pid, bundle.last)
        else:
            self.reports.taken(bundle)

    def _note(self, note: Any) -> None:
        self.counts[f"{note.kind}:{note.reason}" if note.reason else note.kind] += 1
        if self._scribe is not None:
            self._scribe.noted(note)
        self._changed.set()
        if note.kind == "reset":
            self._sink.reset(note.reason or "unknown")
        elif note.kind == "join":
            self.joined = True
            self._outside.member_changed(self.group)
        elif note.reason == OWN_LOST:
            self.stop(own_lost(self.group, note.peer))
        elif note.kind == "leave":
            self.joined, self._taking.over = False, True
            self.stop()
            self._outside.member_changed(self.group)

    def _plan_wake(self, wake_at: int) -> None:
        """Plan the next tick. One planned too early is harmless, so nothing is planned anew for a later one."""
        self._wake_at = wake_at
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0, wake_at - self._clock()) / 1e9, self._woken)

    def _wake(self) -> None:
        self._timer, self._wake_at = None, NEVER
        if not self.left:
            self._do(self.member.tick)
            self._ticks_joined += self.joined
            if self._scribe is not None and not self.left:
                self._scribe.observe(self.member.gauges(), self.member.view() if self.joined else None)
            self._settle()
            self._changed.set()
            self.relief.look()

    def _settle(self) -> None:
        """Let go of bundles that everybody has; rewrite the journal when most of it is of no use."""
        settled = self.settling.settled()
        while self._unsettled and settled is not None:
            bundle = self._unsettled[0]
            mine = bundle.process == self.role.me
            if bundle.last > settled if mine else self._ticks_joined < OFFER_TICKS:
                break
            self._unsettled.popleft()
        if self._commit is not None:
            self._commit.shrink()

    def _compaction(self) -> list[Marked] | None:
        """Return records that stand for the whole journal and all that waits for the disk; None if not worth it."""
        assert self._commit is not None
        size = self._commit.log.size
        checkpoint = getattr(self.member, "checkpoint", None)
        now = self._loop.time()
        if self.left or not self._compacting.due(size, now) or (checkpoint is None and self._member_persists):
            return None  # without a checkpoint only the member knows which of its records still count
        bundles = [(OF_DRIVER, bundle) for bundle in self._unsettled]
        owed = self._taking.owed()
        if owed is not None:
            bundles += self._unfinished(owed)
        records: list[Marked] = []
        counts = self._checkpoint_bytes() + sum([len(bundle.body) for _, bundle in bundles])  # at least
        if counts <= size // 2:
            records += [(OF_MEMBER, record) for record in checkpoint()] if checkpoint is not None else []
            if owed is not None:
                records.append((OF_STEPS, msgspec.msgpack.encode((owed.taken, owed.told))))
            records += [(mark, _encode_bundle(bundle)) for mark, bundle in bundles]
            counts = sum([len(record) for _, record in records])
        if self._compacting.worth(size, counts, now):
            self.counts["compactions"] += 1
            return records
        self._loop.call_later(self._compacting.pause_s, self.guarded(self._commit.shrink))  # nobody else may
        return None

    def _unfinished(self, owed: Owed) -> list[tuple[bytes, Bundle]]:
        """Return what the application is still owed by steps that the member has made."""
        unfinished = [(OF_UNTAKEN, bundle) for bundle in owed.bundles]
        steps = [step for ready, _, _ in self._waiting for step in ready.deliver]
        unfinished += [(OF_UNTAKEN if isinstance(step, Delivery) else OF_UNTOLD, step.bundle)
                       for step in steps if isinstance(step, Delivery | Returned)]  # fmt: skip
        return unfinished

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.left:
            raise ClosedError(f"the member of group {self.group!r} has left or was closed")


def _run(step: Callable[[], None], fail: Callable[[Exception], object]) -> None:
    try:
        step()
    except Exception as error:  # noqa: BLE001 - a bug of ours, of any kind
        fail(error)


def _returns(ready: Ready) -> bool:
    """Tell whether a Ready begins with word of a publication."""
    return bool(ready.deliver) and isinstance(ready.deliver[0], Returned)


OFFER_TICKS = 100
"""Ticks as a member after which bundles of earlier lives count as asked for by whoever lacked them."""
