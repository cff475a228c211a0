"""Shrinking scenarios of groups on views: removing a founder renumbers the others, also where acts name them.

Newcomers keep their numbers: they are removed by leaving out the fault that lets them join.
"""

from collections.abc import Callable

from msgspec import structs

from whence.sim.scenario import Act, Scenario


def is_living(scenario: Scenario) -> bool:
    """Return whether the members of a scenario come and go by views."""
    return scenario.settings.get("membership") == "living"


def without_founder(scenario: Scenario, gone: int) -> Scenario:
    """Return the scenario without a founder; the founders after it are renumbered, so that there are no gaps."""

    def moved(nodes: list[int]) -> list[int]:
        return [node - (gone < node < scenario.nodes) for node in nodes if node != gone]

    settings = dict(scenario.settings)
    if "processes" in settings:
        settings["processes"] = " ".join(map(str, range(scenario.nodes - 1)))
    return structs.replace(
        scenario,
        nodes=scenario.nodes - 1,
        settings=settings,
        forgetful=moved(scenario.forgetful),
        faults=[
            structs.replace(fault, nodes=moved(fault.nodes), others=moved(fault.others)) for fault in scenario.faults
        ],
        publishes=[
            structs.replace(each, node=moved([each.node])[0]) for each in scenario.publishes if each.node != gone
        ],
        reactions=[
            structs.replace(each, node=moved([each.node])[0]) for each in scenario.reactions if each.node != gone
        ],
        acts=[
            _moved_act(act, moved)
            for act in scenario.acts
            if gone != act.node and (act.name == "force" or gone != act.argument)
        ],
    )


def _moved_act(act: Act, moved: Callable[[list[int]], list[int]]) -> Act:
    """Return an act of renumbered nodes; `force` names its survivors by bits."""
    if act.name != "force":
        return structs.replace(act, node=moved([act.node])[0], argument=moved([act.argument])[0])
    survivors = moved([pid for pid in range(act.argument.bit_length()) if act.argument >> pid & 1])
    return structs.replace(act, node=moved([act.node])[0], argument=sum(1 << pid for pid in survivors))
