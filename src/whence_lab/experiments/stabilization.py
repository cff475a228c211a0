"""K's system after arbitrary faults, and with clocks modulo B: how long stamps and streams stay wrong (merge 6, 7)."""

from random import Random

from whence.core.clocks.kn import Kn, KnStamp
from whence.core.clocks.stamp import Timing
from whence.sim.corruption import corrupt_buffer
from whence_lab.experiments.computations import Event, Message, Rules, World, bits


def garbage(random: Random, rules: Rules) -> tuple[int, tuple[int, ...]]:
    """Draw c and kn: mostly ones that a guard cannot tell from true ones."""
    if random.random() < 0.3:
        kn = tuple(random.choice((0, 0, 1, rules.n, 99)) for _ in range(2 * rules.epsilon))
        return random.randint(0, rules.epsilon + 1), kn
    c, most = random.randrange(rules.epsilon), rules.n * rules.k
    known = [random.choice((0, 1, most - 1, most)) for _ in range(rules.epsilon + c)]
    return c, (*known, max(1, most - random.randint(0, 1)), *[0] * (rules.epsilon - c - 1))


def corrupted(world: World) -> None:
    """Put every process, channel and buffer into an arbitrary state, as far as its types allow."""
    random, rules = world.random, world.rules
    world.faults_ended = False
    world.run(60)
    span = 3 * (rules.delta + rules.epsilon) + 5
    for process in range(rules.n):
        rt = world.rt[process]
        c, kn = garbage(random, rules)
        world.kn[process]._set(rt + random.choice((0, 0, -1, random.randint(-span, span))), c, list(kn))
        world.hlc[process]._last = (rt + random.randint(-span, span)) << 20 | random.choice((0, 1, 9999))
    nowhere = Event(0, 0, -1, KnStamp(0, 0, ()), 0, 0)
    for _ in range(6):
        r = min(world.rt) + random.randint(-rules.delta, span)
        stamp, hlc = KnStamp(r, *garbage(random, rules)), (r + random.randint(0, 9)) << 20
        target = random.randrange(world.all)
        on_its_way_since = world.rt[target if rules.reading == "receiver" else 0]
        world.transit.append(Message(len(world.events), target, 0, on_its_way_since, stamp, hlc, 0))
        world.events.append(nowhere)
    for merger in world.mergers:
        rt = world.rt[-1]
        corrupt_buffer(merger, rt, rt + random.randint(1, span), random.randrange(4))
    world.start_rt = list(world.rt)
    world.faults_ended = True


def recovery(world: World, order: str) -> tuple[int, int]:
    """Return how late, in own ticks, a wrongly ordered pair of events and a wrong release were still seen."""
    stamps = stream = -1
    events = world.events
    place = world.kn[0].packed
    keys = [(event.hlc, 0) if order == "hlc" or event.own_ticks < 0 else place(event.kn) for event in events]
    after_faults = sum(1 << number for number, event in enumerate(events) if event.own_ticks >= 0)
    for event, key in zip(events, keys, strict=True):
        causes = event.past & after_faults if event.own_ticks >= 0 else 0
        for cause in bits(causes):
            if keys[cause] >= key:
                stamps = max(stamps, min(events[cause].own_ticks, event.own_ticks))
    for at, output in enumerate(world.output):
        begun = world.start_rt[world.rules.n + at]
        overtaken = 0
        for released, rt in output.released:
            if released is None or events[released].own_ticks < 0 or overtaken >> released & 1:
                stream = max(stream, rt - begun)
            if released is not None:
                overtaken |= events[released].past
    return stamps, stream


class NeverAges(Kn):
    """Clocks modulo B whose idle state is kept."""

    def _ages(self) -> bool:
        return False


STEPS, RESTS_FROM, TICK_CHANCE = 80, 55, 0.4
"""The steps of a computation with clocks modulo B, when one process rests, and how often the clocks advance."""


def bounded_matches(kind: type[Kn], random: Random, epsilon: int, delta: int, modulus: int, rest: int = 0) -> bool:
    """Tell whether stamps with clocks modulo B, read back by their receivers, equal the unbounded ones.

    One of the processes creates no event for `rest` ticks.
    """
    n = 3
    shared = {"epsilon": epsilon, "delta": delta, "publishers_max": n, "events_per_tick_max": 40}
    whole = [Kn(Timing(**shared)) for _ in range(n)]
    small = [kind(Timing(**shared, bounded=modulus)) for _ in range(n)]
    rt = 50
    transit: list[tuple[int, int, KnStamp, bytes]] = []
    for process in range(n):
        whole[process].start(rt)
        small[process].start(rt)
    for _ in range(STEPS + int(rest / TICK_CHANCE)):
        if random.random() < TICK_CHANCE:
            rt += 1  # all clocks together: the bound on clocks is kept in the simplest way
            for process in range(n):
                small[process].guard(rt)
            transit = [message for message in transit if rt <= message[1] + delta]
        process = random.randrange(n)
        if not process and RESTS_FROM <= rt < RESTS_FROM + rest:
            continue
        mine = [message for message in transit if message[0] == process and random.random() < 0.5]
        if mine:
            transit = [message for message in transit if message not in mine]
            one = whole[process].receive(rt, [stamp for _, _, stamp, _ in mine])
            other = small[process].receive(rt, [small[process].read(data, rt) for _, _, _, data in mine])
        elif random.random() < 0.3:
            one, other = whole[process].local(rt), small[process].local(rt)
            transit.append((random.randrange(n), rt, one, small[process].write(other)))
        else:
            continue
        if one != other:
            return False
    return True
