"""Corner cases of clusters with tickets that random draws rarely reach: each is a scenario of its own, drawn at times.

unheard: an applicant hears everybody but the coordinators, even after everything else healed; the coordinators keep
their tickets. stopped: all processes, or all but one that witnessed nothing, crash at once and come back with their
journals, and an operator declares their first incarnations dead. words: more witnesses crash for good than the cluster
tolerates, and an operator declares them dead. unanswered: the only coordinator's answers to the only applicant are lost
for a while. handover: an owner's last events reach everybody but the next owner of its ticket. returned: all processes
stop, at once or one after another, once or more often, and come back with their journals, but for as many as the
cluster may lose; no operator helps. outlived: all but the coordinators stop and come back, and an applicant among them
does not hear the coordinators, of whom one may stop too. reconfigured: all but one coordinator stop and come back with
other leases and another k, and that one is cut off, for a moment or until it stops too.
"""

from collections.abc import Callable
from random import Random

from msgspec import structs

from whence.core.ticket_status import dead_argument
from whence.sim.network import NetworkModel
from whence.sim.scenario import MS, Act, Fault, Publish, Scenario
from whence.types import Process


def unheard(scenario: Scenario, round_ns: int, rng: Random) -> Scenario:
    """Return the scenario with a cut from one or two coordinators that are not seeds to an applicant."""
    seeds = 2 * scenario.settings["k"] + 2
    nodes = max(scenario.nodes, seeds + 3)
    core = list(range(seeds, seeds + rng.choice((1, 1, 2))))
    deaf = rng.choice([pid for pid in range(nodes) if pid not in core])
    acts = [Act(at_ns=MS + at * 2 * round_ns, node=pid, name="cjoin") for at, pid in enumerate(core)]
    at = rng.randrange(5 * round_ns, 8 * round_ns)
    live_from = rng.randrange(14 * round_ns, 18 * round_ns)
    live_until = live_from + 14 * round_ns
    acts += [Act(at_ns=at + 1, node=deaf, name="cjoin"), Act(at_ns=live_until, node=deaf, name="cleave")]
    cut = Fault(kind="cut", at_ns=at, until_ns=live_until, nodes=core, others=[deaf], lasting=True)
    publishes = [
        Publish(at_ns=now + number * MS, node=pid)
        for number, pid in enumerate(core)
        for now in range(4 * round_ns, live_until, round_ns)
    ]
    return _phased(
        structs.replace(scenario, nodes=nodes, faults=[cut], acts=acts, publishes=publishes),
        at - 1, live_from, live_until, 8 * round_ns, round_ns,
    )  # fmt: skip


def stopped(scenario: Scenario, round_ns: int, rng: Random) -> Scenario:
    """Return the scenario with a crash of everybody; an operator declares them dead, and some ask for tickets again."""
    seeds = 2 * scenario.settings["k"] + 2
    nodes = max(scenario.nodes, seeds + 2)
    gone = list(range(nodes - rng.choice((0, 0, 1))))
    wanting = rng.sample(gone, rng.randint(2, len(gone)))
    at = rng.randrange(7 * round_ns, 10 * round_ns)
    back = at + rng.randrange(MS, round_ns)
    again = back + 14 * round_ns
    acts = [Act(at_ns=MS + rng.randrange(4 * round_ns), node=pid, name="cjoin") for pid in wanting]
    acts += [Act(at_ns=again + rng.randrange(4 * round_ns), node=pid, name="cjoin") for pid in wanting[:3]]
    acts += _declarations(gone, range(nodes), again + 10 * round_ns)
    live_from = again + 36 * round_ns
    live_until = live_from + 2 * round_ns
    crash = Fault(kind="crash", at_ns=at, until_ns=back, nodes=gone)
    publishes = _traffic(nodes, 2 * round_ns, live_until, round_ns)
    return _phased(
        structs.replace(scenario, nodes=nodes, faults=[crash], acts=acts, publishes=publishes),
        back + 1, live_from, live_until, scenario.deadline_ns, round_ns,
    )  # fmt: skip


def returned(scenario: Scenario, round_ns: int, rng: Random) -> Scenario:
    """Return the scenario with full stops: everybody comes back, all but a few with their journals, and asks anew."""
    nodes = max(scenario.nodes, 2 * scenario.settings["k"] + 4)
    wanting = rng.sample(range(nodes), rng.randint(2, nodes - 1))
    acts = [Act(at_ns=MS + rng.randrange(4 * round_ns), node=pid, name="cjoin") for pid in wanting]
    wiped = rng.sample(range(nodes), rng.choice((0, 0, scenario.settings["k"])))
    faults: list[Fault] = []
    end = 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = end + rng.randrange(6 * round_ns, 10 * round_ns)
        apart, away = rng.choice((0, 0, round_ns, 2 * round_ns)), rng.choice((20 * MS, round_ns, 4 * round_ns))
        torn, halfway = rng.random() < 0.5, rng.random() < 0.3
        for pid in range(nodes):
            dies = at + (rng.randrange(apart) if apart else 0)
            back = at + apart + 1 + rng.randrange(away)
            end = max(end, back)
            faults.append(
                Fault(
                    kind="crash", at_ns=dies, until_ns=back, nodes=[pid],
                    disk="wiped" if pid in wiped else "torn" if torn else "lost", between_effects=halfway,
                )
            )  # fmt: skip
            if pid in wanting:
                acts += _asking(pid, back + 1 + rng.randrange(2 * round_ns), round_ns)
        wiped = []
    if rng.random() < 0.4:
        cut_off = rng.sample(range(nodes), rng.randint(1, nodes // 2))
        faults.append(Fault(kind="partition", at_ns=rng.randrange(end), until_ns=end + round_ns, nodes=cut_off))
    end += 2 * round_ns
    live_from = end + 40 * round_ns
    live_until = live_from + 2 * round_ns
    publishes = _traffic(nodes, 2 * round_ns, live_until, round_ns)
    return _phased(
        structs.replace(scenario, nodes=nodes, faults=sorted(faults, key=lambda fault: fault.at_ns), acts=acts,
                        publishes=publishes),
        end, live_from, live_until, scenario.deadline_ns, round_ns,
    )  # fmt: skip


def outlived(scenario: Scenario, round_ns: int, rng: Random) -> Scenario:
    """Return a scenario like `unheard` in which everybody but the coordinators stops and comes back meanwhile.

    Of two coordinators the first, who let the second in, may stop as well: then only its witnesses know of the second.
    """
    drawn = unheard(scenario, round_ns, rng)
    (cut,) = drawn.faults
    outliving = cut.nodes[-1:] if rng.random() < 0.6 else cut.nodes
    others = [pid for pid in range(drawn.nodes) if pid not in outliving]
    at = cut.at_ns + rng.randrange(round_ns)
    faults = [cut]
    back = at
    for pid in others:
        until = at + 1 + rng.randrange(rng.choice((20 * MS, round_ns // 2)))
        back = max(back, until)
        faults.append(Fault(kind="crash", at_ns=at, until_ns=until, nodes=[pid], disk=rng.choice(("lost", "torn"))))
    asks = _asking(cut.others[0], back + 1, round_ns)
    live_from = back + 10 * round_ns
    live_until = drawn.live_until_ns + live_from - drawn.live_from_ns
    faults[0] = structs.replace(cut, until_ns=live_until)
    acts = [act for act in drawn.acts if act.name == "cjoin" and act.node in cut.nodes] + asks
    acts.append(Act(at_ns=live_until, node=cut.others[0], name="cleave"))
    drawn = structs.replace(
        drawn, faults=faults, acts=acts, publishes=[each for each in drawn.publishes if each.at_ns < live_until]
    )
    return _phased(drawn, back + 1, live_from, live_until, drawn.deadline_ns, round_ns)


def reconfigured(scenario: Scenario, round_ns: int, rng: Random) -> Scenario:
    """Return the scenario with a full stop that a cut off coordinator outlives for a while; the others come back with
    leases of another length, and another k."""
    seeds, nodes = 6, 8
    k = rng.choice((1, 2))
    before, after = rng.choice(((10.0, 1.5), (10.0, 1.5), (2.5, 4.0)))
    changed = {"k": rng.choice((1, 2)), "lease_rounds": after}
    settings = scenario.settings | {"k": k, "lease_rounds": before, "seeds": ",".join(map(str, range(seeds)))}
    straggler, *wanting = rng.sample(range(nodes), rng.choice((2, 3, 4)))
    acts = [Act(at_ns=MS + place * 2 * round_ns, node=pid, name="cjoin") for place, pid in enumerate(wanting)]
    acts.append(Act(at_ns=MS + rng.randrange(6 * round_ns), node=straggler, name="cjoin"))
    cut_at = rng.randrange(14 * round_ns, 16 * round_ns)
    at = cut_at + rng.randrange(round_ns // 2)
    back = at + rng.randrange(MS, 20 * MS)
    others = [pid for pid in range(nodes) if pid != straggler]
    dies = at + 14 * round_ns
    heal = dies + 4 * round_ns
    heard = rng.random() < 0.3
    faults = [
        Fault(kind="partition", at_ns=cut_at, until_ns=at if heard else heal, nodes=[straggler]),
        Fault(kind="crash", at_ns=at, until_ns=back, nodes=others, settings=changed),
        Fault(kind="crash", at_ns=dies, until_ns=heal, nodes=[straggler], settings=changed),
    ]
    for pid in wanting:
        acts += _asking(pid, back + rng.randrange(1, 5 * MS), round_ns)
    live_from = heal + 40 * round_ns
    live_until = live_from + 2 * round_ns
    publishes = _traffic(nodes, 2 * round_ns, live_until, round_ns)
    return _phased(
        structs.replace(scenario, nodes=nodes, settings=settings, faults=faults, acts=acts, publishes=publishes,
                        network=NetworkModel()),
        heal, live_from, live_until, scenario.deadline_ns, round_ns,
    )  # fmt: skip


def declared_dead(scenario: Scenario, round_ns: int, rng: Random) -> Scenario:
    """Return the scenario with a coordinator and most of its witnesses crashed for good and declared dead."""
    nodes = max(scenario.nodes, 8)
    wanting = rng.sample(range(nodes), 5)
    at = rng.randrange(14 * round_ns, 17 * round_ns)
    gone = rng.sample(range(nodes), scenario.settings["k"] + 2)
    acts = [Act(at_ns=MS + number * 2 * round_ns, node=pid, name="cjoin") for number, pid in enumerate(wanting)]
    declared_at = at + rng.randrange(10 * round_ns, 14 * round_ns)
    acts += _declarations(gone, [pid for pid in range(nodes) if pid not in gone], declared_at)
    acts += [Act(at_ns=declared_at + 12 * round_ns + pid, node=pid, name="cjoin") for pid in range(nodes)]
    live_from = declared_at + 40 * round_ns
    live_until = live_from + 2 * round_ns
    crash = Fault(kind="crash", at_ns=at, nodes=gone)
    publishes = _traffic(nodes, 2 * round_ns, live_until, round_ns)
    return _phased(
        structs.replace(scenario, nodes=nodes, faults=[crash], acts=acts, publishes=publishes, network=NetworkModel()),
        at + 1, live_from, live_until, scenario.deadline_ns, round_ns,
    )  # fmt: skip


def unanswered(scenario: Scenario, round_ns: int, rng: Random) -> Scenario:
    """Return a scenario whose applicant hears nothing from the only coordinator for about as long as a grant takes."""
    core, asker = rng.sample(range(scenario.nodes), 2)
    at = rng.randrange(6 * round_ns, 8 * round_ns)
    hears = at + rng.randrange(round_ns // 8, 5 * round_ns // 2)
    live_from = hears + 12 * round_ns
    live_until = live_from + 6 * round_ns
    acts = [Act(at_ns=MS, node=core, name="cjoin"), Act(at_ns=at, node=asker, name="cjoin")]
    deaf = Fault(kind="cut", at_ns=at, until_ns=hears, nodes=[core], others=[asker])
    publishes = _traffic(scenario.nodes, 2 * round_ns, live_until, round_ns)
    drawn = structs.replace(scenario, faults=[deaf], acts=acts, publishes=publishes)
    return _phased(drawn, hears, live_from, live_until, scenario.deadline_ns, round_ns)


def handover(scenario: Scenario, round_ns: int, rng: Random) -> Scenario:
    """Return a scenario in which an owner publishes while a member is cut off; that member gets its ticket next."""
    owner, keeper, heir = rng.sample(range(scenario.nodes), 3)
    live_from = rng.randrange(14 * round_ns, 18 * round_ns)
    until = live_from + rng.randrange(2 * round_ns, 3 * round_ns)  # by then nobody gossips about them any more
    goes = until + rng.randrange(2 * round_ns)
    acts = [
        Act(at_ns=MS, node=keeper, name="cjoin"), Act(at_ns=3 * round_ns, node=owner, name="cjoin"),
        Act(at_ns=goes, node=owner, name="cleave"),
        Act(at_ns=goes + rng.randrange(round_ns, 3 * round_ns), node=heir, name="cjoin"),
    ]  # fmt: skip
    others = [pid for pid in range(scenario.nodes) if pid != heir]
    deaf = Fault(kind="cut", at_ns=live_from, until_ns=until, nodes=others, others=[heir], lasting=True)
    times = [rng.randrange(live_from, live_from + round_ns // 2) for _ in range(rng.randint(1, 4))]
    last = [Publish(at_ns=at, node=owner) for at in times]
    live_until = goes + 14 * round_ns
    first = [Publish(at_ns=at, node=heir) for at in range(until, live_until, round_ns)]
    settings = scenario.settings | {"tickets": 2, "recovery_bundles": 64, "held_bundles_max": 64}
    drawn = structs.replace(scenario, faults=[deaf], acts=acts, publishes=[*last, *first], settings=settings)
    return _phased(drawn, round_ns, live_from, live_until, 20 * round_ns, round_ns)


CORNER_CASES: dict[str, Callable[[Scenario, int, Random], Scenario]] = {
    "unheard": unheard, "stopped": stopped, "words": declared_dead, "unanswered": unanswered,
    "handover": handover, "returned": returned, "outlived": outlived, "reconfigured": reconfigured,
}  # fmt: skip


def _declarations(gone: list[int], listeners: "list[int] | range", at: int) -> list[Act]:
    """Return an operator's declarations to everybody, and again later to those that could not take them at first."""
    return [
        Act(at_ns=at + later + number, node=node, name="declare_dead", argument=dead_argument(Process(pid, 1)))
        for later in (0, 2000 * MS)
        for number, pid in enumerate(gone)
        for node in listeners
    ]


def _asking(node: int, since: int, round_ns: int) -> list[Act]:
    """Return requests for a ticket until the process is a member again, which it may not be at first."""
    return [Act(at_ns=since + at * round_ns // 4, node=node, name="cjoin") for at in (*range(8), 16, 32, 64)]


def _traffic(nodes: int, start: int, end: int, round_ns: int) -> list[Publish]:
    return [
        Publish(at_ns=at + pid * MS, node=pid)
        for at in range(start, end, round_ns // 2)
        for pid in range(nodes)
    ]  # fmt: skip


def _phased(
    scenario: Scenario, heal_at: int, live_from: int, live_until: int, deadline_ns: int, round_ns: int
) -> Scenario:
    return structs.replace(
        scenario,
        acts=sorted(scenario.acts, key=lambda act: act.at_ns),
        publishes=sorted(scenario.publishes, key=lambda publish: publish.at_ns),
        heal_at_ns=heal_at, live_from_ns=live_from, live_until_ns=live_until, deadline_ns=deadline_ns,
        rest_at_ns=live_until + deadline_ns, end_at_ns=live_until + deadline_ns + round_ns,
    )  # fmt: skip
