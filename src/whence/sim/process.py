"""One simulated process through all its incarnations: it starts, crashes, pauses, and takes what the network brings.

What its member asks for is carried out by the runner of both worlds (core/runner.py), on simulated ports.
"""

from collections.abc import Callable
from random import Random

from whence.core.member import Dynamic, Member
from whence.core.runner import Done, Ports
from whence.errors import NotMemberError, RemoteProtocolError, UsageError
from whence.sim.application import Application
from whence.sim.clock import Clock
from whence.sim.corruption import CORRUPT_STATE, corrupt_state
from whence.sim.disk import Disk
from whence.sim.network import Copy
from whence.sim.ports import SimPorts, SimRunner
from whence.sim.recorder import Recorder
from whence.sim.storage import SimStorage
from whence.sim.world import World
from whence.trace.schema import Kind
from whence.types import ANY_INCARNATION, Bundle, Process

INBOX_COPIES_MAX = 4096
"""Copies that the socket buffers of a paused process hold. Full: further copies are lost, as in a kernel."""

COMPACT_BYTES, COMPACT_FACTOR = 1024, 4
"""A journal is rewritten when it is longer than this, and this many times as long as when it was last rewritten."""


class SimProcess:
    """A peer through all its incarnations."""

    __slots__ = (
        "_compact_at",
        "_damage",
        "_inbox",
        "_loop",
        "_overslept",
        "_paused",
        "_record",
        "_runner",
        "_storage",
        "_wake_token",
        "_world",
        "application",
        "clock",
        "disk",
        "incarnation",
        "joined",
        "leaving",
        "member",
        "pid",
        "rng",
        "stalls",
        "up",
    )

    runner_type: type[SimRunner] = SimRunner
    storage_type: type[SimStorage] = SimStorage

    def __init__(
        self, pid: int, world: World, clock: Clock, rng: Random, taking: Random | None = None, *, remembers: bool = True
    ) -> None:
        """Make a process; `taking` draws how its application takes events, where members must know what it took;
        `remembers`: also across crashes."""
        self.pid = pid
        self.incarnation = 0
        self.member: Member | None = None
        self.up = False
        self.joined = self.leaving = False
        self.clock = clock
        self.disk = Disk()
        self._world = world
        self._loop = world.loop
        self._record = Recorder(pid, world.group, world.rows, world.loop, clock, payloads=world.payloads)
        self.application: Application | None = None
        """Only where members must know what it takes; elsewhere what is delivered is handed out at once, and lost with
        the process."""
        if taking is not None:
            self.application = Application(
                world, self._record, taking, self._heard, lambda: self._paused, remembers=remembers
            )
        self.rng = rng
        self._wake_token = 0
        self._paused = False
        self._overslept = False
        self._inbox: list[Copy] = []
        self.stalls = False
        """It pauses once it has published something, before any of that is sent or delivered."""
        self._damage = "lost"
        self._runner: SimRunner | None = None
        self._storage = self.storage_type(world, self.disk, lambda: self._paused)
        self._compact_at = COMPACT_BYTES

    # --- incarnations ---

    def start(self, member: Callable[[Process, int], Member]) -> Member:
        """Begin a new incarnation with a member made for it, and return the member."""
        self.incarnation += 1
        me = Process(self.pid, self.incarnation)
        self.up, self.joined, self.leaving = True, False, False
        self._record.begin_incarnation(self.incarnation)
        if self.incarnation > 1:
            self._record.write(Kind.RESTART)
        self.member = member(me, self.now())
        ports = SimPorts(self, me, self._world, self._record, self._heard)
        offsets = self.application.begin(self.incarnation, self.member) if self.application is not None else None
        runner = self.runner_type(self.member, Ports(ports, ports, ports, self._storage, offsets))
        runner.process = self
        self._runner = runner
        return self.member

    def crash(self, damage: str) -> bool:
        """Stop at once; lose the memory, and of the disk what `damage` says. Return False if it was already down."""
        if not self.up:
            return False
        if self.disk.crash(damage, self.rng):
            self._world.effective[f"disk_{damage}"] += 1
        self.record_gauges()
        self._record.write(Kind.CRASH, reason=damage)
        if self.application is not None:
            self.application.die(damage)
        self.stop()
        return True

    def doom(self, damage: str) -> None:
        """Crash in the middle of the next Ready that has something to do."""
        self._damage = damage
        if self._runner is not None:
            self._runner.doom()

    def spare(self) -> None:
        """Call off a crash that has not happened yet."""
        if self._runner is not None:
            self._runner.spare()

    def crash_between_effects(self) -> None:
        """Carry out the crash that `doom` planned."""
        self._world.effective["crash_between_effects"] += 1
        self.crash(self._damage)

    def stop(self) -> None:
        """Stop running, without a row in the trace."""
        self.up = self.joined = self.leaving = self._paused = self._overslept = self.stalls = False
        if self._runner is not None:
            self._runner.stop(at_once=True)
        self.member = self._runner = None
        self._storage.end_incarnation()
        self._inbox.clear()
        self._wake_token += 1

    def pause(self) -> None:
        """Stop running while time goes on; what arrives waits."""
        self._paused = self.up

    def stall(self) -> None:
        """Pause once the member has published something, before any of it is sent or delivered."""
        self.stalls = self.up

    def stall_now(self, done: Done) -> None:
        """Pause; call `done` when it runs again."""
        self._storage.hold(done)
        self.pause()
        self._world.effective["pause_before_send"] += 1

    def resume(self) -> None:
        """Run again: what the disk finished goes ahead, overdue timers fire, then what waited arrives."""
        self.stalls = False
        if not self._paused:
            return
        self._paused = False
        self._storage.go_ahead()
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
        if self._world.wall_clock and self._runner is not None:
            self._runner.plan(self.now())

    def act(self, name: str, argument: int) -> bool:
        """Let the member perform an act of its level, or corrupt its memory; return False if that is impossible."""
        if self._runner is None or self._paused:
            return False
        member = self._runner.member
        try:
            if name == CORRUPT_STATE:
                self._runner.ask(corrupt_state, member, argument)
            else:
                self._runner.ask(member.act, name, argument)
        except UsageError as refusal:
            self._record.write(Kind.REJECT, reason=type(refusal).__name__)
            return False
        return True

    def found(self, peers: list[Process]) -> None:
        """Start as one of the first members."""
        assert self._runner is not None
        self._runner.feed(self._runner.member.found, peers)

    def join(self, contacts: list[int]) -> None:
        """Ask to be let in."""
        assert self._runner is not None
        self._runner.ask(self._runner.member.join, contacts)

    def meet(self, peer: Process) -> None:
        """Introduce another member, if the level takes notice of that."""
        assert self._runner is not None
        if isinstance(self._runner.member, Dynamic):
            self._runner.feed(self._runner.member.meet, peer)

    def restore(self) -> None:
        """Resume from what earlier incarnations left on the disk, after what the application has taken."""
        assert self._runner is not None
        self._runner.restore(self.disk.recover())

    def leave(self) -> bool:
        """Begin to leave; return False if this process is not a member."""
        if self._runner is None or self._paused or not self.joined:
            return False
        try:
            self._runner.ask(self._runner.member.leave)
        except NotMemberError:
            return False
        self.leaving = self._runner is not None  # it may be out already
        return True

    def publish(self, payloads: list[bytes], group: int | None = None) -> Bundle | None:
        """Publish one bundle and return it; if the member refuses, record why and return None."""
        if self._runner is None or self._paused:
            return None
        try:
            return self._runner.publish(payloads, group=group)
        except UsageError as refusal:
            self._record.write(Kind.REJECT, reason=type(refusal).__name__)
            return None

    def arrive(self, copy: Copy) -> None:
        """Take a copy from the network."""
        runner = self._runner
        if runner is None:
            self._world.network.refuse(copy)
            return
        if self._paused:
            if len(self._inbox) < INBOX_COPIES_MAX:
                self._inbox.append(copy)
            else:
                self._world.effective["inbox_full"] += 1
            return
        try:
            packet = self._world.decode(copy.frame)
        except RemoteProtocolError:
            self._record.write(Kind.REJECT, peer=copy.source, reason="no_packet")
            return
        if packet.to_incarnation != ANY_INCARNATION and packet.to_incarnation != self.incarnation:
            self._record.write(Kind.DROP, peer=packet.pid, reason="other_incarnation")
            return
        clock = self.clock
        steady = clock.steady(self._loop.now)
        self._record.received(
            steady + clock.jumped_ns, packet.group, packet.pid, len(copy.frame) - copy.payload_bytes, copy.payload_bytes
        )
        sender = tuple.__new__(
            Process, (packet.pid, packet.incarnation)
        )  # half the price of calling it, and paid per copy
        runner.receive(sender, packet.items, steady + clock.jumped_ns if self._world.wall_clock else steady)

    def unreachable(self, peer: int) -> None:
        """Learn that a copy to a peer found no process."""
        if self._runner is not None and not self._paused:
            self._runner.feed(self._runner.member.unreachable, peer)

    def _wake(self, token: int) -> None:
        if token != self._wake_token or self._runner is None:
            return
        if self._paused:
            self._overslept = True
            return
        self._runner.wake()
        if self.member is not None:
            self._record.measure(self.member.gauges())
            if self.disk.size > self._compact_at:
                self._compact()

    def _compact(self) -> None:
        """Replace a journal that has grown with a checkpoint, if the level has one."""
        assert self._runner is not None
        if self._runner.waits or (records := self._runner.checkpoint()) is None:
            return
        self.disk.rewrite([mark + record for mark, record in records])
        self._compact_at = max(COMPACT_BYTES, COMPACT_FACTOR * self.disk.size)
        self._world.effective["journal_compacted"] += 1

    def plan_wake(self, wake_at: int) -> None:
        """Plan the member's next tick at a time on its clock, in place of the one planned before."""
        self._wake_token = token = self._wake_token + 1
        steady = wake_at - self.clock.jumped_ns if self._world.wall_clock else wake_at
        self._loop.at(max(self._loop.now, self.clock.true_when(steady)), self._wake, token)

    def _heard(self, bundle: Bundle) -> None:
        if self._world.heard is not None:
            self._world.heard(self.pid, bundle)

    # --- what only an observer does ---

    def record_view(self) -> None:
        """Record the member's view."""
        if self.member is not None and self.joined and (view := self.member.view()) is not None:
            self._record.write(Kind.VIEW, view=view)

    def record_rest(self) -> None:
        """Record every buffer that should be empty by now."""
        if self.member is not None and self.joined:
            self._record.at_rest(self.member.gauges())

    def record_gauges(self) -> None:
        """Record the highest fill of every buffer in this incarnation."""
        if self.member is not None:
            self._record.fullest(self.member.gauges())
