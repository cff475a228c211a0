"""CBCAST's bytes on a tree by counting, without members and without a network: a check of what is simulated.

On a tree with links of one constant latency everything is delivered on arrival, so a publisher's clock has, of each
other, what that one published before the distance between them; and a link carries messages in the order in which they
pass it. From these two sentences follow all stamps, and what differs from one to the next on every link.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.topology import parents_of
from whence.sim.scenario import Scenario
from whence_lab.experiments.headers import LINK_NS, scenario

GROUP_BYTES, ENTRY_BYTES = 4, 8


class Crossings(NamedTuple):
    """Every copy of every message: when it left, and how many entries differ from the copy before it on the link."""

    at_ns: NDArray[np.int64]
    entries: NDArray[np.int64]

    def mean_bytes(self, since_ns: int = 0, until_ns: int = 1 << 62) -> float:
        """Return the mean bytes of the copies that left in a time, by the formula of the thesis as it is meant."""
        chosen = self.entries[(self.at_ns >= since_ns) & (self.at_ns < until_ns)]
        return float(np.mean(GROUP_BYTES + ENTRY_BYTES * chosen))


def crossings(nodes: int, publishers: int, messages: int, seed: int = 1) -> Crossings:
    """Count all copies of the run that `headers.scenario` describes for one group of all."""
    return counted(scenario("cbcast", nodes, publishers, messages, seed=seed))


def counted(planned: Scenario) -> Crossings:
    """Count all copies of a fault-free run on a binary tree with one group of all."""
    overlay = Overlay(parents_of("binary", planned.nodes), [range(planned.nodes)], 1)
    published = sorted((publish.at_ns, publish.node) for publish in planned.publishes)
    times = np.array([at for at, _ in published])
    origin = np.array([node for _, node in published])
    who = np.unique(origin)
    hops = np.array([[overlay.distance(node, other) for other in who] for node in range(planned.nodes)])
    column = {int(node): at for at, node in enumerate(who)}
    own = [times[origin == node] for node in who]
    stamps = np.zeros((len(times), len(who)), dtype=np.int32)
    for at, each in enumerate(own):
        stamps[:, at] = np.searchsorted(each, times - LINK_NS * hops[origin, at], side="right")
    found_at, found_entries = [], []
    for source in range(planned.nodes):
        for target in overlay.neighbours(source):
            # What comes from beyond the target does not go there.
            carried = np.flatnonzero(np.array([hops[source, column[int(node)]] < hops[target, column[int(node)]]
                                               for node in origin]))  # fmt: skip
            if not len(carried):
                continue
            passes = times[carried] + LINK_NS * hops[source, [column[int(node)] for node in origin[carried]]]
            order = np.argsort(passes, kind="stable")
            sent = stamps[carried[order]]
            changed = np.count_nonzero(np.diff(sent, axis=0, prepend=np.zeros((1, len(who)), dtype=np.int32)), axis=1)
            found_at.append(passes[order])
            found_entries.append(changed)
    return Crossings(np.concatenate(found_at), np.concatenate(found_entries))
