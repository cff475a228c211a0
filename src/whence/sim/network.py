"""The simulated network: real bytes, late, lost, twice, in another order, or not at all.

A node's bandwidth is shared by all its links, and a copy occupies it for as long as its bits take (the thesis's model,
LoCaMu 11.1). A link then adds latency. Faults are switched on and off while the world runs.
"""

from collections import Counter
from collections.abc import Callable
from math import log
from random import Random
from typing import Annotated, Literal, Protocol, TypeAlias, get_args

from msgspec import Meta, Struct, structs

from whence.sim.loop import Loop
from whence.sim.random_streams import RandomStreams

_BITS_PER_BYTE_NS = 8_000_000_000
_HEAVY_TAIL_SHAPE = 1.5
_HEAVY_TAIL_CAP = 1000.0
_OLD_FRAMES_MAX = 64
_SLOW_NS_MAX = 3_000_000_000
"""The most that a slow link delays a copy, so that none arrives long after the link has recovered."""

Ns: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
Chance: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
LatencyShape: TypeAlias = Literal["constant", "uniform", "exponential", "heavy"]
LATENCY_SHAPES: tuple[LatencyShape, ...] = get_args(LatencyShape)


class Latency(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a link takes. heavy: Pareto with shape 1.5, at most 1000 times its least value."""

    shape: LatencyShape = "uniform"
    low_ns: Ns = 1_000_000
    """The least; for constant, the value."""
    high_ns: Ns = 20_000_000
    """uniform: the most. exponential: the mean above low_ns."""

    def drawn_from(self, stream: Random) -> Callable[[], int]:
        """Return a function that draws latencies."""
        low, span, draw = self.low_ns, self.high_ns - self.low_ns, stream.random
        if self.shape == "constant":
            return lambda: low
        if self.shape == "uniform":
            return lambda: low + int(span * draw())
        if self.shape == "exponential":
            mean = self.high_ns
            return lambda: low - int(mean * log(1.0 - draw()))
        return lambda: int(low * min((1.0 - draw()) ** (-1.0 / _HEAVY_TAIL_SHAPE), _HEAVY_TAIL_CAP))


class NetworkModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the network does to every copy, faults apart. Probabilities are per copy."""

    latency: Latency = Latency()
    bandwidth_bps: Annotated[int, Meta(ge=0)] = 0
    """Bits per second that a node can send, over all its links; 0: unlimited."""
    bandwidth_both_ways: bool = False
    """Receiving occupies the node's bandwidth too."""
    fifo_links: bool = False
    """Copies on one link arrive in the order they were sent."""
    loss: Chance = 0.0
    duplicate: Chance = 0.0
    reorder: Chance = 0.0
    """Delayed for a while, so that later copies overtake it."""
    replay: Chance = 0.0
    """An old copy from anywhere is sent again."""
    corrupt: Chance = 0.0
    """One bit arrives wrong."""
    straggle_ns: Ns = 2_000_000_000
    """How late a delayed, second or replayed copy may be."""
    refusal_ns: Ns = 200_000_000
    """When a sender learns that a cut link did not take its copy."""

    def is_calm(self) -> bool:
        """Return whether every copy arrives once and whole."""
        return not (self.loss or self.duplicate or self.reorder or self.replay or self.corrupt)


class Copy(Struct, frozen=True, gc=False):
    """A frame in transit."""

    source: int
    target: int
    frame: bytes
    payload_bytes: int


class Port(Protocol):
    """A process, as the network sees it."""

    def arrive(self, copy: Copy, /) -> None:
        """Take a copy."""

    def unreachable(self, peer: int, /) -> None:
        """Learn that a copy to a peer found no process."""


class Network:
    """All links between all processes."""

    def __init__(self, loop: Loop, model: NetworkModel, streams: RandomStreams, effective: Counter[str]) -> None:
        self._ports: dict[int, Port] = {}
        self._loop = loop
        self._model = model
        self._effective = effective
        self._latency = model.latency.drawn_from(streams.of("latency"))
        self._draw = streams.of("network").random
        self._busy_until: dict[int, int] = {}
        self._last_arrival: dict[tuple[int, int], int] = {}
        self._connections = 0
        self._old: list[Copy] = []
        self._partitions: list[frozenset[int]] = []
        self._cuts: Counter[tuple[int, int]] = Counter()
        self._slow: dict[int | tuple[int, int], list[float]] = {}
        """The factors of every slow node and link; the largest counts."""
        self._bursts: list[float] = []
        self._has_no_faults = self._check_no_faults()

    def attach(self, pid: int, port: Port) -> None:
        """Connect a process."""
        self._ports[pid] = port

    # --- the path of a copy ---

    def send(self, source: int, targets: tuple[int, ...], frame: bytes, payload_bytes: int) -> None:
        """Send one copy of a frame to each target."""
        if not self._has_no_faults:
            for target in targets:
                self._send_with_faults(Copy(source, target, frame, payload_bytes))
            return
        now, latency = self._loop.now, self._latency
        if self._model.fifo_links:
            for target in targets:
                self._arrive_at(now + latency(), Copy(source, target, frame, payload_bytes))
            return
        at, ports = self._loop.at, self._ports
        for target in targets:
            at(now + latency(), ports[target].arrive, Copy(source, target, frame, payload_bytes))

    def refuse(self, copy: Copy) -> None:
        """Report to the sender that its copy found no process."""
        self._loop.at(self._loop.now + self._latency(), self._ports[copy.source].unreachable, copy.target)

    def _send_with_faults(self, copy: Copy) -> None:
        source, target, effective = copy.source, copy.target, self._effective
        departs = self._occupy(source, len(copy.frame), self._loop.now)
        blocked = self._blocked_by(source, target)
        if blocked is not None:
            effective[blocked] += 1
            self._loop.at(departs + self._model.refusal_ns, self._ports[source].unreachable, target)
            return
        model, draw = self._model, self._draw
        if model.replay and draw() < model.replay:
            self._replay(departs)
        if model.loss and draw() < model.loss:
            effective["loss"] += 1
            return
        for burst in self._bursts:
            if draw() < burst:
                effective["burst"] += 1
                return
        if model.replay:
            self._remember(copy)
        if model.corrupt and draw() < model.corrupt:
            effective["corrupt"] += 1
            copy = structs.replace(copy, frame=self._flipped(copy.frame))
        delay = self._delay(source, target)
        if model.reorder and draw() < model.reorder:
            effective["reorder"] += 1
            delay += int(draw() * model.straggle_ns)
        self._arrive_at(departs + delay, copy)
        if model.duplicate and draw() < model.duplicate:
            effective["duplicate"] += 1
            self._arrive_at(departs + delay + int(draw() * model.straggle_ns), copy)

    def _arrive_at(self, time: int, copy: Copy) -> None:
        if self._model.fifo_links:
            link = (copy.source, copy.target)
            time = self._last_arrival[link] = max(time, self._last_arrival.get(link, 0))
            self._loop.at(time, self._arrive_on_connection, (self._connections, copy))
        else:
            self._loop.at(time, self._arrive, copy)

    def _arrive_on_connection(self, numbered: tuple[int, Copy]) -> None:
        """Deliver a copy unless its link was reconnected since it was sent."""
        connections, copy = numbered
        if connections == self._connections:
            self._arrive(copy)

    def _arrive(self, copy: Copy) -> None:
        if self._model.bandwidth_both_ways:
            taken = self._occupy(copy.target, len(copy.frame), self._loop.now)
            self._loop.at(taken, self._ports[copy.target].arrive, copy)
        else:
            self._ports[copy.target].arrive(copy)

    def _occupy(self, node: int, size: int, since: int) -> int:
        """Return when the node's bandwidth has carried a copy that has been waiting since `since`."""
        bandwidth = self._model.bandwidth_bps
        if not bandwidth:
            return since
        free = max(since, self._busy_until.get(node, 0)) + size * _BITS_PER_BYTE_NS // bandwidth
        self._busy_until[node] = free
        return free

    def _delay(self, source: int, target: int) -> int:
        delay = self._latency()
        slow = self._slow
        link = (source, target)
        if slow and (source in slow or target in slow or link in slow):
            self._effective["slow"] += 1
            factors = (*slow.get(source, ()), *slow.get(target, ()), *slow.get(link, ()), 1.0)
            delay = min(int(delay * max(factors)), _SLOW_NS_MAX)
        return delay

    def _remember(self, copy: Copy) -> None:
        if len(self._old) < _OLD_FRAMES_MAX:
            self._old.append(copy)
        else:
            self._old[int(self._draw() * _OLD_FRAMES_MAX)] = copy

    def _replay(self, departs: int) -> None:
        if self._old:
            self._effective["replay"] += 1
            old = self._old[int(self._draw() * len(self._old))]
            self._arrive_at(departs + int(self._draw() * self._model.straggle_ns), old)

    def _flipped(self, frame: bytes) -> bytes:
        at = int(self._draw() * len(frame) * 8)
        wrong = bytearray(frame)
        wrong[at >> 3] ^= 1 << (at & 7)
        return bytes(wrong)

    # --- faults, on and off ---

    def cut(self, sources: list[int], targets: list[int], *, on: bool) -> None:
        """Cut the links from each source to each target, one way, or restore them."""
        for source in sources:
            for target in targets:
                self._cuts[source, target] += 1 if on else -1
        self._cuts = +self._cuts
        self._has_no_faults = self._check_no_faults()

    def partition(self, side: list[int], *, on: bool) -> None:
        """Separate these nodes from all others, both ways, or connect them again."""
        if on:
            self._partitions.append(frozenset(side))
        else:
            self._partitions.remove(frozenset(side))
        self._has_no_faults = self._check_no_faults()

    def slow(self, nodes: list[int], factor: float, others: list[int] | None = None, *, on: bool) -> None:
        """Slow links down by a factor, or restore them: all links of these nodes, or those from them to others."""
        links = [(node, other) for node in nodes for other in others] if others else nodes
        for slowed in links:
            if on:
                self._slow.setdefault(slowed, []).append(factor)
            else:
                self._slow[slowed].remove(factor)
                if not self._slow[slowed]:
                    del self._slow[slowed]
        self._has_no_faults = self._check_no_faults()

    def burst(self, loss: float, *, on: bool) -> None:
        """Lose more copies everywhere for a while."""
        if on:
            self._bursts.append(loss)
        else:
            self._bursts.remove(loss)
        self._has_no_faults = self._check_no_faults()

    def heal(self) -> None:
        """End all faults: from now on every copy arrives once and whole. Ordered links reconnect."""
        self._connections += 1
        self._last_arrival.clear()
        self._partitions.clear()
        self._cuts.clear()
        self._slow.clear()
        self._bursts.clear()
        self._model = NetworkModel(
            latency=self._model.latency,
            bandwidth_bps=self._model.bandwidth_bps,
            bandwidth_both_ways=self._model.bandwidth_both_ways,
            fifo_links=self._model.fifo_links,
        )
        self._has_no_faults = self._check_no_faults()

    def _blocked_by(self, source: int, target: int) -> str | None:
        if self._cuts and self._cuts[source, target]:
            return "cut"
        for side in self._partitions:
            if (source in side) != (target in side):
                return "partition"
        return None

    def _check_no_faults(self) -> bool:
        """Return whether a copy needs only a latency: the fast path of `send`."""
        model = self._model
        return (
            model.is_calm()
            and not model.bandwidth_bps
            and not (self._partitions or self._cuts or self._slow or self._bursts)
        )
