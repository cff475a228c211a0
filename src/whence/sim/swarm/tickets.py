"""Clusters with tickets: small rings that come and go, under faults chosen to meet every rule of the ticket protocol.

Members ask for tickets, give them back, crash, stall longer than a lease, are cut off one way or both ways: each draw
has some of this. Some clusters lose all their coordinators at once. Until the faults stop, anything may go wrong;
afterwards all tickets must come back, and what is then published must arrive.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import structs

from whence.core.levels.optimistic.level import OptimisticLevel
from whence.sim.network import LATENCY_SHAPES, Latency, NetworkModel
from whence.sim.process_ids import draw_process_ids
from whence.sim.random_streams import RandomStreams
from whence.sim.scenario import MS, Act, Clocks, Fault, Publish, Scenario
from whence.sim.swarm.ticket_corner_cases import CORNER_CASES
from whence.sim.swarm.time_scale import with_time_scaled

ROUND_NS = 100 * MS
"""A gossip round."""

ANSWER_NS = 30 * MS
SPREAD_ROUNDS = 2
TICKET_ROUND_NS = SPREAD_ROUNDS * ROUND_NS + 2 * ANSWER_NS
"""A ticket round: what faults are measured in."""

SETTLE_ROUNDS = 24
"""Ticket rounds from healing until all tickets are back: detection, fences, leases draining, founding anew."""

SAME_SETTINGS = (
    "k", "tickets", "seeds", "lease_rounds", "exclude_chance", "recovery", "recovery_bundles", "held_bundles_max",
)  # fmt: skip
"""Settings that are drawn for every cluster, whatever its timing."""

LIVE: dict[str, Any] = {"spread": "direct", "view_size": 64, "subs_max": 64, "unsubs_max": 64}
"""Settings of live groups; all their durations are the defaults (decision 0005)."""

REACH_MIN = 0.99
"""The part of the expected deliveries that must happen where gossip promises with high probability only."""

PARTIAL_REACH_MIN = 0.97
"""The same with partial views: a liveness phase has some 100 to 200 deliveries, and a member that is in nobody's view
for a round misses all that is published meanwhile."""

DRIFT_PPM = 20_000
"""How far clocks may differ: `drift_max`."""


def draw(level: str, seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = RandomStreams(seed).of("swarm")
    shape = rng.choice(("ring", "ring", "churn", "churn", "loss", "stall", "split", "strong", "deaf"))
    k = 2 if shape == "strong" else 1
    nodes = rng.randint(7, 9) if k == 2 else rng.randint(5, 7)
    settings = _settings(k, rng)
    rare_rng = RandomStreams(seed).of("rare")
    rare = rare_rng.choice((*RARE, *[""] * (16 - len(RARE))))
    safety = rng.randint(16, 20) if shape in ("stall", "deaf") else rng.randint(9, 15)
    safety = {"amnesia": 18, "strangers": 23}.get(rare, safety)
    wanting = rng.sample(range(nodes), nodes if shape == "churn" else rng.randint(2, min(5, nodes - 1)))
    acts = _joining(wanting, rng)
    end = safety * TICKET_ROUND_NS
    acts += _coming_and_going(list(range(nodes)), wanting, end, 6 if shape == "churn" else 1, rng)
    faults = _faults(shape, nodes, k, wanting, end, rng)
    if rare in RARE:
        shape, (faults, acts) = rare, RARE[rare](nodes, end, rare_rng)
    acts += [
        Act(at_ns=end + (1 + at) * TICKET_ROUND_NS, node=pid, name="cjoin")
        for at, pid in enumerate([*wanting, *range(3)])
    ]
    live_from = safety + SETTLE_ROUNDS
    live_until = live_from + 2
    everyone = list(range(nodes))
    publishes = _traffic(everyone, 2 * TICKET_ROUND_NS, end, rng.choice((1.0, 2.0)), rng)
    publishes += _steady_traffic(everyone, live_from * TICKET_ROUND_NS, live_until * TICKET_ROUND_NS, 1.5)
    publishes += _flush(everyone, (live_from - 3) * TICKET_ROUND_NS)
    deadline = 5 * SPREAD_ROUNDS * ROUND_NS
    drawn = Scenario(
        level=level, seed=seed, shape=shape, nodes=nodes, settings=settings, faults=faults, acts=acts,
        publishes=sorted(publishes, key=lambda publish: publish.at_ns),
        network=_network(rng),
        clocks=Clocks(offset_ns=rng.choice((0, 10**10)), drift_ppm=rng.choice((0, DRIFT_PPM, DRIFT_PPM))),
        sync_ns=rng.choice((0, 2 * MS)),
        heal_at_ns=end,
        live_from_ns=live_from * TICKET_ROUND_NS,
        live_until_ns=live_until * TICKET_ROUND_NS,
        deadline_ns=deadline,
        rest_at_ns=live_until * TICKET_ROUND_NS + deadline,
        end_at_ns=live_until * TICKET_ROUND_NS + deadline + TICKET_ROUND_NS,
    )  # fmt: skip
    case_rng = RandomStreams(seed).of("hardship")
    case = case_rng.choice((*CORNER_CASES, "returned", "returned", *[""] * 12))
    if case:
        drawn = structs.replace(CORNER_CASES[case](drawn, TICKET_ROUND_NS, case_rng), shape=case)
    id_rng = RandomStreams(seed).of("numbers")
    ids = draw_process_ids(drawn.nodes, id_rng) if id_rng.random() < 1 / 2 else []
    return structs.replace(_disseminated(drawn, RandomStreams(seed).of("spread")), numbers=ids)


def _disseminated(scenario: Scenario, rng: Random) -> Scenario:
    """Return the scenario unchanged, with partial views, or with the dissemination and the timers of live groups."""
    kind = rng.choice(("", "", "", "partial", "live"))
    if kind == "partial":
        partial = {
            "view": "partial", "view_size": 5, "fanout": 4, "rounds": 4, "round_ns": ROUND_NS // 2, "idle_rounds": 2,
            "hold_rounds": 5, "recover_rounds": 4,
        }  # fmt: skip
        return structs.replace(scenario, settings=scenario.settings | partial, reach_min=PARTIAL_REACH_MIN)
    if kind == "live":
        given = {name: scenario.settings[name] for name in SAME_SETTINGS if name in scenario.settings} | LIVE
        factor = OptimisticLevel().settings_from(given).tickets.ticket_round_ns / TICKET_ROUND_NS
        return structs.replace(with_time_scaled(scenario, factor), settings=given, reach_min=REACH_MIN)
    return scenario


def _settings(k: int, rng: Random) -> dict[str, Any]:
    return {
        "k": k, "tickets": rng.choice((4, 6, 9)), "answer_ns": ANSWER_NS,
        "ticket_round_ns": TICKET_ROUND_NS, "lease_rounds": rng.choice((2.5, 3.0)),
        "exclude_chance": rng.choice((0.7, 1.0)),
        "round_ns": ROUND_NS, "rounds": SPREAD_ROUNDS, "fanout": 8, "view": "full",
        "idle_rounds": 30, "history": 64, "recovery": rng.choice(("R1", "Rk", "R1+Rk")), "recovery_fanout": 3,
        "recovery_bundles": rng.choice((8, 64)), "recover_rounds": SPREAD_ROUNDS,
        "hold_rounds": SPREAD_ROUNDS + 1, "held_bundles_max": rng.choice((4, 64)),
    }  # fmt: skip


def _network(rng: Random) -> NetworkModel:
    """Return a random network: mostly fine, sometimes lossy, with copies that arrive long after they were sent."""

    def sometimes(most: float) -> float:
        return rng.random() * most if rng.random() < 0.4 else 0.0

    shape = rng.choice(LATENCY_SHAPES[:3])
    return NetworkModel(
        latency=Latency(shape=shape, low_ns=rng.choice((MS // 2, 3 * MS)), high_ns=rng.choice((6 * MS, 15 * MS))),
        loss=sometimes(0.15), duplicate=sometimes(0.1), reorder=sometimes(0.15), replay=sometimes(0.05),
        straggle_ns=rng.choice((TICKET_ROUND_NS, 4 * TICKET_ROUND_NS)),
    )  # fmt: skip


def _joining(wanting: list[int], rng: Random) -> list[Act]:
    """Return requests for tickets: the first few at once, so that founders race."""
    return [
        Act(at_ns=(MS + at if at < 2 else rng.randrange(4 * TICKET_ROUND_NS)), node=pid, name="cjoin")
        for at, pid in enumerate(wanting)
    ]


def _coming_and_going(nodes: list[int], wanting: list[int], end: int, most: int, rng: Random) -> list[Act]:
    acts = []
    for _ in range(rng.randint(0, most)):
        at = rng.randrange(2 * TICKET_ROUND_NS, end)
        pid = rng.choice(wanting)
        acts.append(Act(at_ns=at, node=pid, name="cleave"))
        back = at + rng.randrange(4 * TICKET_ROUND_NS)
        if rng.random() < 0.6:
            acts.append(Act(at_ns=back, node=rng.choice((pid, rng.choice(nodes))), name="cjoin"))
    if most > 1 and rng.random() < 0.25:
        at = rng.randrange(5 * TICKET_ROUND_NS, end)
        acts += [Act(at_ns=at + number * MS, node=pid, name="cleave") for number, pid in enumerate(wanting)]
    return sorted(acts, key=lambda act: act.at_ns)


def _faults(shape: str, nodes: int, k: int, wanting: list[int], end: int, rng: Random) -> list[Fault]:
    faults: list[Fault] = []
    paused: dict[int, None] = {}

    def start() -> int:
        return rng.randrange(3 * TICKET_ROUND_NS, end)

    def last(at: int, low: float, high: float) -> int:
        return min(end, at + int(rng.uniform(low, high) * TICKET_ROUND_NS))

    def some(most: int) -> list[int]:
        among = wanting if rng.random() < 0.7 else list(range(nodes))
        return rng.sample(among, rng.randint(1, min(most, len(among))))

    def take(chance: float) -> bool:
        return rng.random() < chance * (0.3 if shape in ("stall", "deaf", "loss") else 1.0)

    if shape == "stall" or take(0.25):
        at = rng.randrange(3 * TICKET_ROUND_NS, end // 2) if shape == "stall" else start()
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
        slow = rng.choice((20.0, 400.0))
        faults.append(Fault(kind="slow", at_ns=at, until_ns=last(at, 1, 6), nodes=some(2), amount=slow))
    if take(0.15):
        at = start()
        faults.append(Fault(kind="burst", at_ns=at, until_ns=last(at, 1, 4), amount=rng.uniform(0.3, 1.0)))
    if take(0.2):
        faults.append(
            Fault(kind="clock_jump", at_ns=start(), nodes=some(2), amount=float(rng.choice((-1, 1)) * 10**10))
        )
    mortal = [pid for pid in range(nodes) if pid not in paused]
    faults += _crashes(shape, mortal, k, wanting, end, rng)
    if shape == "deaf":
        at, deaf = rng.randrange(4 * TICKET_ROUND_NS, 6 * TICKET_ROUND_NS), rng.choice(wanting)
        others = [pid for pid in range(nodes) if pid != deaf]
        faults.append(
            Fault(kind="slow", at_ns=at, until_ns=last(at, 10, 16), nodes=others, others=[deaf], amount=10_000.0)
        )
    if shape == "loss":
        faults += _total_loss(nodes, wanting, mortal, end, rng)
    return sorted(faults, key=lambda fault: fault.at_ns)


def _amnesia(nodes: int, end: int, rng: Random) -> tuple[list[Fault], list[Act]]:
    """Return a one-way cut between two of three coordinators until one closes the other; then all witnesses restart.

    A witness that forgot its fence would renew the lease that it had fenced; one whose disk was wiped is another
    witness. Because witnesses still hear the victim, it counts as dead only after SURE_MISSES rounds.
    """
    three = rng.sample(range(nodes), 3)
    at = rng.randrange(6 * TICKET_ROUND_NS, 7 * TICKET_ROUND_NS)
    dies = at + int(rng.uniform(7.0, 8.5) * TICKET_ROUND_NS)
    others = [pid for pid in range(nodes) if pid not in three[:2]]
    return [
        Fault(kind="cut", at_ns=at, until_ns=end, nodes=three[:1], others=three[1:2]),
        Fault(
            kind="crash",
            at_ns=dies,
            until_ns=dies + rng.randrange(MS, 20 * MS),
            nodes=others,
            disk=rng.choice(("lost", "wiped")),
        ),
    ], _joining(three, rng)


def _orphan(nodes: int, end: int, rng: Random) -> tuple[list[Fault], list[Act]]:
    """Return a coordinator that only an applicant hears, which is not a witness; then the coordinator crashes.

    A ticket that is granted before the granter's witnesses know has an owner that nobody finds.
    """
    *others, asker = range(nodes)
    two = rng.sample(others, 2)
    at = rng.randrange(6 * TICKET_ROUND_NS, end - 2 * TICKET_ROUND_NS)
    dies = min(end - MS, at + int(rng.uniform(1.0, 3.0) * TICKET_ROUND_NS))
    asking = Act(at_ns=at - rng.randrange(TICKET_ROUND_NS // 2), node=asker, name="cjoin")
    return [
        Fault(kind="cut", at_ns=at, until_ns=end, nodes=[two[0]], others=[pid for pid in others if pid != two[0]]),
        Fault(kind="crash", at_ns=dies, nodes=[two[0]]),
    ], [*_joining(two, rng), asking]


def _strangers(nodes: int, end: int, rng: Random) -> tuple[list[Fault], list[Act]]:
    """Return a coordinator cut off from its watcher, and from a second witness before it replaces the first.

    If it installs new witnesses without the consent of most old ones, those that its watcher reaches first close it,
    and it does not know.
    """
    joining = rng.sample(range(nodes), 3)
    one, other, third = rng.sample(joining, 3)
    lost = min((seed for seed in range(4) if seed not in joining), key=lambda seed: (seed - one) % nodes)
    at = rng.randrange(8 * TICKET_ROUND_NS, 9 * TICKET_ROUND_NS)
    later = at + int(rng.uniform(2.5, 4.5) * TICKET_ROUND_NS)
    return [
        Fault(kind="cut", at_ns=at, until_ns=end, nodes=[one], others=[other]),
        Fault(kind="cut", at_ns=at, until_ns=end, nodes=[other], others=[one]),
        Fault(kind="cut", at_ns=later, until_ns=end, nodes=[one], others=[lost]),
        Fault(kind="slow", at_ns=later, until_ns=end, nodes=[third], others=[other], amount=20.0),
    ], [Act(at_ns=MS + 2 * place * TICKET_ROUND_NS, node=pid, name="cjoin") for place, pid in enumerate(joining)]


RARE: dict[str, Callable[[int, int, Random], tuple[list[Fault], list[Act]]]] = {
    "amnesia": _amnesia, "orphan": _orphan, "strangers": _strangers,
}  # fmt: skip
"""Cases that have rules of their own and that random draws rarely reach: each is in one of sixteen schedules."""


def _crashes(shape: str, mortal: list[int], k: int, wanting: list[int], end: int, rng: Random) -> list[Fault]:
    """Return crashes: as many as the cluster tolerates, rarely more; most come back, with or without their disk."""
    victims = [pid for pid in mortal if pid in wanting] or mortal
    count = {"ring": 1, "stall": 0, "deaf": 0}.get(shape, rng.choice((0, 1, k)))
    if rng.random() < 0.04:
        count = k + 2
    faults = []
    for pid in rng.sample(victims, min(count, len(victims))):
        at = rng.randrange(3 * TICKET_ROUND_NS, end)
        until = min(end, at + int(rng.uniform(0.2, 8) * TICKET_ROUND_NS)) if rng.random() < 0.6 else 0
        faults.append(
            Fault(
                kind="crash", at_ns=at, until_ns=until, nodes=[pid],
                disk=rng.choice(("lost", "torn", "wiped")), between_effects=rng.random() < 0.4,
            )
        )  # fmt: skip
    if rng.random() < 0.15 and not faults and mortal:
        faults.append(Fault(kind="leave", at_ns=rng.randrange(3 * TICKET_ROUND_NS, end), nodes=[rng.choice(mortal)]))
    return faults


def _total_loss(nodes: int, wanting: list[int], mortal: list[int], end: int, rng: Random) -> list[Fault]:
    """Return a cut or a pause of all coordinators that lasts until each is closed."""
    at = rng.randrange(4 * TICKET_ROUND_NS, end - 4 * TICKET_ROUND_NS)
    until = min(end, at + int(rng.uniform(4, 9) * TICKET_ROUND_NS))
    everyone = list(range(nodes))
    if rng.random() < 0.5:
        return [Fault(kind="cut", at_ns=at, until_ns=until, nodes=[pid], others=everyone) for pid in wanting]
    return [Fault(kind="pause", at_ns=at, until_ns=until, nodes=[pid for pid in wanting if pid in mortal] or [0])]


def _traffic(nodes: list[int], start: int, end: int, per_round: float, rng: Random) -> list[Publish]:
    """Return random publications while faults act; those of members without a ticket are refused."""
    publishes = []
    at = start
    while (at := at + int(rng.expovariate(per_round) * TICKET_ROUND_NS / len(nodes))) < end:
        publishes.append(Publish(at_ns=at, node=rng.choice(nodes), events=rng.choice((1, 1, 2)), size=8))
    return publishes


def _steady_traffic(nodes: list[int], start: int, end: int, per_round: float) -> list[Publish]:
    """Return publications by everybody in turn, at different times."""
    step = int(TICKET_ROUND_NS / per_round / len(nodes))
    return [Publish(at_ns=at, node=nodes[number % len(nodes)]) for number, at in enumerate(range(start, end, step))]


def _flush(nodes: list[int], at: int) -> list[Publish]:
    """Return one publication by everybody, so that nothing old is pending in the liveness phase."""
    return [Publish(at_ns=at + pid * MS, node=pid) for pid in nodes]
