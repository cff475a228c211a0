"""Processes with any numbers: a scenario speaks of nodes 0, 1, …, and a run of the processes that stand for them.

What is drawn and shrunk has no holes; only when a scenario is run do its nodes get the numbers it lists. Whatever takes
a process for its place, or a place for its process, breaks a promise in such a run.
"""

from random import Random
from typing import Any

from msgspec import structs

from whence.core.levels.optimistic.member import BOOTS
from whence.limits import PEER_ID_MAX
from whence.sim.scenario import Act, Scenario

OF_PROCESSES = ("suspect", "trust")
"""Acts whose argument is a process."""


def draw_numbers(nodes: int, dice: Random, largest: int = PEER_ID_MAX) -> list[int]:
    """Draw numbers for nodes: close together, far apart, or anywhere; in any order."""
    most = dice.choice((2 * nodes + 2, 300, largest))
    return dice.sample(range(most + 1), nodes)


def numbered(scenario: Scenario) -> Scenario:
    """Return a scenario whose nodes are called by the numbers of their processes."""
    numbers = scenario.numbers
    if not numbers:
        return scenario

    def named(nodes: list[int]) -> list[int]:
        return [numbers[node] for node in nodes]

    return structs.replace(
        scenario,
        settings=_settings(scenario.settings, numbers),
        faults=[
            structs.replace(fault, nodes=named(fault.nodes), others=named(fault.others)) for fault in scenario.faults
        ],
        publishes=[structs.replace(publish, node=numbers[publish.node]) for publish in scenario.publishes],
        reactions=[structs.replace(reaction, node=numbers[reaction.node]) for reaction in scenario.reactions],
        acts=[
            structs.replace(
                act, node=numbers[act.node],
                argument=_argument(act, numbers),
            )
            for act in scenario.acts
        ],
    )  # fmt: skip


def _argument(act: Act, numbers: list[int]) -> int:
    if act.name == "declare_dead":
        return numbers[act.argument // BOOTS] * BOOTS + act.argument % BOOTS
    return numbers[act.argument] if act.name in OF_PROCESSES else act.argument


def _settings(settings: dict[str, Any], numbers: list[int]) -> dict[str, Any]:
    if "k" in settings:
        seeds = numbers[: 2 * int(settings["k"]) + 2]
        return settings | {"seeds": ",".join(map(str, seeds))}
    if "tree" not in settings:
        return settings
    groups = str(settings.get("groups", "all"))
    if groups[:1].isdigit():
        listed = [[numbers[int(node)] for node in members.split()] for members in groups.split(";")]
        groups = ";".join(" ".join(map(str, sorted(members))) for members in listed)
    return settings | {"processes": " ".join(map(str, numbers)), "groups": groups}
