"""One simulated process: drives a member by the contract of Ready, and writes down everything it sees it do.

The trace tells what the process did at its borders, publishing, sending, receiving and delivering; never what the
member thinks of it.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple, cast

from whence.core.ready import Delivery, Gap, Item, Late, Note, Ready, Returned, Unheard
from whence.core.stages import Grouped, Member
from whence.errors import NotMemberError, RemoteProtocolError, UsageError
from whence.sim.application import Application
from whence.sim.clock import Clock
from whence.sim.disk import Disk
from whence.sim.network import Copy
from whence.sim.recorder import Recorder
from whence.sim.world import World
from whence.trace.schema import Kind
from whence.types import ANY_BOOT, Bundle, EventId, Process
from whence.wire.codec import decode, encode

INBOX_COPIES_MAX = 4096
"""What a paused process's socket buffers take. Full: further copies are lost, as a kernel would."""

COMPACT_BYTES, COMPACT_FACTOR = 1024, 4
"""A journal is rewritten when it is longer than this, and so many times as long as when it was rewritten last."""

NEVER = 1 << 63
"""Later than any time of a run."""


class Told(NamedTuple):
    """A publication whose rows come after those of the Readies before it, such as the one that tells of its ticket."""

    bundle: Bundle
    dests: tuple[int, ...] | None


class SimProcess:
    """A peer through all its lives."""

    __slots__ = (
        "_committed",
        "_compact_at",
        "_damage",
        "_dice",
        "_doomed",
        "_inbox",
        "_loop",
        "_me",
        "_overslept",
        "_paused",
        "_record",
        "_stalling",
        "_syncing",
        "_uncommitted",
        "_wake_at",
        "_wake_token",
        "_world",
        "application",
        "boot",
        "clock",
        "disk",
        "joined",
        "member",
        "pid",
        "up",
    )

    def __init__(self, pid: int, world: World, clock: Clock, dice: Random, taking: Random | None = None) -> None:
        """Make a process; `taking` draws how its application takes events, where members remember what it took."""
        self.pid = pid
        self.boot = 0
        self.member: Member | None = None
        self.up = False
        self.joined = False
        self.clock = clock
        self.disk = Disk()
        self._world = world
        self._loop = world.loop
        self._record = Recorder(pid, world.group, world.rows, world.loop, clock)
        self.application: Application | None = None
        """Where members remember; elsewhere what is delivered is handed out at once, and dies with the process."""
        if taking is not None:
            self.application = Application(world, self._record, taking, self._heard, lambda: self._paused)
        self._dice = dice
        self._me = Process(pid, 0)
        self._wake_token = 0
        self._wake_at = NEVER
        self._paused = False
        self._overslept = False
        self._inbox: list[Copy] = []
        self._doomed = False
        self._stalling = False
        self._damage = "lost"
        self._uncommitted: deque[tuple[Ready, Told | None]] = deque()
        self._syncing = False
        self._compact_at = COMPACT_BYTES
        self._committed = 0
        """Readies whose sync is done, and that wait for a paused process to run again."""

    # --- lives ---

    def start(self, member: Callable[[Process, int], Member]) -> Member:
        """Begin a new life with a member made for it."""
        self.boot += 1
        self._me = Process(self.pid, self.boot)
        self.up, self.joined = True, False
        self._record.begin_life(self.boot)
        self._wake_at = NEVER
        if self.boot > 1:
            self._record.write(Kind.RESTART)
        self.member = member(self._me, self.now())
        if self.application is not None:
            self.application.begin(self.boot, self.member)
        return self.member

    def crash(self, damage: str) -> bool:
        """Stop at once; memory is gone, and of the disk what `damage` says. Return False if it was down already."""
        if not self.up:
            return False
        if self.disk.crash(damage, self._dice):
            self._world.effective[f"disk_{damage}"] += 1
        self.record_gauges()
        self._record.write(Kind.CRASH, reason=damage)
        if self.application is not None:
            self.application.die(damage)
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
            self._record.write(Kind.REJECT, reason=type(refusal).__name__)
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
        """Take up again what earlier lives left on the disk, after what the application has."""
        assert self.member is not None
        if self.application is None:
            self._apply(self.member.restore(self.disk.recover(), self.now()))
            return
        for bundle in self.application.resume():
            self.application.deliver(Delivery(bundle))
        self._apply(self.member.restore(self.disk.recover(), self.now()))
        self.application.resumed()

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
            self._record.write(Kind.REJECT, reason=type(refusal).__name__)
            return None
        told = None
        if not (ready.deliver and isinstance(ready.deliver[0], Returned)):
            destinations = self._world.destinations
            dests = None if group is None or destinations is None else destinations(group)
            if self._uncommitted:
                told = Told(bundle, dests)
            else:
                self._record.published(bundle, ready.mark, dests)
        if self._stalling and not ready.persist and not self._uncommitted:
            self._uncommitted.append((ready, None))
            self._committed = 1
            self.pause()
            self._world.effective["pause_before_send"] += 1
        else:
            self._apply(ready, told)
        return bundle

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
            self._record.write(Kind.REJECT, peer=copy.source, reason="no_packet")
            return
        if packet.to_boot != ANY_BOOT and packet.to_boot != self.boot:
            self._record.write(Kind.DROP, peer=packet.pid, reason="other_boot")
            return
        clock = self.clock
        steady = clock.steady(self._loop.now)
        now = steady + clock.jumped_ns if self._world.wall_clock else steady
        self._record.received(
            steady + clock.jumped_ns, packet.group, packet.pid, len(copy.frame) - copy.payload_bytes, copy.payload_bytes
        )
        sender = tuple.__new__(Process, (packet.pid, packet.boot))  # half the price of calling it, and paid per copy
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
        if self.member is not None:
            self._record.measure(self.member.gauges())
            if self.disk.size > self._compact_at:
                self._compact()

    def _compact(self) -> None:
        """Put a checkpoint in the place of a journal that has grown, if the level knows one."""
        checkpoint = getattr(self.member, "checkpoint", None)
        if checkpoint is None or self._uncommitted:
            return
        self.disk.rewrite(checkpoint())
        if self.application is not None:
            self.application.keep()
        self._compact_at = max(COMPACT_BYTES, COMPACT_FACTOR * self.disk.size)
        self._world.effective["journal_compacted"] += 1

    # --- the contract of Ready ---

    def _apply(self, ready: Ready, told: Told | None = None) -> None:
        """Persist, then do the rest; a Ready never overtakes one that still waits for the disk."""
        if not self._uncommitted:
            if not ready.persist:
                self._perform(ready)
                return
            if not self._world.sync_ns and not self._paused:
                self.disk.append(ready.persist)
                self._perform(ready)
                return
        self.disk.write(ready.persist)
        self._uncommitted.append((ready, told))
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
        for ready, told in [self._uncommitted.popleft() for _ in range(readies)]:
            if self.up:
                if told is not None:
                    self._record.published(told.bundle, ready.mark, told.dests)
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
        self._record.sent(targets, len(frame) - payload_bytes, payload_bytes)
        self._world.network.send(self.pid, targets, frame, payload_bytes)

    def _deliver(self, step: Delivery | Gap | Late | Returned | Unheard) -> None:
        if isinstance(step, Delivery):
            if self.application is not None:
                self.application.deliver(step)
            else:
                self._record.delivered(step)
                self._heard(step.bundle)
        elif isinstance(step, Returned):
            if self.application is None or self.application.is_news():
                destinations = self._world.destinations
                self._record.published(step.bundle, None, None if destinations is None else destinations(step.group))
        elif isinstance(step, Gap):
            self._record.skipped(step)
        elif isinstance(step, Unheard):
            self._world.effective["unheard"] += 1
        else:
            self._record.late(step)

    def _heard(self, bundle: Bundle) -> None:
        if self._world.heard is not None:
            self._world.heard(self.pid, bundle)

    def _note(self, note: Note) -> None:
        bundle = note.bundle
        event = None if bundle is None else EventId(bundle.pid, bundle.boot, bundle.first)
        kind = Kind(note.kind)
        self._record.write(
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
            self._record.write(Kind.VIEW, view=view)

    def record_rest(self) -> None:
        """Write down every buffer that should be empty by now."""
        if self.member is not None and self.joined:
            self._record.at_rest(self.member.gauges())

    def record_gauges(self) -> None:
        """Write down how full every buffer of this life was at its fullest."""
        if self.member is not None:
            self._record.fullest(self.member.gauges())
