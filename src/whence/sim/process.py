"""One simulated process: drives a member by the contract of Ready, and writes down everything it sees it do.

The trace tells what the process did at its borders, publishing, sending, receiving and delivering; never what the
member thinks of it.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import cast
from zlib import crc32

from whence.core.ready import Delivery, Gap, Item, Late, Mark, Note, Ready, Returned
from whence.core.stages import Grouped, Member
from whence.errors import NotMemberError, RemoteProtocolError, UsageError
from whence.sim.clock import Clock
from whence.sim.disk import Disk
from whence.sim.loop import Loop
from whence.sim.network import Copy, Network
from whence.trace.memory import Row
from whence.trace.schema import Kind
from whence.types import ANY_BOOT, Bundle, EventId, Process
from whence.wire.codec import decode, encode

INBOX_COPIES_MAX = 4096
"""What a paused process's socket buffers take. Full: further copies are lost, as a kernel would."""

NEVER = 1 << 63
"""Later than any time of a run."""

_NO_KEY = (None, None, None, None)


class World:
    """What all processes of a run share."""

    __slots__ = (
        "destinations",
        "effective",
        "group",
        "heard",
        "loop",
        "network",
        "received",
        "rows",
        "sent",
        "sync_ns",
        "wall_clock",
    )

    def __init__(
        self,
        loop: Loop,
        network: Network,
        rows: dict[Kind, list[Row]],
        group: str,
        effective: Counter[str],
        sync_ns: int,
    ) -> None:
        self.loop = loop
        self.network = network
        self.rows = rows
        self.sent, self.received = rows[Kind.SEND], rows[Kind.RECV]
        self.group = group
        self.effective = effective
        """Faults that did something, by kind."""
        self.sync_ns = sync_ns
        """How long a disk takes to sync; readies that wait for it queue behind each other."""
        self.wall_clock = False
        """Members are given the clock on the wall instead of the steady one."""
        self.destinations: Callable[[int], tuple[int, ...]] | None = None
        """The members of a group, where one overlay has several."""
        self.heard: Callable[[int, Bundle], None] | None = None
        """Called with every delivery: who made it, and of what."""


class SimProcess:
    """A peer through all its lives."""

    __slots__ = (
        "_committed",
        "_damage",
        "_dice",
        "_doomed",
        "_ev",
        "_highest",
        "_inbox",
        "_loop",
        "_me",
        "_overslept",
        "_paused",
        "_pos",
        "_rows",
        "_stalling",
        "_syncing",
        "_uncommitted",
        "_wake_at",
        "_wake_token",
        "_world",
        "boot",
        "clock",
        "disk",
        "joined",
        "member",
        "pid",
        "steps",
        "up",
    )

    def __init__(self, pid: int, world: World, clock: Clock, dice: Random) -> None:
        self.pid = pid
        self.boot = 0
        self.member: Member | None = None
        self.up = False
        self.joined = False
        self.clock = clock
        self.disk = Disk()
        self.steps = 0
        """Steps the application has taken in all its lives: it keeps that number with its own state."""
        self._world = world
        self._loop = world.loop
        self._rows = world.rows
        self._dice = dice
        self._me = Process(pid, 0)
        self._ev = 0
        self._pos = 0
        self._wake_token = 0
        self._wake_at = NEVER
        self._paused = False
        self._overslept = False
        self._inbox: list[Copy] = []
        self._doomed = False
        self._stalling = False
        self._damage = "lost"
        self._uncommitted: deque[Ready] = deque()
        self._syncing = False
        self._committed = 0
        """Readies whose sync is done, and that wait for a paused process to run again."""
        self._highest: dict[str, int] = {}
        """How full each buffer was at its fullest."""

    # --- lives ---

    def start(self, member: Callable[[Process, int], Member]) -> Member:
        """Begin a new life with a member made for it."""
        self.boot += 1
        self._me = Process(self.pid, self.boot)
        self.up, self.joined = True, False
        self._ev = self._pos = 0
        self._wake_at = NEVER
        if self.boot > 1:
            self._write(Kind.RESTART)
        self.member = member(self._me, self.now())
        return self.member

    def crash(self, damage: str) -> bool:
        """Stop at once; memory is gone, and of the disk what `damage` says. Return False if it was down already."""
        if not self.up:
            return False
        if self.disk.crash(damage, self._dice):
            self._world.effective[f"disk_{damage}"] += 1
        self.record_gauges()
        self._write(Kind.CRASH, reason=damage)
        self._stop()
        return True

    def doom(self, damage: str) -> None:
        """Crash in the middle of the next Ready that has something to do."""
        self._doomed, self._damage = True, damage

    def spare(self) -> None:
        """Call off a crash that has not happened yet."""
        self._doomed = False

    def _stop(self) -> None:
        self.up = self.joined = self._paused = self._overslept = self._doomed = self._syncing = self._stalling = False
        self.member = None
        self._committed = 0
        self._inbox.clear()
        self._uncommitted.clear()
        self._wake_token += 1
        self._wake_at = NEVER

    def pause(self) -> None:
        """Stop running while time goes on; what arrives waits."""
        self._paused = self.up

    def stall(self) -> None:
        """Pause once the member has published something, before any of it is sent or delivered."""
        self._stalling = self.up

    def resume(self) -> None:
        """Run again: what the disk finished goes ahead, timers that passed fire, then what waited arrives."""
        self._stalling = False
        if not self._paused:
            return
        self._paused = False
        if self._committed:
            self._go_ahead()
        if self._overslept:
            self._overslept = False
            self._wake(self._wake_token)
        waiting, self._inbox = self._inbox, []
        for copy in waiting:
            self.arrive(copy)

    # --- inputs ---

    def now(self) -> int:
        """Return the time on the clock that members of this level are given."""
        steady = self.clock.steady(self._loop.now)
        return steady + self.clock.jumped_ns if self._world.wall_clock else steady

    def jump_clock(self, by_ns: int) -> None:
        """Set the wall clock; a member that reads it is woken, because its timers have moved."""
        self.clock.jumped_ns += by_ns
        if self._world.wall_clock and self.member is not None:
            self._plan_wake(self.now())

    def act(self, name: str, argument: int) -> bool:
        """Let the member do what only its level knows; return False if it refuses."""
        if self.member is None or self._paused:
            return False
        try:
            self._apply(self.member.act(name, argument, self.now()))
        except UsageError as refusal:
            self._write(Kind.REJECT, reason=type(refusal).__name__)
            return False
        return True

    def found(self, peers: list[Process]) -> None:
        """Start as one of the first members."""
        assert self.member is not None
        self._apply(self.member.found(peers, self.now()))

    def join(self, contacts: list[int]) -> None:
        """Ask to be let in."""
        assert self.member is not None
        self._apply(self.member.join(contacts, self.now()))

    def restore(self) -> None:
        """Take up again what earlier lives left on the disk."""
        assert self.member is not None
        self._apply(self.member.restore(self.disk.recover(), self.now()))

    def leave(self) -> bool:
        """Begin to leave; return False if this process is no member."""
        if self.member is None or self._paused or not self.joined:
            return False
        try:
            self._apply(self.member.leave(self.now()))
        except NotMemberError:
            return False
        return True

    def publish(self, payloads: list[bytes], group: int | None = None) -> Bundle | None:
        """Publish one bundle; return None, and say why in the trace, if the member refuses."""
        if self.member is None or self._paused:
            return None
        try:
            if group is None:
                bundle, ready = self.member.publish(payloads, self.now())
            else:
                bundle, ready = cast(Grouped, self.member).publish_to(group, payloads, self.now())
        except UsageError as refusal:
            self._write(Kind.REJECT, reason=type(refusal).__name__)
            return None
        if not (ready.deliver and isinstance(ready.deliver[0], Returned)):
            destinations = self._world.destinations
            dests = None if group is None or destinations is None else destinations(group)
            self._write_published(bundle, ready.mark, dests)
        if self._stalling and not ready.persist and not self._uncommitted:
            self._uncommitted.append(ready)
            self._committed = 1
            self.pause()
            self._world.effective["pause_before_send"] += 1
        else:
            self._apply(ready)
        return bundle

    def _write_published(self, bundle: Bundle, mark: Mark | None, dests: tuple[int, ...] | None) -> None:
        clk, true = self.clock.wall(self._loop.now), self._loop.now
        stamp_bytes = len(bundle.stamp)
        published = self._rows[Kind.PUBLISH]
        (physical, k_hi, k_mid, k_lo), ticket, epoch = _read(mark)
        for seq, payload in enumerate(bundle.payloads(), bundle.first):
            published.append(
                (self.pid, self.boot, self._ev, clk, true, self._world.group, bundle.pid, bundle.boot, seq, dests,
                 physical, k_hi, k_mid, k_lo, stamp_bytes, len(payload), crc32(payload), ticket, epoch, None)
            )  # fmt: skip
            self._ev += 1
            if k_lo is not None:
                k_lo += 1

    def arrive(self, copy: Copy) -> None:
        """Take a copy from the network."""
        member = self.member
        if member is None:
            self._world.network.refuse(copy)
            return
        if self._paused:
            if len(self._inbox) < INBOX_COPIES_MAX:
                self._inbox.append(copy)
            else:
                self._world.effective["inbox_full"] += 1
            return
        try:
            packet = decode(copy.frame)
        except RemoteProtocolError:
            self._write(Kind.REJECT, peer=copy.source, reason="no_packet")
            return
        if packet.to_boot != ANY_BOOT and packet.to_boot != self.boot:
            self._write(Kind.DROP, peer=packet.pid, reason="other_boot")
            return
        true, clock = self._loop.now, self.clock
        steady = clock.steady(true)
        now = steady + clock.jumped_ns if self._world.wall_clock else steady
        self._world.received.append(
            (self.pid, self.boot, self._ev, steady + clock.jumped_ns, true, packet.group, packet.pid,
             len(copy.frame) - copy.payload_bytes, copy.payload_bytes)
        )  # fmt: skip
        self._ev += 1
        sender = Process(packet.pid, packet.boot)
        for item in packet.items:
            if self.member is member:  # it may have stopped at an earlier item
                self._apply(member.receive(sender, item, now))

    def unreachable(self, peer: int) -> None:
        """Learn that a copy found nobody."""
        if self.member is not None and not self._paused:
            self._apply(self.member.unreachable(peer, self.now()))

    def _wake(self, token: int) -> None:
        if token != self._wake_token or self.member is None:
            return
        if self._paused:
            self._overslept = True
            return
        self._wake_at = NEVER
        self._apply(self.member.tick(self.now()))
        self._measure()

    # --- the contract of Ready ---

    def _apply(self, ready: Ready) -> None:
        """Persist, then do the rest; a Ready never overtakes one that still waits for the disk."""
        if not ready.persist and not self._uncommitted:
            self._perform(ready)
            return
        self.disk.write(ready.persist)
        self._uncommitted.append(ready)
        if not self._syncing:
            self._sync()

    def _sync(self) -> None:
        """Sync what is written now; one sync commits all that came before it."""
        sync = (self.boot, len(self._uncommitted), self.disk.unsynced())
        if not self._world.sync_ns:
            self._commit(sync)
            return
        self._syncing = True
        self._loop.at(self._loop.now + self._world.sync_ns, self._commit, sync)

    def _commit(self, sync: tuple[int, int, int]) -> None:
        """Finish a sync: what was written before it began is durable, and what waited for that goes ahead."""
        boot, readies, size = sync
        if boot != self.boot or self.member is None:
            return
        self.disk.sync(size)
        self._committed = readies
        if not self._paused:
            self._go_ahead()

    def _go_ahead(self) -> None:
        readies, self._committed = self._committed, 0
        self._syncing = False
        for ready in [self._uncommitted.popleft() for _ in range(readies)]:
            if self.up:
                self._perform(ready)
        if self._uncommitted:
            self._sync()

    def _perform(self, ready: Ready) -> None:
        if ready.deliver and isinstance(ready.deliver[0], Returned):
            self._deliver(ready.deliver.pop(0))
        if self._doomed and (ready.send or ready.deliver):
            self._perform_in_part(ready)
            return
        for send in ready.send:
            self._send(send.to, send.item, send.boot)
        for step in ready.deliver:
            self._deliver(step)
        for note in ready.notes:
            self._note(note)
        wake_at = ready.wake_at
        if wake_at is not None and wake_at < self._wake_at:
            self._plan_wake(wake_at)

    def _plan_wake(self, wake_at: int) -> None:
        """Plan the next tick. One planned too early is harmless, so nothing is planned anew for a later one."""
        self._wake_at = wake_at
        self._wake_token = token = self._wake_token + 1
        steady = wake_at - self.clock.jumped_ns if self._world.wall_clock else wake_at
        self._loop.at(max(self._loop.now, self.clock.true_when(steady)), self._wake, token)

    def _perform_in_part(self, ready: Ready) -> None:
        """Crash after some of the effects, in their order: a driver may stop between any two."""
        sends = [(target, send) for send in ready.send for target in send.to]
        done = self._dice.randrange(len(sends) + len(ready.deliver))
        for target, send in sends[:done]:
            self._send((target,), send.item, send.boot)
        for step in ready.deliver[: max(0, done - len(sends))]:
            self._deliver(step)
        self._world.effective["crash_between_effects"] += 1
        self.crash(self._damage)

    def _send(self, targets: tuple[int, ...], item: Item, to_boot: int) -> None:
        frame = encode(self._world.group, self._me, [item], to_boot)
        payload_bytes = item.payload_bytes()
        stamp_bytes = len(frame) - payload_bytes
        true, ev = self._loop.now, self._ev
        clk = self.clock.wall(true)
        sent = self._world.sent
        pid, boot, group = self.pid, self.boot, self._world.group
        for target in targets:
            sent.append((pid, boot, ev, clk, true, group, target, stamp_bytes, payload_bytes))
            ev += 1
        self._ev = ev
        self._world.network.send(pid, targets, frame, payload_bytes)

    def _deliver(self, step: Delivery | Gap | Late | Returned) -> None:
        self.steps += 1
        if isinstance(step, Returned):
            destinations = self._world.destinations
            self._write_published(step.bundle, None, None if destinations is None else destinations(step.group))
            return
        if isinstance(step, Gap):
            skipped = tuple(EventId(s.pid, s.boot, seq) for s in step.spans for seq in range(s.first, s.last + 1))
            self._write(Kind.GAP, ids=skipped)
            return
        bundle = step.bundle
        if isinstance(step, Late):
            for seq in range(bundle.first, bundle.last + 1):
                self._write(Kind.LATE, event=EventId(bundle.pid, bundle.boot, seq), late_ns=step.late_ns)
            return
        true, ev, pos = self._loop.now, self._ev, self._pos
        clk = self.clock.wall(true)
        delivered = self._rows[Kind.DELIVER]
        pid, boot, group, hold_ns = self.pid, self.boot, self._world.group, step.hold_ns
        origin, origin_boot = bundle.pid, bundle.boot
        (physical, k_hi, k_mid, k_lo), ticket, epoch = _read(step.mark)
        for seq, payload in enumerate(bundle.payloads(), bundle.first):
            delivered.append(
                (pid, boot, ev, clk, true, group, origin, origin_boot, seq, pos, hold_ns,
                 physical, k_hi, k_mid, k_lo, len(payload), crc32(payload), ticket, epoch, None)
            )  # fmt: skip
            ev += 1
            pos += 1
            if k_lo is not None:
                k_lo += 1
        self._ev, self._pos = ev, pos
        if self._world.heard is not None:
            self._world.heard(pid, bundle)

    def _note(self, note: Note) -> None:
        bundle = note.bundle
        event = None if bundle is None else EventId(bundle.pid, bundle.boot, bundle.first)
        kind = Kind(note.kind)
        self._write(
            kind, event=event, peer=note.peer, reason=note.reason, ticket=note.ticket, epoch=note.epoch,
            value=note.value, late_ns=note.late_ns,
        )  # fmt: skip
        if kind is Kind.JOIN:
            self.joined = True
        elif kind is Kind.LEAVE:
            self.record_gauges()
            self._stop()
        elif kind is Kind.NOTE and note.reason is not None:
            self._world.effective[note.reason] += 1

    # --- what only an observer does ---

    def record_view(self) -> None:
        """Write down whom the member knows."""
        if self.member is not None and self.joined and (view := self.member.view()) is not None:
            self._write(Kind.VIEW, view=view)

    def _measure(self) -> None:
        """Keep how full every buffer was at its fullest."""
        if self.member is None:
            return
        highest = self._highest
        for gauge in self.member.gauges():
            if gauge.value > highest.get(gauge.name, -1):
                highest[gauge.name] = gauge.value

    def record_rest(self) -> None:
        """Write down every buffer that should be empty by now."""
        if self.member is not None and self.joined:
            for gauge in self.member.gauges():
                if gauge.rests:
                    self._write(Kind.NOTE, reason=f"{gauge.name}_at_rest", value=gauge.value, bound=0)

    def record_gauges(self) -> None:
        """Write down how full every buffer of this life was at its fullest."""
        if self.member is not None:
            for gauge in self.member.gauges():
                if gauge.name in self._highest:
                    self._write(Kind.NOTE, reason=gauge.name, value=self._highest[gauge.name], bound=gauge.bound)
        self._highest.clear()

    def _write(
        self,
        kind: Kind,
        *,
        event: EventId | None = None,
        peer: int | None = None,
        view: tuple[int, ...] | None = None,
        late_ns: int | None = None,
        ticket: int | None = None,
        epoch: int | None = None,
        ids: tuple[EventId, ...] | None = None,
        reason: str | None = None,
        value: int | None = None,
        bound: int | None = None,
    ) -> None:
        pid, inc, seq = event if event is not None else (None, None, None)
        true = self._loop.now
        self._rows[kind].append(
            (self.pid, self.boot, self._ev, self.clock.wall(true), true, self._world.group, pid, inc, seq, peer, view,
             late_ns, ticket, epoch, ids, reason, value, bound)
        )  # fmt: skip
        self._ev += 1


def _read(mark: Mark | None) -> tuple[tuple[int | None, int | None, int | None, int | None], int | None, int | None]:
    """Return a mark's key, ticket and epoch, all None where there is none."""
    if mark is None:
        return _NO_KEY, None, None
    return mark.key or _NO_KEY, mark.ticket, mark.epoch
