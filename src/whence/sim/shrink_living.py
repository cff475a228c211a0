"""Shrinking scenarios of groups on views: removing a founder renumbers the others, also where acts name them.

Newcomers keep their numbers: they are removed by leaving out the fault that lets them join.
"""

from msgspec import structs

from whence.sim.scenario import Scenario


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
            structs.replace(act, node=moved([act.node])[0], argument=moved([act.argument])[0])
            for act in scenario.acts
            if gone not in (act.node, act.argument)
        ],
    )
