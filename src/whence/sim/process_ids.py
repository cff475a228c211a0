"""Processes with arbitrary ids: a scenario has nodes 0, 1, …, and a run has processes with the ids it lists for them.

Scenarios are drawn and shrunk without holes; their nodes get ids only when they are run. Code that mistakes a process
id for an index, or an index for an id, breaks a promise in such a run.
"""

from random import Random
from typing import Any

from msgspec import structs

from whence.core.ticket_status import dead_argument, dead_process
from whence.limits import PEER_ID_MAX
from whence.sim.scenario import Act, Scenario

PROCESS_ACTS = ("suspect", "trust")
"""Acts whose argument is a process."""


def draw_process_ids(nodes: int, rng: Random, largest: int = PEER_ID_MAX) -> list[int]:
    """Return random ids for nodes: close together, far apart, or anywhere; in any order."""
    most = rng.choice((2 * nodes + 2, 300, largest))
    return rng.sample(range(most + 1), nodes)


def with_process_ids(scenario: Scenario) -> Scenario:
    """Return a scenario whose nodes are named by the ids of their processes."""
    ids = scenario.numbers
    if not ids:
        return scenario

    def named(nodes: list[int]) -> list[int]:
        return [ids[node] for node in nodes]

    return structs.replace(
        scenario,
        settings=_settings(scenario.settings, ids),
        forgetful=named(scenario.forgetful),
        faults=[
            structs.replace(fault, nodes=named(fault.nodes), others=named(fault.others)) for fault in scenario.faults
        ],
        publishes=[structs.replace(publish, node=ids[publish.node]) for publish in scenario.publishes],
        reactions=[structs.replace(reaction, node=ids[reaction.node]) for reaction in scenario.reactions],
        acts=[
            structs.replace(
                act, node=ids[act.node],
                argument=_argument(act, ids),
            )
            for act in scenario.acts
        ],
    )  # fmt: skip


def _argument(act: Act, ids: list[int]) -> int:
    if act.name == "declare_dead":
        dead = dead_process(act.argument)
        return dead_argument(dead._replace(pid=ids[dead.pid]))
    return ids[act.argument] if act.name in PROCESS_ACTS else act.argument


def _settings(settings: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    if "k" in settings:
        nodes = (
            map(int, str(settings["seeds"]).split(",")) if "seeds" in settings else range(2 * int(settings["k"]) + 2)
        )
        return settings | {"seeds": ",".join([str(ids[node]) for node in nodes])}
    if "tree" not in settings:
        return settings
    groups = str(settings.get("groups", "all"))
    if groups[:1].isdigit():
        listed = [[ids[int(node)] for node in members.split()] for members in groups.split(";")]
        groups = ";".join(" ".join(map(str, sorted(members))) for members in listed)
    return settings | {"processes": " ".join(map(str, ids)), "groups": groups}
