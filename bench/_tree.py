"""The tree broadcast that simulators are compared on: a root sends messages down a tree, each node passes them on.

1,000 nodes of arity 4, a message every 1 ms, 1 ms latency, 80 µs to put one copy on the wire; a node's copies share its
wire. Every engine reports the number of hops and the sum of all arrival times, which must be the same for all.
"""

from collections.abc import Callable, Generator
from time import process_time
from typing import Any, NamedTuple

import simpy

from whence.sim.loop import Loop

NODES = 1000
ARITY = 4
MESSAGES = 2000
EVERY_NS = 1_000_000
LATENCY_NS = 1_000_000
COPY_NS = 80_000


class Result(NamedTuple):
    """What an engine saw: equal for all that simulate the same thing."""

    hops: int
    arrival_sum_ns: int


Engine = Callable[[int], Result]


def children_of(node: int, nodes: int = NODES) -> range:
    """Return the nodes a node passes messages on to."""
    return range(ARITY * node + 1, min(ARITY * node + ARITY + 1, nodes))


def microseconds_per_hop(engine: Engine, messages: int) -> float:
    """Run an engine and return its processor time per hop."""
    began = process_time()
    result = engine(messages)
    return (process_time() - began) / result.hops * 1e6


# --- our loop, with the simplest possible node and link ---


class Tally:
    """What arrived so far."""

    def __init__(self) -> None:
        self.hops = 0
        self.arrival_sum_ns = 0


class Node:
    """A node of the tree and its wire."""

    def __init__(self, loop: Loop, tally: Tally) -> None:
        self.children: list[Node] = []
        self._loop = loop
        self._tally = tally
        self._free_at = 0

    def receive(self, message: int) -> None:
        """Count a message and pass it on."""
        tally = self._tally
        tally.hops += 1
        tally.arrival_sum_ns += self._loop.now
        self.send(message)

    def send(self, message: int) -> None:
        """Put a copy for each child on the wire, one after another."""
        loop = self._loop
        free_at = max(loop.now, self._free_at)
        for child in self.children:
            free_at += COPY_NS
            loop.at(free_at + LATENCY_NS, child.receive, message)
        self._free_at = free_at


def on_whence(messages: int, nodes: int = NODES) -> Result:
    """Simulate on our bare loop."""
    loop, tally = Loop(), Tally()
    tree = [Node(loop, tally) for _ in range(nodes)]
    for at, node in enumerate(tree):
        node.children = [tree[child] for child in children_of(at, nodes)]
    for message in range(messages):
        loop.at(message * EVERY_NS, tree[0].send, message)
    loop.run(until=1 << 62)
    return Result(tally.hops, tally.arrival_sum_ns)


# --- SimPy as its documentation teaches it: processes that wait for stores and timeouts ---


def on_simpy(messages: int) -> Result:
    """Simulate with a process and a store for each node and each link."""
    env = simpy.Environment()
    tally = Tally()
    inboxes = [simpy.Store(env) for _ in range(NODES)]
    outboxes = [simpy.Store(env) for _ in range(NODES)]

    def source() -> Generator[simpy.Event, object, None]:
        for message in range(messages):
            yield outboxes[0].put(message)
            yield env.timeout(EVERY_NS)

    def node(at: int) -> Generator[simpy.Event, int, None]:
        while True:
            message = yield inboxes[at].get()
            tally.hops += 1
            tally.arrival_sum_ns += int(env.now)
            yield outboxes[at].put(message)

    def wire(at: int) -> Generator[simpy.Event, int, None]:
        while True:
            message = yield outboxes[at].get()
            for child in children_of(at):
                yield env.timeout(COPY_NS)
                env.process(flight(child, message))

    def flight(to: int, message: int) -> Generator[simpy.Event, object, None]:
        yield env.timeout(LATENCY_NS)
        yield inboxes[to].put(message)

    env.process(source())
    for at in range(NODES):
        env.process(node(at))
        env.process(wire(at))
    env.run()
    return Result(tally.hops, tally.arrival_sum_ns)


# --- SimPy at its fastest: no processes, only timeouts with callbacks ---


def on_simpy_callbacks(messages: int) -> Result:
    """Simulate with one timeout for each copy, whose callback is the node."""
    env = simpy.Environment()
    tally = Tally()
    children = [children_of(at) for at in range(NODES)]
    free_at = [0] * NODES

    def send(at: int, message: int) -> None:
        now = int(env.now)
        free = max(now, free_at[at])
        for child in children[at]:
            free += COPY_NS
            copy = simpy.Timeout(env, free + LATENCY_NS - now, (child, message))
            copy.callbacks.append(receive)
        free_at[at] = free

    def receive(copy: Any) -> None:
        at, message = copy.value
        tally.hops += 1
        tally.arrival_sum_ns += int(env.now)
        send(at, message)

    def publish(due: Any) -> None:
        send(0, due.value)

    for message in range(messages):
        simpy.Timeout(env, message * EVERY_NS, message).callbacks.append(publish)
    env.run()
    return Result(tally.hops, tally.arrival_sum_ns)
