"""Small worlds for tests of the simulator: a network whose ends write down what reaches them."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from whence.sim.loop import Loop
from whence.sim.network import Copy, Latency, Network, NetworkModel
from whence.sim.random_streams import RandomStreams

MS = 1_000_000
SECOND = 1000 * MS
ONE_MS = Latency(shape="constant", low_ns=MS)


class Arrival(NamedTuple):
    """A copy that reached its target."""

    time: int
    source: int
    target: int
    frame: bytes


class Socket(NamedTuple):
    """A port made of two functions."""

    arrive: Callable[[Copy], None]
    unreachable: Callable[[int], None]


class Wires:
    """A network and everything that came out of it."""

    def __init__(self, nodes: int = 4, seed: int = 1, latency: Latency = ONE_MS, **model: Any) -> None:
        self.loop = Loop()
        self.effective: Counter[str] = Counter()
        self.arrived: list[Arrival] = []
        self.refused: list[tuple[int, int, int]] = []
        """(time, sender, target) of every copy that a sender was told nobody took."""
        self.network = Network(self.loop, NetworkModel(latency=latency, **model), RandomStreams(seed), self.effective)
        for pid in range(nodes):
            self.network.attach(pid, Socket(self._arrive, self._refusal_of(pid)))

    def _arrive(self, copy: Copy) -> None:
        self.arrived.append(Arrival(self.loop.now, copy.source, copy.target, copy.frame))

    def _refusal_of(self, pid: int) -> Any:
        return lambda target: self.refused.append((self.loop.now, pid, target))

    def send(self, source: int, target: int, frame: bytes = b"frame") -> None:
        self.network.send(source, (target,), frame, 0)

    def send_many(self, count: int, source: int = 0, target: int = 1, every_ns: int = 0) -> list[bytes]:
        """Send numbered frames on one link, evenly spaced."""
        frames = [b"%07d" % at for at in range(count)]
        for at, frame in enumerate(frames):
            if every_ns:
                self.loop.at(at * every_ns, lambda frame: self.send(source, target, frame), frame)
            else:
                self.send(source, target, frame)
        return frames

    def finish(self) -> list[Arrival]:
        """Let everything that is on its way arrive."""
        self.loop.run(self.loop.now + 3600 * SECOND)
        return self.arrived

    def frames(self) -> list[bytes]:
        return [arrival.frame for arrival in self.finish()]
