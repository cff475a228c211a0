"""A stage for one simulated process: a member that does what a script says, and peers that note what they hear."""

from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from tests.sim.world import MS, ONE_MS, Socket
from whence.core.dissemination.gossip import Gossip
from whence.core.ready import Delivery, Gauge, Item, Ready, Returned, Send
from whence.errors import NotMemberError
from whence.sim.clock import Clock
from whence.sim.loop import Loop
from whence.sim.network import Copy, Network, NetworkModel
from whence.sim.process import SimProcess
from whence.sim.random_streams import RandomStreams
from whence.sim.world import World
from whence.trace.memory import Row
from whence.trace.schema import COLUMNS_OF, Kind
from whence.types import Bundle, Instant, Process, packed
from whence.wire.codec import decode, encode

GROUP = "stage"
SYNC_NS = 2 * MS
PUBLISHER = Process(9, 1)


def letter(number: int) -> Gossip:
    """Make an item that carries a number."""
    return Gossip(b"\0", [packed(PUBLISHER, number, [b"x"])], b"", b"")


def number_in(item: Item) -> int:
    assert isinstance(item, Gossip)
    return item.bundles[0].first


def told(number: int, *, to: Sequence[int] = (1,), record: bool = True, incarnation: int = 0) -> Ready:
    """Make a Ready that persists, sends and delivers one number."""
    return Ready(
        persist=[b"%d" % number] if record else [],
        send=[Send(tuple(to), letter(number), incarnation)],
        deliver=[Delivery(packed(PUBLISHER, number, [b"x"]))],
    )


class Input(NamedTuple):
    """Something a member was told, and what its clock showed."""

    what: str
    now: Instant
    about: object = None


class Scripted:
    """A member that answers every input with the next Ready of its script, and remembers what it was told."""

    def __init__(self, me: Process) -> None:
        self.me = me
        self.script: deque[Ready] = deque()
        self.heard: list[Input] = []
        self.refuses = False
        self.fullness = 0

    def _answer(self, what: str, now: Instant, about: object = None) -> Ready:
        self.heard.append(Input(what, now, about))
        return self.script.popleft() if self.script else Ready()

    def found(self, peers: Sequence[Process], now: Instant) -> Ready:
        return self._answer("found", now, list(peers))

    def join(self, contacts: Sequence[int], now: Instant) -> Ready:
        return self._answer("join", now, list(contacts))

    def restore(self, records: Sequence[bytes], now: Instant) -> Ready:
        return self._answer("restore", now, list(records))

    def publish(self, payloads: Sequence[bytes], now: Instant) -> tuple[Bundle, Ready]:
        if self.refuses:
            raise NotMemberError("the script refuses")
        bundle, ready = packed(self.me, 1, payloads), self._answer("publish", now)
        ready.published = Returned(bundle)
        return bundle, ready

    def receive(self, sender: Process, item: Item, now: Instant) -> Ready:
        return self._answer("receive", now, (sender, number_in(item)))

    def unreachable(self, peer: int, now: Instant) -> Ready:
        return self._answer("unreachable", now, peer)

    def leave(self, now: Instant) -> Ready:
        return self._answer("leave", now)

    def act(self, name: str, argument: int, now: Instant) -> Ready:
        return self._answer("act", now, (name, argument))

    def tick(self, now: Instant) -> Ready:
        return self._answer("tick", now)

    def view(self) -> tuple[int, ...] | None:
        return (1, 2)

    def gauges(self) -> list[Gauge]:
        return [Gauge("fullness", self.fullness, 10)]


class Stage:
    """Process 0 with a scripted member, and peers 1 and 2, which only listen."""

    def __init__(
        self,
        driver: type[SimProcess] = SimProcess,
        *,
        sync_ns: int = SYNC_NS,
        clock: Clock | None = None,
        rng_seed: int = 0,
    ) -> None:
        self.loop = Loop()
        self.effective: Counter[str] = Counter()
        self.rows: dict[Kind, list[Row]] = {kind: [] for kind in Kind}
        self.heard: list[tuple[int, int, int]] = []
        """(time, peer, number) of every letter that reached a peer."""
        self.refused: list[int] = []
        """Peers that were told process 0 did not take their copy."""
        network = Network(self.loop, NetworkModel(latency=ONE_MS), RandomStreams(1), self.effective)
        world = World(self.loop, network, self.rows, GROUP, self.effective, sync_ns)
        self.process = driver(0, world, clock or Clock(), Random(rng_seed))
        self.members: list[Scripted] = []
        network.attach(0, self.process)
        for peer in (1, 2):
            network.attach(peer, Socket(self._hear, lambda _, peer=peer: self.refused.append(peer)))  # type: ignore[misc]
        self.start()

    def _hear(self, copy: Copy) -> None:
        for item in decode(copy.frame).items:
            self.heard.append((self.loop.now, copy.target, number_in(item)))

    def start(self) -> Scripted:
        """Begin a life of process 0."""

        def make(me: Process, now: Instant) -> Scripted:
            self.members.append(Scripted(me))
            return self.members[-1]

        self.process.start(make)
        return self.members[-1]

    @property
    def member(self) -> Scripted:
        return self.members[-1]

    def do(self, *readies: Ready) -> None:
        """Give the member's answers to as many publications, now."""
        for ready in readies:
            self.member.script.append(ready)
            self.process.publish([b"x"])

    def post(self, *numbers: int, to_incarnation: int = 0, source: int = 1) -> None:
        """Let a copy of one packet reach process 0 now."""
        self.post_bytes(
            encode(GROUP, Process(source, 1), [letter(number) for number in numbers], to_incarnation), source
        )

    def post_bytes(self, frame: bytes, source: int = 1) -> None:
        """Let these bytes reach process 0 now."""
        self.process.arrive(Copy(source, 0, frame, 0))

    def at(self, time: int) -> "Stage":
        """Let everything happen up to a time."""
        self.loop.run(time)
        return self

    def told(self, what: str) -> list[Input]:
        """Return the inputs of a kind that the member of this life had."""
        return [each for each in self.member.heard if each.what == what]

    def sent(self) -> list[tuple[int, int]]:
        """Return (time, peer) of every copy in the trace."""
        return [(row["t_true"], row["peer"]) for row in self.records(Kind.SEND)]

    def delivered(self) -> list[int]:
        return [row["m_seq"] for row in self.records(Kind.DELIVER)]

    def numbers_heard(self, peer: int = 1) -> list[int]:
        return [number for _, to, number in self.heard if to == peer]

    def records(self, kind: Kind) -> list[dict[str, Any]]:
        return [dict(zip(COLUMNS_OF[kind], row, strict=True)) for row in self.rows[kind]]


def gaps_in_numbers(rows: dict[Kind, list[Row]]) -> list[tuple[int, int]]:
    """Return the processes whose rows are not numbered 0, 1, 2, … each once: every such trace lacks rows."""
    numbers: dict[tuple[int, int], list[int]] = {}
    for kind_rows in rows.values():
        for row in kind_rows:
            numbers.setdefault((row[0], row[1]), []).append(row[2])
    return [process for process, evs in sorted(numbers.items()) if sorted(evs) != list(range(len(evs)))]
