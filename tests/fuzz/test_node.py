"""A member never raises on any item that could be decoded, from any sender, at any time in its life.

And whatever it was told, it stays within its bounds, and what it sends can be read by others.
"""

from collections import Counter
from random import Random

import pytest

from tests.fuzz import mutate
from whence import limits
from whence.core.dissemination.gossip import Gossip
from whence.core.level import BuildContext
from whence.core.levels.gossip.fifo import SEQ_END
from whence.core.levels.gossip.level import GOSSIP, settings_from
from whence.core.membership.full_view import Directory
from whence.core.membership.items import NEWS, Subscribe, Welcome
from whence.core.ready import Delivery, Item, Ready
from whence.core.staged import Lifecycle, StagedMember
from whence.errors import LimitError, NotMemberError
from whence.types import Process
from whence.wire.codec import decode, encode

ME = Process(1, 5)
ROUND_NS = 1000
LIVES = 150
LIVES_LONG = 5_000
STEPS = 120

SMALL = {"view_size": 5, "subs_max": 3, "unsubs_max": 2, "buffer_bundles": 3, "history": 8, "rounds": 3}
TIGHT = {"held_bundles_max": 3, "held_bytes_max": 60, "senders_max": 4, "incarnations_per_sender_max": 2}
LARGE = {"view_size": 256, "subs_max": 256, "unsubs_max": 256, "rounds": 255, "sub_rounds": 255, "farewell_rounds": 20}
ODD: dict[str, object] = {
    "farewell_rounds": 1,
    "announce_rounds": 1,
    "isolation_rounds": 1,
    "reach_rounds": 1,
    "rounds": 1,
    "jitter": 0,
}
SHAPES: list[dict[str, object]] = [{}, {**SMALL, **TIGHT}, {**LARGE, "gossip_bundles": 64, "buffer_bundles": 200}, ODD]


def near(random: Random) -> Process:
    """Draw from a few processes, so that items have to do with each other; oneself and one's other lives among them."""
    return Process(random.randrange(6), random.choice((0, 1, 4, 5, 6, limits.INCARNATION_MAX)))


def near_news(random: Random) -> bytes:
    return b"".join(NEWS.pack(*near(random), random.choice((0, 1, 5, 255))) for _ in range(random.randrange(6)))


def near_snapshot(random: Random) -> bytes:
    entries = [(*near(random), random.choice((0, 1, 2, 9, SEQ_END, 2**64 - 1))) for _ in range(random.randrange(5))]
    packed = b"".join(
        pid.to_bytes(4, "little") + incarnation.to_bytes(4, "little") + at.to_bytes(8, "little")
        for pid, incarnation, at in entries
    )
    return packed + b"x" * (random.random() < 0.1)


def near_item(random: Random) -> Item:
    kind = random.randrange(10)
    if kind < 6:
        bundles = [
            mutate.some_bundle(random, near(random), random.choice((1, 2, 3, 5, 8, limits.SEQ_MAX - 8)))
            for _ in range(random.randrange(5))
        ]
        ages = bytes(random.choice((0, 1, 2, 3, 254, 255)) for _ in bundles)
        return Gossip(ages, bundles, near_news(random), near_news(random))
    if kind == 6:
        return Welcome(near_news(random), near_snapshot(random))
    if kind == 7:
        return Subscribe(joining=True)
    return mutate.some_item(random)


class Run:
    """One member's life under arbitrary inputs, judged after each."""

    def __init__(self, level: str, view: str, shape: dict[str, object], random: Random) -> None:
        self.random = random
        directory = Directory()
        for pid in range(random.randrange(6)):
            directory.add(pid)
        settings = settings_from({"round_ns": ROUND_NS, "view": view, **shape})
        self.now = random.choice((0, 1_000_000))
        self.node: StagedMember = GOSSIP[level].build(ME, settings, BuildContext(random.random, self.now, directory))
        self.delivered: set[tuple[int, int, int]] = set()
        self.seen: Counter[str] = Counter()

    def step(self) -> None:
        random, node = self.random, self.node
        self.now += random.choice((0, 0, 1, ROUND_NS // 3, ROUND_NS, 20 * ROUND_NS))
        draw = random.random()
        try:
            if draw < 0.6:
                sender = near(random) if random.random() < 0.8 else mutate.some_process(random)
                ready = node.receive(sender, decode(encode("g", sender, [near_item(random)])).items[0], self.now)
            elif draw < 0.85:
                ready = node.tick(self.now)
            elif draw < 0.92:
                ready = node.unreachable(random.randrange(8), self.now)
            elif draw < 0.97:
                ready = node.publish([random.randbytes(3)] * random.randint(1, 3), self.now)[1]
            elif draw < 0.98:
                ready = node.leave(self.now)
            elif draw < 0.99:
                ready = node.join([2, ME.pid, 3], self.now)
            else:
                ready = node.found([near(random) for _ in range(4)], self.now)
        except NotMemberError:
            self.seen["not_member"] += 1
            return
        self.judge(ready)

    def judge(self, ready: Ready) -> None:
        self.seen[self.node.lifecycle.value] += 1
        for gauge in self.node.gauges():
            assert gauge.value <= gauge.bound, gauge
        for send in ready.send:
            assert send.to
            assert ME.pid not in send.to or isinstance(send.item, Welcome), "another life of ours may ask"
            assert len(set(send.to)) == len(send.to)
            assert decode(encode("g", ME, [send.item], send.incarnation)).items == [send.item]
        assert ME.pid not in (self.node.view() or ())
        for out in ready.deliver:
            if isinstance(out, Delivery):
                bundle = out.bundle
                events = {(bundle.pid, bundle.incarnation, seq) for seq in range(bundle.first, bundle.last + 1)}
                assert not events & self.delivered
                self.delivered |= events
                self.seen["delivered"] += 1
        if self.node.lifecycle in (Lifecycle.OUTSIDE, Lifecycle.LEFT):
            assert ready.wake_at is None


@pytest.mark.no_cover
@pytest.mark.parametrize("shape", SHAPES, ids=["usual", "small", "large", "odd"])
@pytest.mark.parametrize("view", ["partial", "full"])
@pytest.mark.parametrize("level", sorted(GOSSIP))
def test_a_member_takes_any_item_from_anyone_at_any_time(
    level: str, view: str, shape: dict[str, object], long_mode: bool
) -> None:
    seen: Counter[str] = Counter()
    for number in range(LIVES_LONG if long_mode else LIVES):
        run = Run(level, view, shape, Random(f"{level} {view} {shape} {number}"))
        if number % 3:
            run.judge(run.node.found([Process(2, 1), Process(3, 1)], run.now))
        for _ in range(STEPS):
            run.step()
        seen += run.seen
    assert {life.value for life in Lifecycle} | {"delivered", "not_member"} <= set(seen)


def test_the_limits_of_a_publish_are_named_even_by_a_fuzzed_member() -> None:
    run = Run("fifo", "partial", {}, Random(1))
    run.node.found([], 0)
    with pytest.raises(LimitError, match="publish_events_max"):
        run.node.publish([b""] * (limits.BUNDLE_EVENTS_MAX + 1), 0)
