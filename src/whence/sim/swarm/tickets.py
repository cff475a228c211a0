"""Clusters with tickets: small rings that come and go, under faults chosen to meet every rule of the ticket protocol.

Who wants a ticket, who gives it back, who crashes, stalls longer than a lease, is cut off one way or altogether: each
draw takes some of it. Some clusters lose all their coordinators at once. Before the faults stop everything may go
wrong; afterwards the tickets must all come back, and what is then published must arrive.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import structs

from whence.core.levels.optimistic.level import OptimisticLevel
from whence.sim.network import LATENCY_SHAPES, Latency, NetworkModel
from whence.sim.numbers import draw_numbers
from whence.sim.scenario import Act, Clocks, Fault, Publish, Scenario
from whence.sim.streams import Streams
from whence.sim.swarm.hardships import HARDSHIPS
from whence.sim.swarm.slower import slowed
from whence.sim.swarm.weather import MS

ROUND_NS = 100 * MS
"""A gossip round."""

ANSWER_NS = 30 * MS
SPREAD_ROUNDS = 2
TICKET_ROUND_NS = SPREAD_ROUNDS * ROUND_NS + 2 * ANSWER_NS
"""A ticket round: what faults are measured in."""

SETTLE_ROUNDS = 24
"""Ticket rounds from healing until all tickets are back: detection, fences, leases draining, founding anew."""

OF_CLUSTERS = ("k", "tickets", "lease_rounds", "exclude_chance", "recovery", "recovery_bundles", "held_bundles_max")
"""What is drawn for every cluster, whatever its timing."""

LIVE: dict[str, Any] = {"spread": "direct", "view_size": 64, "subs_max": 64, "unsubs_max": 64}
"""Settings of live groups; all their durations are the defaults (decision 0005)."""

REACH_MIN = 0.99
"""What must arrive where views are partial or spreading is mended: with high probability."""

DRIFT_PPM = 20_000
"""As far as clocks may differ: `drift_max`."""


def draw(level: str, seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    dice = Streams(seed).of("swarm")
    shape = dice.choice(("ring", "ring", "churn", "churn", "loss", "stall", "split", "strong", "deaf"))
    k = 2 if shape == "strong" else 1
    nodes = dice.randint(7, 9) if k == 2 else dice.randint(5, 7)
    settings = _settings(k, dice)
    rarely = Streams(seed).of("rare")
    rare = rarely.choice((*RARE, *[""] * (16 - len(RARE))))
    safety = dice.randint(16, 20) if shape in ("stall", "deaf") else dice.randint(9, 15)
    safety = {"amnesia": 18, "strangers": 23}.get(rare, safety)
    wanting = dice.sample(range(nodes), nodes if shape == "churn" else dice.randint(2, min(5, nodes - 1)))
    acts = _joining(wanting, dice)
    end = safety * TICKET_ROUND_NS
    acts += _coming_and_going(list(range(nodes)), wanting, end, 6 if shape == "churn" else 1, dice)
    faults = _faults(shape, nodes, k, wanting, end, dice)
    if rare in RARE:
        shape, (faults, acts) = rare, RARE[rare](nodes, end, rarely)
    acts += [
        Act(at_ns=end + (1 + at) * TICKET_ROUND_NS, node=pid, name="cjoin")
        for at, pid in enumerate([*wanting, *range(3)])
    ]
    live_from = safety + SETTLE_ROUNDS
    live_until = live_from + 2
    everyone = list(range(nodes))
    publishes = _traffic(everyone, 2 * TICKET_ROUND_NS, end, dice.choice((1.0, 2.0)), dice)
    publishes += _calls(everyone, live_from * TICKET_ROUND_NS, live_until * TICKET_ROUND_NS, 1.5)
    publishes += _flush(everyone, (live_from - 3) * TICKET_ROUND_NS)
    deadline = 5 * SPREAD_ROUNDS * ROUND_NS
    drawn = Scenario(
        level=level, seed=seed, shape=shape, nodes=nodes, settings=settings, faults=faults, acts=acts,
        publishes=sorted(publishes, key=lambda publish: publish.at_ns),
        network=_network(dice),
        clocks=Clocks(offset_ns=dice.choice((0, 10**10)), drift_ppm=dice.choice((0, DRIFT_PPM, DRIFT_PPM))),
        sync_ns=dice.choice((0, 2 * MS)),
        heal_at_ns=end,
        live_from_ns=live_from * TICKET_ROUND_NS,
        live_until_ns=live_until * TICKET_ROUND_NS,
        deadline_ns=deadline,
        rest_at_ns=live_until * TICKET_ROUND_NS + deadline,
        end_at_ns=live_until * TICKET_ROUND_NS + deadline + TICKET_ROUND_NS,
    )  # fmt: skip
    hardly = Streams(seed).of("hardship")
    hardship = hardly.choice((*HARDSHIPS, *[""] * 12))
    if hardship:
        drawn = structs.replace(HARDSHIPS[hardship](drawn, TICKET_ROUND_NS, hardly), shape=hardship)
    odd = Streams(seed).of("numbers")
    numbers = draw_numbers(drawn.nodes, odd) if odd.random() < 1 / 2 else []
    return structs.replace(_spread(drawn, Streams(seed).of("spread")), numbers=numbers)


def _spread(scenario: Scenario, dice: Random) -> Scenario:
    """Let some clusters know a part of each other only, and some spread and wait as live groups do."""
    kind = dice.choice(("", "", "", "partial", "live"))
    if kind == "partial":
        few = {"view": "partial", "view_size": 5, "fanout": 4, "rounds": 4, "round_ns": ROUND_NS // 2, "idle_rounds": 2}
        held = {"hold_rounds": 5, "recover_rounds": 4}
        return structs.replace(scenario, settings=scenario.settings | few | held, reach_min=REACH_MIN)
    if kind == "live":
        given = {name: scenario.settings[name] for name in OF_CLUSTERS} | LIVE
        slower = OptimisticLevel().settings_from(given).tickets.ticket_round_ns / TICKET_ROUND_NS
        return structs.replace(slowed(scenario, slower), settings=given, reach_min=REACH_MIN)
    return scenario


def _settings(k: int, dice: Random) -> dict[str, Any]:
    return {
        "k": k, "tickets": dice.choice((4, 6, 9)), "answer_ns": ANSWER_NS,
        "ticket_round_ns": TICKET_ROUND_NS, "lease_rounds": dice.choice((2.5, 3.0)),
        "exclude_chance": dice.choice((0.7, 1.0)),
        "round_ns": ROUND_NS, "rounds": SPREAD_ROUNDS, "fanout": 8, "view": "full",
        "idle_rounds": 30, "history": 64, "recovery": dice.choice(("R1", "Rk", "R1+Rk")), "recovery_fanout": 3,
        "recovery_bundles": dice.choice((8, 64)), "recover_rounds": SPREAD_ROUNDS,
        "hold_rounds": SPREAD_ROUNDS + 1, "held_bundles_max": dice.choice((4, 64)),
    }  # fmt: skip


def _network(dice: Random) -> NetworkModel:
    """Draw how the network treats every copy: mostly fine, sometimes lossy, with old stragglers."""

    def sometimes(most: float) -> float:
        return dice.random() * most if dice.random() < 0.4 else 0.0

    shape = dice.choice(LATENCY_SHAPES[:3])
    return NetworkModel(
        latency=Latency(shape=shape, low_ns=dice.choice((MS // 2, 3 * MS)), high_ns=dice.choice((6 * MS, 15 * MS))),
        loss=sometimes(0.15), duplicate=sometimes(0.1), reorder=sometimes(0.15), replay=sometimes(0.05),
        straggle_ns=dice.choice((TICKET_ROUND_NS, 4 * TICKET_ROUND_NS)),
    )  # fmt: skip


def _joining(wanting: list[int], dice: Random) -> list[Act]:
    """Let everybody who wants a ticket ask for one: the first few at once, so that founders race."""
    return [
        Act(at_ns=(MS + at if at < 2 else dice.randrange(4 * TICKET_ROUND_NS)), node=pid, name="cjoin")
        for at, pid in enumerate(wanting)
    ]


def _coming_and_going(nodes: list[int], wanting: list[int], end: int, most: int, dice: Random) -> list[Act]:
    acts = []
    for _ in range(dice.randint(0, most)):
        at = dice.randrange(2 * TICKET_ROUND_NS, end)
        pid = dice.choice(wanting)
        acts.append(Act(at_ns=at, node=pid, name="cleave"))
        back = at + dice.randrange(4 * TICKET_ROUND_NS)
        if dice.random() < 0.6:
            acts.append(Act(at_ns=back, node=dice.choice((pid, dice.choice(nodes))), name="cjoin"))
    if most > 1 and dice.random() < 0.25:
        at = dice.randrange(5 * TICKET_ROUND_NS, end)
        acts += [Act(at_ns=at + number * MS, node=pid, name="cleave") for number, pid in enumerate(wanting)]
    return sorted(acts, key=lambda act: act.at_ns)


def _faults(shape: str, nodes: int, k: int, wanting: list[int], end: int, dice: Random) -> list[Fault]:
    faults: list[Fault] = []
    paused: dict[int, None] = {}

    def start() -> int:
        return dice.randrange(3 * TICKET_ROUND_NS, end)

    def last(at: int, low: float, high: float) -> int:
        return min(end, at + int(dice.uniform(low, high) * TICKET_ROUND_NS))

    def some(most: int) -> list[int]:
        among = wanting if dice.random() < 0.7 else list(range(nodes))
        return dice.sample(among, dice.randint(1, min(most, len(among))))

    def take(chance: float) -> bool:
        return dice.random() < chance * (0.3 if shape in ("stall", "deaf", "loss") else 1.0)

    if shape == "stall" or take(0.25):
        at = dice.randrange(3 * TICKET_ROUND_NS, end // 2) if shape == "stall" else start()
        stalled = some(2)
        paused.update(dict.fromkeys(stalled))
        until = last(at, 6, 14) if shape == "stall" else last(at, 1, 9)
        faults.append(Fault(kind="pause", at_ns=at, until_ns=until, nodes=stalled, between_effects=take(0.3)))
    if shape == "split" or take(0.15):
        at = start()
        faults.append(Fault(kind="partition", at_ns=at, until_ns=last(at, 2, 12), nodes=some(nodes // 2)))
    for _ in range(2):
        if take(0.3):
            at = start()
            faults.append(Fault(kind="cut", at_ns=at, until_ns=last(at, 1, 8), nodes=some(2), others=some(nodes // 2)))
    if take(0.25):
        at = start()
        slow = dice.choice((20.0, 400.0))
        faults.append(Fault(kind="slow", at_ns=at, until_ns=last(at, 1, 6), nodes=some(2), amount=slow))
    if take(0.15):
        at = start()
        faults.append(Fault(kind="burst", at_ns=at, until_ns=last(at, 1, 4), amount=dice.uniform(0.3, 1.0)))
    if take(0.2):
        faults.append(
            Fault(kind="clock_jump", at_ns=start(), nodes=some(2), amount=float(dice.choice((-1, 1)) * 10**10))
        )
    mortal = [pid for pid in range(nodes) if pid not in paused]
    faults += _crashes(shape, mortal, k, wanting, end, dice)
    if shape == "deaf":
        at, deaf = dice.randrange(4 * TICKET_ROUND_NS, 6 * TICKET_ROUND_NS), dice.choice(wanting)
        others = [pid for pid in range(nodes) if pid != deaf]
        faults.append(
            Fault(kind="slow", at_ns=at, until_ns=last(at, 10, 16), nodes=others, others=[deaf], amount=10_000.0)
        )
    if shape == "loss":
        faults += _total_loss(nodes, wanting, mortal, end, dice)
    return sorted(faults, key=lambda fault: fault.at_ns)


def _amnesia(nodes: int, end: int, dice: Random) -> tuple[list[Fault], list[Act]]:
    """Let one of three coordinators not hear another, until one closes the other, and all witnesses begin anew then.

    A witness that fenced somebody and forgot it would go on to lend to whom it had fenced. As witnesses still hear of
    the victim, it is taken for dead only after SURE_MISSES rounds.
    """
    three = dice.sample(range(nodes), 3)
    at = dice.randrange(6 * TICKET_ROUND_NS, 7 * TICKET_ROUND_NS)
    dies = at + int(dice.uniform(7.0, 8.5) * TICKET_ROUND_NS)
    others = [pid for pid in range(nodes) if pid not in three[:2]]
    return [
        Fault(kind="cut", at_ns=at, until_ns=end, nodes=three[:1], others=three[1:2]),
        Fault(kind="crash", at_ns=dies, until_ns=dies + dice.randrange(MS, 20 * MS), nodes=others),
    ], _joining(three, dice)


def _orphan(nodes: int, end: int, dice: Random) -> tuple[list[Fault], list[Act]]:
    """Let a coordinator be heard by nobody but one who asks for a ticket and witnesses nothing, and then die.

    A ticket given away before its giver's witnesses know has an owner that nobody finds.
    """
    *others, asker = range(nodes)
    two = dice.sample(others, 2)
    at = dice.randrange(6 * TICKET_ROUND_NS, end - 2 * TICKET_ROUND_NS)
    dies = min(end - MS, at + int(dice.uniform(1.0, 3.0) * TICKET_ROUND_NS))
    asking = Act(at_ns=at - dice.randrange(TICKET_ROUND_NS // 2), node=asker, name="cjoin")
    return [
        Fault(kind="cut", at_ns=at, until_ns=end, nodes=[two[0]], others=[pid for pid in others if pid != two[0]]),
        Fault(kind="crash", at_ns=dies, nodes=[two[0]]),
    ], [*_joining(two, dice), asking]


def _strangers(nodes: int, end: int, dice: Random) -> tuple[list[Fault], list[Act]]:
    """Part a coordinator from the one that watches it; before it replaces it as a witness, let it lose a second one.

    If it takes new witnesses without the word of most old ones, those of them that the other reaches first close it,
    and it does not know.
    """
    joining = dice.sample(range(nodes), 3)
    one, other, third = dice.sample(joining, 3)
    lost = min((seed for seed in range(4) if seed not in joining), key=lambda seed: (seed - one) % nodes)
    at = dice.randrange(8 * TICKET_ROUND_NS, 9 * TICKET_ROUND_NS)
    later = at + int(dice.uniform(2.5, 4.5) * TICKET_ROUND_NS)
    return [
        Fault(kind="cut", at_ns=at, until_ns=end, nodes=[one], others=[other]),
        Fault(kind="cut", at_ns=at, until_ns=end, nodes=[other], others=[one]),
        Fault(kind="cut", at_ns=later, until_ns=end, nodes=[one], others=[lost]),
        Fault(kind="slow", at_ns=later, until_ns=end, nodes=[third], others=[other], amount=20.0),
    ], [Act(at_ns=MS + 2 * place * TICKET_ROUND_NS, node=pid, name="cjoin") for place, pid in enumerate(joining)]


RARE: dict[str, Callable[[int, int, Random], tuple[list[Fault], list[Act]]]] = {
    "amnesia": _amnesia, "orphan": _orphan, "strangers": _strangers,
}  # fmt: skip
"""What some rules are for and chance seldom meets: each is drawn once in sixteen schedules."""


def _crashes(shape: str, mortal: list[int], k: int, wanting: list[int], end: int, dice: Random) -> list[Fault]:
    """Draw crashes: as many as are planned for, rarely more; most come back, with or without their disk."""
    victims = [pid for pid in mortal if pid in wanting] or mortal
    count = {"ring": 1, "stall": 0, "deaf": 0}.get(shape, dice.choice((0, 1, k)))
    if dice.random() < 0.04:
        count = k + 2
    faults = []
    for pid in dice.sample(victims, min(count, len(victims))):
        at = dice.randrange(3 * TICKET_ROUND_NS, end)
        until = min(end, at + int(dice.uniform(0.2, 8) * TICKET_ROUND_NS)) if dice.random() < 0.6 else 0
        faults.append(
            Fault(
                kind="crash", at_ns=at, until_ns=until, nodes=[pid],
                disk=dice.choice(("lost", "torn", "wiped")), between_effects=dice.random() < 0.4,
            )
        )  # fmt: skip
    if dice.random() < 0.15 and not faults and mortal:
        faults.append(Fault(kind="leave", at_ns=dice.randrange(3 * TICKET_ROUND_NS, end), nodes=[dice.choice(mortal)]))
    return faults


def _total_loss(nodes: int, wanting: list[int], mortal: list[int], end: int, dice: Random) -> list[Fault]:
    """Part every coordinator from all others for so long that each is closed, or let none hear any."""
    at = dice.randrange(4 * TICKET_ROUND_NS, end - 4 * TICKET_ROUND_NS)
    until = min(end, at + int(dice.uniform(4, 9) * TICKET_ROUND_NS))
    everyone = list(range(nodes))
    if dice.random() < 0.5:
        return [Fault(kind="cut", at_ns=at, until_ns=until, nodes=[pid], others=everyone) for pid in wanting]
    return [Fault(kind="pause", at_ns=at, until_ns=until, nodes=[pid for pid in wanting if pid in mortal] or [0])]


def _traffic(nodes: list[int], start: int, end: int, per_round: float, dice: Random) -> list[Publish]:
    """Draw publications in times of trouble; those of members without a ticket are refused, and count for nothing."""
    publishes = []
    at = start
    while (at := at + int(dice.expovariate(per_round) * TICKET_ROUND_NS / len(nodes))) < end:
        publishes.append(Publish(at_ns=at, node=dice.choice(nodes), events=dice.choice((1, 1, 2)), size=8))
    return publishes


def _calls(nodes: list[int], start: int, end: int, per_round: float) -> list[Publish]:
    """Let everybody publish now and then, in turn, at times that do not meet."""
    step = int(TICKET_ROUND_NS / per_round / len(nodes))
    return [Publish(at_ns=at, node=nodes[number % len(nodes)]) for number, at in enumerate(range(start, end, step))]


def _flush(nodes: list[int], at: int) -> list[Publish]:
    """Let everybody publish once, so that nothing old is waited for in the liveness phase."""
    return [Publish(at_ns=at + pid * MS, node=pid) for pid in nodes]
