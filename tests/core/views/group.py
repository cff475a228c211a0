"""A living group by hand: real members, and a test that decides what arrives when, who crashes and who returns."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.core.views.recorded import Recorded
from whence.core.level import LevelSpec
from whence.core.levels.causal.level import CausalLevel
from whence.core.levels.total.level import TotalLevel
from whence.core.levels.total.strict import StrictSettings, StrictTotalSettings
from whence.core.ready import Delivery, Item, Note, Ready
from whence.core.views.member import ViewMember
from whence.core.views.settings import MS, ViewSettings
from whence.core.views.view import View
from whence.errors import LimitError, NotMemberError
from whence.limits import Limits
from whence.types import EventId, Process
from whence_lab.mutants import find

SETTLE_NS = 8_000 * MS
"""How long a group has to come to rest once nothing goes wrong any more."""

STEP_NS = 20 * MS
"""By so much time goes on at once where a test lets it."""


_WATCHED: "list[list[Group]]" = []


@contextlib.contextmanager
def watched() -> "Iterator[list[Group]]":
    """Collect the groups that are made meanwhile."""
    made: list[Group] = []
    _WATCHED.append(made)
    try:
        yield made
    finally:
        _WATCHED.pop()


class Packet(NamedTuple):
    """An item on its way from a process to a peer."""

    sender: Process
    to: int
    item: Item

    @property
    def source(self) -> int:
        """Return who sent it."""
        return self.sender.pid


Which = Callable[[Packet], bool]


def of(*kinds: type[Item]) -> Which:
    """Choose packets by what is in them."""
    return lambda packet: isinstance(packet.item, kinds)


def between(sources: Sequence[int], to: Sequence[int]) -> Which:
    """Choose packets by where they come from and go to."""
    return lambda packet: packet.source in sources and packet.to in to


def touching(*pids: int) -> Which:
    """Choose packets from or to a peer."""
    return lambda packet: packet.source in pids or packet.to in pids


def both(*choices: Which) -> Which:
    """Choose packets that all of these choose."""
    return lambda packet: all(choose(packet) for choose in choices)


def either(*choices: Which) -> Which:
    """Choose packets that any of these chooses."""
    return lambda packet: any(choose(packet) for choose in choices)


def nothing(packet: Packet) -> bool:
    """Choose no packet."""
    return False


class Group:
    """Some members, what is on its way between them, what their applications were handed, and their disks."""

    def __init__(
        self, kind: str, bug: str | None, settings: ViewSettings | None = None, *, founders: int = 3,
        uniform: bool = False, birth: int = 0,
    ) -> None:  # fmt: skip
        """Found a group of a kind that is explored, with a bug planted or none."""
        strict = kind == "total-strict"
        spec: LevelSpec = TotalLevel() if strict else CausalLevel()
        self._spec = find(kind, bug).plant(spec) if bug is not None else spec
        self._settings = settings or ViewSettings()
        self._uniform = uniform
        self.now = 0
        self.trace = Recorded(kind, self._settings, founders, uniform=uniform)
        for made in _WATCHED:
            made.append(self)
        self.members: dict[int, ViewMember] = {}
        self.incarnations: dict[int, int] = {}
        self.packets: list[Packet] = []
        self.log: dict[int, list[EventId]] = {}
        """The first events of the bundles that each application was handed, in all incarnations."""
        self.notes: dict[int, list[Note]] = {}
        self.records: dict[int, list[bytes]] = {}
        self.taken: dict[int, list[int]] = {}
        self.untaken: dict[int, list[Delivery]] = {}
        """Bundles that slow applications were handed and did not take."""
        self.slow: set[int] = set()
        self.mute: set[int] = set()
        """Members that publish nothing in the end."""
        self._wake: dict[int, int] = {}
        pids = range(founders)
        for pid in pids:
            self._start(pid)
        for pid in pids:
            peers = [Process(other, 1) for other in pids if other != pid]
            self.members[pid].birth = birth
            self._carry_out(pid, self.members[pid].found(peers, self.now))
        self.flow()

    # --- processes ---

    def _start(self, pid: int) -> ViewMember:
        self.incarnations[pid] = self.incarnations.get(pid, 0) + 1
        member = self.members[pid] = self._member(Process(pid, self.incarnations[pid]))
        self.trace.at(self.now)
        self.trace.started(pid, self.incarnations[pid])
        self.log.setdefault(pid, [])
        self.notes.setdefault(pid, [])
        self.records.setdefault(pid, [])
        self.untaken.setdefault(pid, [])
        return member

    def twin(self, pid: int) -> ViewMember:
        """Return a member that could be the next incarnation of a process; it takes no part."""
        return self._member(Process(pid, self.incarnations[pid] + 1))

    def _member(self, me: Process) -> ViewMember:
        spec, remembers = self._spec, self._settings.journal
        if isinstance(spec, TotalLevel):
            settings = StrictTotalSettings(views=self._settings, strict=StrictSettings(uniform=self._uniform))
            return spec.strict(me, settings, lambda: 0.0, remembers=remembers)
        assert isinstance(spec, CausalLevel)
        return spec.view_member(me, self._settings, Limits(), lambda: 0.0, remembers=remembers)

    def crash(self, pid: int) -> None:
        """Stop a process; what is on its way to it is lost."""
        member = self.members.pop(pid)
        self.trace.at(self.now)
        self.trace.crashed(pid)
        self.taken[pid] = list(member.taken)
        self.untaken[pid] = []
        self._wake.pop(pid, None)
        self.drop(lambda packet: packet.to == pid)

    def restart(self, pid: int) -> None:
        """Start a process again with what its disk has; without a journal it has nothing."""
        member = self._start(pid)
        if self._settings.journal and self.records[pid]:
            member.resume(self.taken[pid], 1 << 30)
            self._carry_out(pid, member.restore(self.records[pid], self.now))

    def join(self, pid: int, *contacts: int) -> None:
        """Let a process ask to be added, as a new one or as what it is after a restart."""
        member = self.members[pid] if pid in self.members else self._start(pid)
        self._carry_out(pid, member.join(contacts, self.now))

    def remove(self, by: int, gone: int) -> None:
        """Let an operator at one member remove another."""
        self._carry_out(by, self.members[by].act("remove", gone, self.now))

    def force(self, by: int, *survivors: int) -> None:
        """Let an operator at one member go on with some."""
        self._carry_out(by, self.members[by].force(survivors, self.now))

    def suspect(self, by: int, *others: int) -> None:
        """Let one member suspect others, by mistake or not."""
        for other in others:
            self._carry_out(by, self.members[by].act("suspect", other, self.now))

    def trust(self, by: int, *others: int) -> None:
        """Let one member end its suspicion of others."""
        for other in others:
            self._carry_out(by, self.members[by].act("trust", other, self.now))

    def unreachable(self, by: int, other: int) -> None:
        """Let a member learn that another cannot be reached."""
        self._carry_out(by, self.members[by].unreachable(other, self.now))

    def parted(self, by: int, other: int) -> None:
        """Let a member hear of another that it has closed the group."""
        self._carry_out(by, self.members[by].parted(Process(other, self.incarnations[other]), self.now))

    def meet(self, pid: int, other: int) -> None:
        """Let a member meet another that has connected."""
        self._carry_out(pid, self.members[pid].meet(self.members[other].me, self.now))

    def leave(self, pid: int) -> None:
        """Let a member leave."""
        self._carry_out(pid, self.members[pid].leave(self.now))

    def publish(self, pid: int) -> EventId:
        """Let a member publish one event."""
        bundle, ready = self.members[pid].publish([b"x"], self.now)
        self._carry_out(pid, ready)
        return EventId(bundle.pid, bundle.incarnation, bundle.first)

    def _carry_out(self, pid: int, ready: Ready) -> None:
        member = self.members[pid]
        self.trace.at(self.now)
        self.records[pid] += ready.persist
        if ready.published is not None:
            self.trace.published(pid, ready.published.bundle, ready.mark)
        for send in ready.send:
            self.packets += [Packet(member.me, to, send.item) for to in send.to]
        for step in ready.deliver:
            if isinstance(step, Delivery):
                self.log[pid].append(EventId(step.bundle.pid, step.bundle.incarnation, step.bundle.first))
                self.untaken[pid].append(step)
        if ready.wake_at is not None:  # a later time replaces nothing, as in the runner
            self._wake[pid] = min(ready.wake_at, self._wake.get(pid, ready.wake_at))
        if pid not in self.slow:
            self.take(pid)
        self.notes[pid] += ready.notes
        for note in ready.notes:
            self.trace.noted(pid, note)

    def take(self, pid: int) -> None:
        """Let an application take what it was handed."""
        member, steps = self.members[pid], self.untaken[pid]
        for step in steps:
            member.taken[member.place_of(step.bundle.pid, step.bundle.incarnation)] += 1
            self.trace.taken(pid, step.bundle, step.mark)
        self.untaken[pid] = []

    def broken(self) -> dict[str, str]:
        """End all faults, let everybody publish, and return the promises that the oracles find broken."""
        self.slow = set()
        self.trace.at(self.now)
        for pid in sorted(self.members):
            self.take(pid)
        self.wait(SETTLE_NS)
        self.trace.at(self.now)
        self.trace.heals(SETTLE_NS)
        for pid in sorted(self.members.keys() - self.mute):
            with contextlib.suppress(NotMemberError, LimitError):
                self.publish(pid)
        self.wait(SETTLE_NS)
        return self.trace.broken()

    # --- packets and time ---

    def drop(self, which: Which) -> None:
        """Lose packets that are on their way."""
        self.packets = [packet for packet in self.packets if not which(packet)]

    def arrive(self, which: Which) -> None:
        """Let the packets of a choice arrive that are on their way now, in the order in which they were sent."""
        some = [packet for packet in self.packets if which(packet)]
        self.drop(which)
        for packet in some:
            self.hand_in(packet)

    def hand_in(self, packet: Packet) -> None:
        """Let a packet arrive, if anybody is there."""
        if packet.to in self.members:
            self._carry_out(packet.to, self.members[packet.to].receive(packet.sender, packet.item, self.now))

    def flow(self, hold: Which = nothing, lose: Which = nothing) -> None:
        """Let packets arrive until none is left but those that are held back; lose some instead."""
        while True:
            self.drop(lose)
            packet = next((packet for packet in self.packets if not hold(packet)), None)
            if packet is None:
                return
            self.packets.remove(packet)
            self.hand_in(packet)

    def wait(self, ns: int, hold: Which = nothing, lose: Which = nothing) -> None:
        """Let time go on, timers go off, and packets arrive."""
        until = self.now + ns
        self.flow(hold, lose)
        while self.now < until:
            self.now += STEP_NS
            self.wake()
            self.flow(hold, lose)

    def wait_slowly(self, ns: int) -> None:
        """Let time go on; what is sent in one step arrives in the next."""
        until = self.now + ns
        while self.now < until:
            under_way, self.packets = self.packets, []
            self.now += STEP_NS
            self.wake()
            for packet in under_way:
                self.hand_in(packet)

    def wake(self, *pids: int) -> None:
        """Let the timers go off that are due: of some members, or of all."""
        for pid in pids or sorted(self.members):
            if self._wake.get(pid, 1 << 62) <= self.now:
                del self._wake[pid]
                self._carry_out(pid, self.members[pid].tick(self.now))

    # --- what there is to see ---

    def view(self, pid: int) -> View:
        """Return the view that a member has entered."""
        return self.members[pid].state.view

    def pids(self, pid: int) -> list[int]:
        """Return the members of the view that a member has entered."""
        return [member.pid for member in self.view(pid).members]

    def is_live(self, pid: int) -> bool:
        """Tell whether a member may publish."""
        return pid in self.members and self.members[pid].state.live

    def told(self, pid: int, reason: str) -> list[Note]:
        """Return the notes of a member with a reason."""
        return [note for note in self.notes[pid] if note.reason == reason]
