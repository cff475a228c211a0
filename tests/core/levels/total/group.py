"""A group at level `total` without a network: what its members send arrives at once, as far as a test lets it."""

from collections import Counter, defaultdict
from random import Random

from whence.core.level import BuildContext
from whence.core.levels.total.member import TotalMember
from whence.core.levels.total.merge_buffer import MergeBuffer
from whence.core.levels.total.settings import TotalSettings
from whence.core.levels.total.stream_server import StreamServer
from whence.core.levels.total.subscription import Subscription
from whence.core.membership.full_view import Directory
from whence.core.ready import Delivery, Gap, Item, Late, Ready, Unheard
from whence.core.registry import LEVELS
from whence.sim.corruption import corrupt_state
from whence.types import Process, Span
from whence.wire.codec import decode, encode

MS = 1_000_000
SMALL = {"epsilon": 3, "delta": 20, "stall_max": 500, "beat_ns": 10 * MS, "patience_beats": 4}


class Group:
    """Members that hear each other at once, through the codec; some items can be made to get lost."""

    def __init__(self, size: int | tuple[int, ...], **settings: object) -> None:
        pids = size if isinstance(size, tuple) else tuple(range(size))
        self.now = 1_000 * MS
        self.settings = LEVELS["total"].settings_from(SMALL | settings)
        assert isinstance(self.settings, TotalSettings)
        self.members: dict[int, TotalMember] = {}
        self.delivered: dict[int, list[bytes]] = {}
        self.keys: dict[int, list[tuple[int, ...]]] = {}
        self.late: dict[int, list[bytes]] = {}
        self.persisted: dict[int, list[bytes]] = {}
        self.notes: Counter[tuple[str, str | None]] = Counter()
        self.lost: tuple[type[Item], ...] = ()
        self.down: list[int] = []
        self.cut: list[tuple[int, int]] = []
        """Ways that nothing passes: from, to."""
        self.gaps: dict[int, list[Span]] = {}
        self.unheard: dict[int, list[bytes]] = defaultdict(list)
        for pid in pids:
            self.start(pid, 1)
        for pid in pids:
            self.do(pid, self.members[pid].found([Process(other, 1) for other in pids], self.now))

    def start(self, pid: int, incarnation: int) -> TotalMember:
        around = BuildContext(Random(1).random, self.now, Directory())
        member = LEVELS["total"].build(Process(pid, incarnation), self.settings, around)
        assert isinstance(member, TotalMember)
        self.members[pid] = member
        self.delivered[pid], self.keys[pid], self.late[pid] = [], [], []
        return member

    def do(self, pid: int, ready: Ready) -> None:
        """Carry out a Ready."""
        self.persisted.setdefault(pid, []).extend(ready.persist)
        for step in ready.deliver:
            if isinstance(step, Delivery):
                self.delivered[pid] += step.bundle.payloads()
                assert step.mark is not None
                assert step.mark.key is not None
                self.keys[pid].append(step.mark.key)
            elif isinstance(step, Late):
                self.late[pid] += step.bundle.payloads()
            elif isinstance(step, Unheard):
                self.unheard[pid] += step.bundle.payloads()
            elif isinstance(step, Gap):
                self.gaps.setdefault(pid, []).extend(step.spans)
        for note in ready.notes:
            self.notes[note.kind, note.reason] += 1
        me = self.members[pid].me
        for send in ready.send:
            for target in send.to:
                if target in self.down or (pid, target) in self.cut or isinstance(send.item, self.lost):
                    continue
                packet = decode(encode("g", me, [send.item], send.incarnation))
                if send.incarnation in (0, self.members[target].me.incarnation):
                    self.do(target, self.members[target].receive(me, packet.items[0], self.now))

    def publish(self, pid: int, *payloads: bytes) -> None:
        self.do(pid, self.members[pid].publish(payloads, self.now)[1])

    def act(self, pid: int, name: str, argument: int) -> None:
        self.do(pid, self.members[pid].act(name, argument, self.now))

    def corrupt(self, pid: int, kind: int) -> None:
        self.do(pid, corrupt_state(self.members[pid], kind, self.now))

    def buffer(self, pid: int) -> MergeBuffer:
        """Return what a merger holds."""
        merger = self.members[pid].roles.merger
        assert merger is not None
        return merger.buffer

    def server(self, pid: int) -> StreamServer | None:
        """Return who serves a merger's followers; None if the member is no merger, or only warms up."""
        merger = self.members[pid].roles.merger
        return None if merger is None else merger.server

    def subscription(self, pid: int) -> Subscription:
        """Return a follower's session."""
        follower = self.members[pid].roles.follower
        assert follower is not None
        return follower.subscription

    def run(self, ticks: int) -> None:
        """Let time pass, a tick at a time."""
        for _ in range(ticks):
            self.now += MS
            for pid in sorted(self.members):
                if pid not in self.down:
                    self.do(pid, self.members[pid].tick(self.now))


def metric(member: TotalMember, name: str, of: str = "") -> int:
    """Return a member's metric by name and the value of its label."""
    (value,) = [each.value for each in member.metrics() if (each.name, each.of) == (name, of)]
    return value
