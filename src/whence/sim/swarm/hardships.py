"""Hardships of clusters that chance does not meet: each is a plan of its own, drawn once in some schedules.

unheard: an applicant hears everybody but the coordinators, also after all else is healed; a healthy core keeps its
tickets. stopped: all processes, or all but one that witnessed nothing, stop at once and come back with their journals,
and an operator says which lives are over. words: more witnesses end at once than are planned for, for good, and an
operator says so. unanswered: the only coordinator's answers to the only applicant are lost for a while. handover: an
owner's last events reach everybody but the one who has its ticket next.
"""

from collections.abc import Callable
from random import Random

from msgspec import structs

from whence.core.levels.optimistic.member import named
from whence.sim.network import NetworkModel
from whence.sim.scenario import Act, Fault, Publish, Scenario
from whence.sim.swarm.weather import MS
from whence.types import Process


def unheard(scenario: Scenario, round_ns: int, dice: Random) -> Scenario:
    """Let one or two coordinators, who are no seeds, not be heard by somebody who asks for a ticket."""
    seeds = 2 * scenario.settings["k"] + 2
    nodes = max(scenario.nodes, seeds + 3)
    core = list(range(seeds, seeds + dice.choice((1, 1, 2))))
    deaf = dice.choice([pid for pid in range(nodes) if pid not in core])
    acts = [Act(at_ns=MS + at * 2 * round_ns, node=pid, name="cjoin") for at, pid in enumerate(core)]
    at = dice.randrange(5 * round_ns, 8 * round_ns)
    live_from = dice.randrange(14 * round_ns, 18 * round_ns)
    live_until = live_from + 14 * round_ns
    acts += [Act(at_ns=at + 1, node=deaf, name="cjoin"), Act(at_ns=live_until, node=deaf, name="cleave")]
    lasts = Fault(kind="cut", at_ns=at, until_ns=live_until, nodes=core, others=[deaf], lasting=True)
    calls = [
        Publish(at_ns=now + number * MS, node=pid)
        for number, pid in enumerate(core)
        for now in range(4 * round_ns, live_until, round_ns)
    ]
    return _phased(
        structs.replace(scenario, nodes=nodes, faults=[lasts], acts=acts, publishes=calls),
        at - 1, live_from, live_until, 8 * round_ns, round_ns,
    )  # fmt: skip


def stopped(scenario: Scenario, round_ns: int, dice: Random) -> Scenario:
    """Let everybody stop, an operator say so, and some ask for tickets again."""
    seeds = 2 * scenario.settings["k"] + 2
    nodes = max(scenario.nodes, seeds + 2)
    gone = list(range(nodes - dice.choice((0, 0, 1))))
    wanting = dice.sample(gone, dice.randint(2, len(gone)))
    at = dice.randrange(7 * round_ns, 10 * round_ns)
    back = at + dice.randrange(MS, round_ns)
    again = back + 14 * round_ns
    acts = [Act(at_ns=MS + dice.randrange(4 * round_ns), node=pid, name="cjoin") for pid in wanting]
    acts += [Act(at_ns=again + dice.randrange(4 * round_ns), node=pid, name="cjoin") for pid in wanting[:3]]
    acts += _words(gone, range(nodes), again + 10 * round_ns)
    live_from = again + 36 * round_ns
    live_until = live_from + 2 * round_ns
    falls = Fault(kind="crash", at_ns=at, until_ns=back, nodes=gone)
    calls = _calls(nodes, 2 * round_ns, live_until, round_ns)
    return _phased(
        structs.replace(scenario, nodes=nodes, faults=[falls], acts=acts, publishes=calls),
        back + 1, live_from, live_until, scenario.deadline_ns, round_ns,
    )  # fmt: skip


def words(scenario: Scenario, round_ns: int, dice: Random) -> Scenario:
    """Let a coordinator and most of its witnesses end for good, and everybody be told."""
    nodes = max(scenario.nodes, 8)
    wanting = dice.sample(range(nodes), 5)
    at = dice.randrange(14 * round_ns, 17 * round_ns)
    gone = dice.sample(range(nodes), scenario.settings["k"] + 2)
    acts = [Act(at_ns=MS + number * 2 * round_ns, node=pid, name="cjoin") for number, pid in enumerate(wanting)]
    told_at = at + dice.randrange(10 * round_ns, 14 * round_ns)
    acts += _words(gone, [pid for pid in range(nodes) if pid not in gone], told_at)
    acts += [Act(at_ns=told_at + 12 * round_ns + pid, node=pid, name="cjoin") for pid in range(nodes)]
    live_from = told_at + 40 * round_ns
    live_until = live_from + 2 * round_ns
    falls = Fault(kind="crash", at_ns=at, nodes=gone)
    calls = _calls(nodes, 2 * round_ns, live_until, round_ns)
    return _phased(
        structs.replace(scenario, nodes=nodes, faults=[falls], acts=acts, publishes=calls, network=NetworkModel()),
        at + 1, live_from, live_until, scenario.deadline_ns, round_ns,
    )  # fmt: skip


def unanswered(scenario: Scenario, round_ns: int, dice: Random) -> Scenario:
    """Let somebody ask the only coordinator, and hear nothing from it for about as long as a grant takes."""
    core, asker = dice.sample(range(scenario.nodes), 2)
    at = dice.randrange(6 * round_ns, 8 * round_ns)
    hears = at + dice.randrange(round_ns // 8, 5 * round_ns // 2)
    live_from = hears + 12 * round_ns
    live_until = live_from + 6 * round_ns
    acts = [Act(at_ns=MS, node=core, name="cjoin"), Act(at_ns=at, node=asker, name="cjoin")]
    deaf = Fault(kind="cut", at_ns=at, until_ns=hears, nodes=[core], others=[asker])
    calls = _calls(scenario.nodes, 2 * round_ns, live_until, round_ns)
    drawn = structs.replace(scenario, faults=[deaf], acts=acts, publishes=calls)
    return _phased(drawn, hears, live_from, live_until, scenario.deadline_ns, round_ns)


def handover(scenario: Scenario, round_ns: int, dice: Random) -> Scenario:
    """Let an owner publish while one hears nothing, and then give its ticket to that one."""
    owner, keeper, heir = dice.sample(range(scenario.nodes), 3)
    live_from = dice.randrange(14 * round_ns, 18 * round_ns)
    until = live_from + dice.randrange(2 * round_ns, 3 * round_ns)  # by then nobody gossips of them any more
    goes = until + dice.randrange(2 * round_ns)
    acts = [
        Act(at_ns=MS, node=keeper, name="cjoin"), Act(at_ns=3 * round_ns, node=owner, name="cjoin"),
        Act(at_ns=goes, node=owner, name="cleave"),
        Act(at_ns=goes + dice.randrange(round_ns, 3 * round_ns), node=heir, name="cjoin"),
    ]  # fmt: skip
    others = [pid for pid in range(scenario.nodes) if pid != heir]
    deaf = Fault(kind="cut", at_ns=live_from, until_ns=until, nodes=others, others=[heir], lasting=True)
    spoken = [dice.randrange(live_from, live_from + round_ns // 2) for _ in range(dice.randint(1, 4))]
    last = [Publish(at_ns=at, node=owner) for at in spoken]
    live_until = goes + 14 * round_ns
    first = [Publish(at_ns=at, node=heir) for at in range(until, live_until, round_ns)]
    settings = scenario.settings | {"tickets": 2, "recovery_bundles": 64, "held_bundles_max": 64}
    drawn = structs.replace(scenario, faults=[deaf], acts=acts, publishes=[*last, *first], settings=settings)
    return _phased(drawn, round_ns, live_from, live_until, 20 * round_ns, round_ns)


HARDSHIPS: dict[str, Callable[[Scenario, int, Random], Scenario]] = {
    "unheard": unheard, "stopped": stopped, "words": words, "unanswered": unanswered,
    "handover": handover,
}  # fmt: skip


def _words(gone: list[int], listeners: "list[int] | range", at: int) -> list[Act]:
    """Let an operator tell everybody, and once more those who could not take it then, which first lives are over."""
    return [
        Act(at_ns=at + later + number, node=node, name="declare_dead", argument=named(Process(pid, 1)))
        for later in (0, 2000 * MS)
        for number, pid in enumerate(gone)
        for node in listeners
    ]


def _calls(nodes: int, start: int, end: int, round_ns: int) -> list[Publish]:
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
