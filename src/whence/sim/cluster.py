"""A cluster: the processes of a scenario, wired together; how they come, come back and are told what to do."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from whence.core.level import Addressed, BuildContext, LevelSpec, Speaking, offsets_of, remembers
from whence.core.member import Begun, Joining, Living, Member, ViewStatus
from whence.core.membership.full_view import Directory
from whence.core.settings import by_name
from whence.sim.clock import Clock
from whence.sim.loop import Loop
from whence.sim.network import Network
from whence.sim.process import SimProcess
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import Scenario
from whence.sim.world import World
from whence.trace.memory import Row
from whence.trace.schema import Kind
from whence.types import Bundle, Process
from whence.wire.codec import decoder_with

CONTACTS = 5
"""Peers that a newcomer may ask to join."""


def founders_of(scenario: Scenario) -> Sequence[int]:
    """Return the ids of the processes that found the group."""
    return scenario.numbers[: scenario.nodes] or range(scenario.nodes)


class Cluster:
    """All processes of one run."""

    def __init__(
        self, scenario: Scenario, spec: LevelSpec, rows: dict[Kind, list[Row]], *, payloads: bool = False
    ) -> None:
        self.loop = Loop()
        self.effective: Counter[str] = Counter()
        self.processes: dict[int, SimProcess] = {}
        self._scenario = scenario
        self._spec = spec
        self._settings = [spec.settings_from(scenario.settings)]
        """The settings of the scenario, and those with which processes were restarted."""
        self._changed: dict[int, int] = {}
        """The place in that list of a process's settings, where it is not the first."""
        self._streams = RandomStreams(scenario.seed)
        self._directory = Directory()
        self.network = Network(self.loop, scenario.network, self._streams, self.effective)
        self._world = World(
            self.loop, self.network, rows, scenario.group, self.effective, scenario.sync_ns, scenario.take_ns
        )
        self._world.payloads = payloads
        self._world.wall_clock = spec.reads_wall_clock(self._settings[0])
        self._durable = remembers(spec, self._settings[0])
        """Members remember across crashes: they are restored and need not join."""
        self._counts = by_name(self._settings[0]).get("lag_max_ns", 0) > 0
        """Members must know what their applications take, also those that do not remember it."""
        if self._durable or self._counts:
            self._world.offsets = offsets_of(spec)
        if isinstance(spec, Speaking):
            self._world.decode = decoder_with(spec.items)
        if isinstance(spec, Addressed) and spec.destinations(self._settings[0], 0):
            self._world.destinations = lambda group: spec.destinations(self._settings[0], group)
        self._founders = founders_of(scenario)
        self._forgetful = frozenset(scenario.forgetful)

    def start(self, order: Iterable[int] | None = None) -> None:
        """Found the group. Whatever order the processes are made in, they start in the order of their ids."""
        for pid in order if order is not None else self._founders:
            self._add(pid)
        for pid in sorted(self.processes):
            self.processes[pid].start(self._member)
        for pid in sorted(self.processes):
            self.processes[pid].found(self._first_peers(pid))

    def join(self, pid: int) -> bool:
        """Let a new process ask to join; return False if there is already one with this id."""
        if pid in self.processes:
            return False
        process = self._add(pid)
        process.start(self._member)
        process.join(self._contacts(pid))
        return True

    def restart(self, pid: int, changed: dict[str, Any] | None = None) -> bool:
        """Restart a process that is down, as a new incarnation, perhaps with settings that are changed from now on."""
        process = self.processes[pid]
        if process.up:
            return False
        if changed:
            self._change_settings(pid, changed)
        member = process.start(self._member)
        process.restore()
        if self._remembers(pid) and (not isinstance(member, Joining) or member.is_member):
            return True
        alike = [other for other in self.processes.values() if self._changed.get(other.pid) == self._changed.get(pid)]
        made = {pid: place for place, pid in enumerate(self._founders)}  # not in the order they were made in
        others = sorted(
            [other for other in alike if other.up and other is not process],
            key=lambda other: made.get(other.pid, len(made)),
        )
        begun = isinstance(member, Begun) and member.has_begun()
        if begun and not any(other.joined for other in others):
            process.found([Process(other.pid, other.incarnation) for other in others])
            self.effective["begun_again"] += 1
        else:
            process.join(self._contacts(pid))
        return True

    def hurry(self) -> None:
        """Let every application take all it has at once, from now on."""
        self._world.take_ns = 0
        for pid in sorted(self.processes):
            application = self.processes[pid].application
            if application is not None and self.processes[pid].up:
                application.drain()

    def ask_again(self) -> None:
        """Let processes that nobody let in so far ask all there are: whom they asked may have left since, and a live
        process resolves the names of its contacts again. One that knows nobody any more who is there meets the others,
        as it would in the live system, where members announce themselves to whoever is connected."""
        for pid, process in sorted(self.processes.items()):
            member: object = process.member
            if process.up and isinstance(member, Joining) and not member.is_member:
                process.join(self._contacts(pid))
            elif process.up and self._has_lost_sight(process):
                for other in sorted(self.processes):
                    if other != pid and self.processes[other].joined:
                        process.meet(Process(other, self.processes[other].incarnation))

    def _has_lost_sight(self, process: SimProcess) -> bool:
        """Tell whether a process knows nobody of those that know the latest view here."""
        view = _view_at(process)
        if view is None:
            return False
        known = [self.processes[each.pid] for each in view.members if each.pid != process.pid]
        latest = max((_adopted(other) for other in self.processes.values() if other.joined), default=(-1, -1))
        return _adopted(process) < latest and not any(other.joined and _adopted(other) == latest for other in known)

    def forgetful_incarnations(self) -> list[tuple[int, int]]:
        """Return the incarnations that had no disk, where others had one."""
        return [
            (pid, incarnation)
            for pid in sorted(self._forgetful & self.processes.keys()) if self._durable
            for incarnation in range(1, self.processes[pid].incarnation + 1)
        ]  # fmt: skip

    def on_delivery(self, heard: Callable[[int, Bundle], None]) -> None:
        """Call a function with every delivery: the process, and the bundle."""
        self._world.heard = heard

    def jump_clock(self, pid: int, by_ns: int) -> None:
        """Set a process's wall clock forward or back."""
        self.processes[pid].jump_clock(by_ns)

    def record_views(self) -> None:
        """Record the view of every member."""
        for pid in sorted(self.processes):
            self.processes[pid].record_view()

    def record_rest(self) -> None:
        """Record what is left in buffers that should be empty by now."""
        for pid in sorted(self.processes):
            self.processes[pid].record_rest()

    def record_gauges(self) -> None:
        """Record how full the buffers of every process were."""
        for pid in sorted(self.processes):
            self.processes[pid].record_gauges()

    def _add(self, pid: int) -> SimProcess:
        draw = self._streams.of("clock", pid)
        clocks = self._scenario.clocks
        clock = Clock(
            draw.randint(-clocks.offset_ns, clocks.offset_ns),
            draw.randint(-clocks.drift_ppm, clocks.drift_ppm) * 1000,
        )
        taking = self._streams.of("taking", pid) if self._counts or self._remembers(pid) else None
        process = SimProcess(
            pid, self._world, clock, self._streams.of("damage", pid), taking, remembers=self._remembers(pid)
        )  # fmt: skip
        self.processes[pid] = process
        self.network.attach(pid, process)
        return process

    def _remembers(self, pid: int) -> bool:
        """Return whether a process goes on after a crash."""
        return self._durable and pid not in self._forgetful

    def _member(self, me: Process, now: int) -> Member:
        rng = self._streams.of("member", me.pid, me.incarnation).random
        settings = self._settings[self._changed.get(me.pid, 0)]
        return self._spec.build(me, settings, BuildContext(rng, now, self._directory, me.pid not in self._forgetful))

    def _change_settings(self, pid: int, changed: dict[str, Any]) -> None:
        settings = self._spec.settings_from(self._scenario.settings | changed)
        if settings not in self._settings:
            self._settings.append(settings)
        self._changed[pid] = self._settings.index(settings)
        self.effective["settings_changed"] += 1

    def _first_peers(self, pid: int) -> list[Process]:
        """Draw the peers a founder starts with: its right neighbour, so that all are connected, and others."""
        founders, size = self._founders, len(self._founders)
        wanted = min(self._spec.first_peers(self._settings[0]), size - 1)
        draw = self._streams.of("founding", pid).random
        chosen: dict[int, None] = {founders[(founders.index(pid) + 1) % size]: None} if size > 1 else {}
        while len(chosen) < wanted:
            other = founders[int(draw() * size)]
            if other != pid:
                chosen[other] = None
        return [Process(other, 1) for other in chosen]

    def _contacts(self, pid: int) -> list[int]:
        """Draw founders to ask; some of them may be down. In a group whose members change, anybody can be asked."""
        others = [other for other in self._founders if other != pid]
        if isinstance(self.processes[pid].member, Joining):
            return sorted(other for other in self.processes if other != pid)
        return self._streams.of("contacts", pid, self.processes[pid].incarnation).sample(
            others, min(CONTACTS, len(others))
        )


def _view_at(process: SimProcess) -> ViewStatus | None:
    member: object = process.member
    return member.view_status() if isinstance(member, Living) else None


def _adopted(process: SimProcess) -> tuple[int, int]:
    """Return the generation and number of the latest view that a process knows."""
    view = _view_at(process)
    return (-1, -1) if view is None else (view.generation, view.adopted)
