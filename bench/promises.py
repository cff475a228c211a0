"""What strict order costs beside `causal`, in a model: hops take 0.2 to 0.6 ms, and nothing else takes time.

All members publish at the rate. Their timers are those of the live event loop: whole milliseconds, or at once. It shows
hops, pauses and frames without the machine: live figures are in live.py.

Goals: with eight members at 4,000 messages a second at most 8 times the p50 of `causal`, with three at 1,500 at most 3
times; beats at most as many as copies of messages, and half as many again.
"""

from heapq import heappop, heappush
from random import Random
from typing import Any

from _common import arguments, finish

from whence.core.level import BuildContext
from whence.core.levels.causal.level import CausalLevel
from whence.core.levels.total.level import TotalLevel
from whence.core.member import Member
from whence.core.membership.full_view import Directory
from whence.core.ready import Delivery, Ready
from whence.types import Process

SHAPES = {(8, 4000.0): 8.0, (3, 1500.0): 3.0}
"""Members and messages a second, and how many times the p50 of `causal` is allowed."""
BEATS_MAX = 1.5
KINDS: dict[str, tuple[Any, dict[str, object]]] = {
    "causal": (CausalLevel(), {"membership": "living"}),
    "total": (TotalLevel(), {"order": "strict"}),
}
HOP_NS = (200_000, 600_000)
MS = 1_000_000
START_NS = 50 * MS
NEVER = 1 << 62


class Model:
    """Some members, packets on their way, and timers."""

    def __init__(self, kind: str, members: int, rate: float) -> None:
        spec, given = KINDS[kind]
        self.random = Random(7)
        self.pids = range(members)
        settings = spec.settings_from({**spec.live_settings(list(self.pids), given, data=False), **given})
        self.members: list[Member] = [spec.build(Process(pid, 1), settings, self._around()) for pid in self.pids]
        self.period_ns = 1e9 * members / rate
        self.now = 0
        self.heap: list[tuple[int, int, str, tuple[Any, ...]]] = []
        self.wake = [NEVER] * members
        self.links: dict[tuple[int, int], int] = {}
        self.published: dict[tuple[int, int], int] = {}
        self.counts = [0] * members
        self.latencies: list[int] = []
        self.copies: dict[str, int] = {}
        for pid, member in enumerate(self.members):
            self.carry_out(pid, member.found([Process(other, 1) for other in self.pids if other != pid], 0))
            self.plan(START_NS + int(self.random.random() * self.period_ns), "publish", pid)

    def _around(self) -> BuildContext:
        return BuildContext(
            self.random.random, 0, Directory(), remembers=False, epoch_floor=0, is_first_incarnation=True
        )

    def plan(self, at: int, what: str, *given: Any) -> None:
        """Let something happen at a time."""
        heappush(self.heap, (at, self.random.getrandbits(60), what, given))

    def carry_out(self, pid: int, ready: Ready) -> None:
        """Do what a member asks for."""
        for send in ready.send:
            name = type(send.item).__name__
            self.copies[name] = self.copies.get(name, 0) + len(send.to)
            for to in send.to:
                at = max(self.now + self.random.randint(*HOP_NS), self.links.get((pid, to), 0) + 1)
                self.links[pid, to] = at
                self.plan(at, "receive", pid, to, send.item)
        for step in ready.deliver:
            if isinstance(step, Delivery):
                self.latencies.append(self.now - self.published[step.bundle.pid, step.bundle.first])
        if ready.wake_at is not None and ready.wake_at < self.wake[pid]:
            self.wake[pid] = ready.wake_at
            wait = ready.wake_at - self.now
            at = (self.now // MS + max(1, round(wait / MS))) * MS if wait > 0 else self.now
            self.plan(at, "tick", pid, ready.wake_at)

    def run(self, seconds: float) -> dict[str, float]:
        """Let time go on; return latencies and frames for each message."""
        until = START_NS + int(seconds * 1e9)
        while self.heap and self.heap[0][0] <= until:
            self.now, _, what, given = heappop(self.heap)
            if what == "receive":
                pid, to, item = given
                self.carry_out(to, self.members[to].receive(Process(pid, 1), item, self.now))
            elif what == "publish":
                self._publish(given[0])
            elif self.wake[given[0]] == given[1]:
                self.wake[given[0]] = NEVER
                self.carry_out(given[0], self.members[given[0]].tick(self.now))
        ranked = sorted(self.latencies)
        each = {name: round(copies / len(self.published), 2) for name, copies in sorted(self.copies.items())}
        return {
            "p50_ms": ranked[len(ranked) // 2] / 1e6,
            "p99_ms": ranked[int(0.99 * len(ranked))] / 1e6,
            **{f"{name} per message": copies for name, copies in each.items()},
        }

    def _publish(self, pid: int) -> None:
        self.counts[pid] += 1
        self.published[pid, self.counts[pid]] = self.now
        _, ready = self.members[pid].publish([bytes(32)], self.now)
        self.carry_out(pid, ready)
        self.plan(self.now + int(self.period_ns * (0.9 + 0.2 * self.random.random())), "publish", pid)


def main() -> None:
    """Run the model and print one JSON line; exit with status 1 if a goal was missed."""
    given = arguments(__doc__).parse_args()
    seconds = 0.2 if given.quick else 2.0
    told: dict[str, Any] = {}
    goals: dict[str, bool] = {}
    for (members, rate), most in SHAPES.items():
        name = f"{members}⇄{members} at {rate:.0f}"
        seen = told[name] = {kind: Model(kind, members, rate).run(seconds) for kind in KINDS}
        ratio = seen["total"]["p50_ms"] / seen["causal"]["p50_ms"]
        told[f"{name}, p50 of causal"] = round(ratio, 2)
        goals[f"{name}: p50 at most {most} times causal's"] = ratio <= most
        beats = seen["total"].get("Beat per message", 0.0) / seen["total"]["ViewMessage per message"]
        goals[f"{name}: at most {BEATS_MAX} beats for a copy of a message"] = beats <= BEATS_MAX
    finish("promises", {"measured": told}, goals, quick=given.quick)


if __name__ == "__main__":
    main()
