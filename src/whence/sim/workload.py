"""Scenarios for people: so many members, so many events, some trouble. What `simulate` and the demo run."""

import tomllib
from math import ceil, log2
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import structs

from whence.core.levels.gossip.level import settings_from
from whence.errors import UsageError
from whence.sim import clusters, forest, merging
from whence.sim.load import Load
from whence.sim.network import NetworkModel
from whence.sim.scenario import SECOND_NS, Clocks, Fault, Publish, Scenario
from whence.sim.streams import Streams
from whence.sim.swarm.weather import draw_faults, draw_network

EVENTS_PER_ROUND = 1
"""Of the whole group, so that buffers of the default size suffice for a group of any size."""

SETTLE_ROUNDS = 40
"""From healing until members that lost each other have met again."""

NODES_MAX = 30_000
EVENTS_MAX = 10_000_000
REACH_MIN = 0.99
"""Gossip promises with high probability; what a run of many members is held to."""


USUAL = Load()


class Trouble(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of faults: what goes wrong, and how the network and the clocks are."""

    faults: list[Fault] = []
    network: NetworkModel = NetworkModel()
    clocks: Clocks = Clocks()


def simulation(
    level: str,
    nodes: int,
    events: int,
    seed: int,
    faults: str = "none",
    settings: dict[str, Any] | None = None,
    load: Load = USUAL,
) -> Scenario:
    """Make a scenario: two thirds of the events in times of trouble, then healing, then the rest.

    `faults` is none, swarm (drawn from the seed) or the name of a TOML or JSON file. Without faults all is one calm
    phase. Raises UsageError for what cannot be.
    """
    return load.applied_to(_scenario(level, nodes, events, seed, faults, settings or {}, load))


def _scenario(
    level: str, nodes: int, events: int, seed: int, faults: str, settings: dict[str, Any], load: Load
) -> Scenario:
    _check_between("nodes", nodes, 2, NODES_MAX)
    _check_between("events", events, 1, EVENTS_MAX)
    if level in forest.LEVELS:
        return _on_a_tree(level, nodes, events, seed, faults, settings, load)
    if level == "optimistic":
        return _clustered(nodes, events, seed, faults, settings, load)
    if level == "total":
        return _merged(nodes, events, seed, faults, settings, load)
    chosen = {"rounds": rounds_for(nodes)} | settings
    values = settings_from(chosen)
    round_ns = values.gossip.round_ns
    dice = Streams(seed).of("workload")
    spacing = load.spacing_ns(round_ns // EVENTS_PER_ROUND)
    troubled = 0 if faults == "none" else events * 2 // 3
    heal_at = troubled * spacing
    live_from = heal_at + SETTLE_ROUNDS * round_ns if troubled else 0
    live_until = live_from + (events - troubled) * spacing
    wait = (values.gossip.rounds + values.fifo.hold_rounds + 4) * round_ns
    trouble = _trouble(faults, nodes, heal_at, dice)
    return Scenario(
        level=level, seed=seed, nodes=nodes, settings=chosen,
        network=trouble.network, clocks=trouble.clocks, faults=trouble.faults,
        publishes=_even(nodes, troubled, 0, spacing, dice) + _even(nodes, events - troubled, live_from, spacing, dice),
        heal_at_ns=heal_at, live_from_ns=live_from, live_until_ns=live_until, deadline_ns=wait,
        end_at_ns=live_until + wait, reach_min=REACH_MIN,
    )  # fmt: skip


def _on_a_tree(
    level: str, nodes: int, events: int, seed: int, faults: str, settings: dict[str, Any], load: Load
) -> Scenario:
    trouble = None if faults in ("none", "swarm") else read_trouble(faults)
    scenario = forest.simulation(level, nodes, events, seed, faults, settings, trouble, load)
    if trouble is not None:
        check_trouble(faults, trouble, nodes, scenario.heal_at_ns)
    return scenario


def _clustered(nodes: int, events: int, seed: int, faults: str, settings: dict[str, Any], load: Load) -> Scenario:
    trouble = None if faults in ("none", "swarm") else read_trouble(faults)
    chosen = {"rounds": rounds_for(nodes)} | settings
    scenario = clusters.simulation(nodes, events, seed, faults, chosen, trouble, load)
    if trouble is not None:
        check_trouble(faults, trouble, nodes, scenario.heal_at_ns)
    return scenario


def _merged(nodes: int, events: int, seed: int, faults: str, settings: dict[str, Any], load: Load) -> Scenario:
    trouble = None if faults in ("none", "swarm") else read_trouble(faults)
    scenario = merging.simulation(nodes, events, seed, faults, settings, trouble, load)
    if trouble is not None:
        check_trouble(faults, trouble, nodes, scenario.heal_at_ns)
    return scenario


def rounds_for(nodes: int) -> int:
    """Return how many rounds a bundle should live so that nearly every one of the members gets it."""
    return max(6, ceil(1.2 * log2(nodes)) - 2)


def read_trouble(file: str) -> Trouble:
    """Read a file of faults, TOML or JSON by its ending. Raises UsageError that names the file and what is wrong."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else msgspec.json.decode(text)
        return msgspec.convert(data, Trouble)
    except OSError as error:
        raise UsageError(f"--faults: cannot read {file}: {error.strerror}; give none, swarm or a file") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"--faults: {file} is no file of faults: {error}") from None


def check_trouble(file: str, trouble: Trouble, nodes: int, heal_at: int) -> None:
    """Check what only the whole file and the run can tell. Raises UsageError that names the file and the fault."""
    latency = trouble.network.latency
    if latency.shape == "uniform" and latency.high_ns < latency.low_ns:
        raise UsageError(f"--faults: {file}: network.latency.high_ns must not be below low_ns")
    newcomers = [pid for fault in trouble.faults if fault.kind == "join" for pid in fault.nodes]
    known = frozenset([*range(nodes), *newcomers])
    for at, fault in enumerate(trouble.faults, 1):
        wrong = _wrong_with(fault, nodes, known, heal_at)
        if wrong is not None:
            raise UsageError(f"--faults: {file}: fault {at} ({fault.kind}): {wrong}")


def _wrong_with(fault: Fault, nodes: int, known: frozenset[int], heal_at: int) -> str | None:
    """Say what would keep a fault from doing what it says, or None."""
    strangers = [pid for pid in (*fault.nodes, *fault.others) if pid not in known]
    if fault.until_ns and fault.until_ns <= fault.at_ns:
        return "until_ns must be later than at_ns"
    if fault.at_ns >= heal_at:
        return f"at_ns must be before the run heals, at {heal_at:,}; more events make it heal later"
    if strangers:
        return f"nobody is numbered {strangers[0]}; founders are 0 to {nodes - 1}, others must join"
    if fault.kind == "join" and any(pid < nodes for pid in fault.nodes):
        return f"nodes that join are numbered from {nodes} on, after the founders"
    if not fault.nodes and fault.kind != "burst":
        return "nodes must name some"
    if not fault.others and fault.kind == "cut":
        return "others must name those who do not hear the nodes"
    if not 0 < fault.amount <= 1 and fault.kind == "burst":
        return "amount is the part of copies that are lost, above 0 and at most 1"
    if fault.amount < 1 and fault.kind == "slow":
        return "amount is how many times slower, at least 1"
    return None


def _trouble(faults: str, nodes: int, end: int, dice: Random) -> Trouble:
    if faults == "none":
        return Trouble()
    if faults == "swarm":
        return Trouble(
            draw_faults(nodes, max(1, end), dice), draw_network(dice), Clocks(offset_ns=SECOND_NS, drift_ppm=200)
        )
    trouble = read_trouble(faults)
    check_trouble(faults, trouble, nodes, end)
    return trouble


def _even(nodes: int, events: int, start: int, spacing: int, dice: Random) -> list[Publish]:
    """Spread events evenly over time, each by a member drawn at random."""
    return [
        Publish(at_ns=start + at * spacing + int(dice.random() * spacing), node=int(dice.random() * nodes))
        for at in range(events)
    ]


def _check_between(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageError(f"--{name} must be from {least:,} to {most:,}, not {value:,}")


def churning(level: str, nodes: int, events: int, seed: int) -> Scenario:
    """Make the demo's scenario: a group that people come to and go from, on a network that loses and delays.

    Some crash and come back, some leave, some join, a fifth of the group is cut off for a while, a few stall.
    """
    calm = simulation(level, nodes, events, seed)
    round_ns = settings_from(calm.settings).gossip.round_ns
    dice = Streams(seed).of("churn")
    heal_at = events * 2 // 3 * round_ns
    live_from = heal_at + SETTLE_ROUNDS * round_ns
    shift = SETTLE_ROUNDS * round_ns
    publishes = [
        publish if publish.at_ns < heal_at else structs.replace(publish, at_ns=publish.at_ns + shift)
        for publish in calm.publishes
    ]
    some = dice.sample(range(nodes), nodes)
    tenth = max(1, nodes // 10)
    crashing, leaving, stalling, cut_off = (some[at * tenth : (at + 1) * tenth] for at in range(4))

    def sometime() -> int:
        return int((0.1 + 0.6 * dice.random()) * heal_at)

    faults = [
        Fault(kind="crash", at_ns=(at := sometime()), until_ns=at + heal_at // 5, nodes=[pid], between_effects=True)
        for pid in crashing
    ]
    faults += [Fault(kind="leave", at_ns=sometime(), nodes=[pid]) for pid in leaving[: tenth // 2]]
    faults += [Fault(kind="join", at_ns=sometime(), nodes=[nodes + at]) for at in range(tenth)]
    faults.append(Fault(kind="pause", at_ns=heal_at // 3, until_ns=heal_at // 3 + 8 * round_ns, nodes=stalling))
    faults.append(Fault(kind="partition", at_ns=heal_at // 2, until_ns=heal_at * 3 // 4, nodes=cut_off + stalling))
    network = NetworkModel(loss=0.03, duplicate=0.02, reorder=0.05, corrupt=0.002)
    return structs.replace(
        calm, publishes=publishes, faults=faults, network=network, clocks=Clocks(offset_ns=SECOND_NS, drift_ppm=200),
        heal_at_ns=heal_at, live_from_ns=live_from,
        live_until_ns=calm.live_until_ns + shift, end_at_ns=calm.end_at_ns + shift,
    )  # fmt: skip
