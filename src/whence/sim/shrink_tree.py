"""Shrinking scenarios on a tree: removing one node closes the tree over the gap and renumbers the rest.

The children of the removed node become children of its parent; those of the root, of its first child. A group that
loses its last member is removed with all its publications.
"""

from msgspec import structs

from whence.sim.scenario import Scenario


def is_tree(scenario: Scenario) -> bool:
    """Return whether a scenario lists the parents of its nodes."""
    return str(scenario.settings.get("tree", ""))[:1].isdigit()


def without_node(scenario: Scenario, gone: int) -> Scenario:
    """Return the scenario without a node; the nodes after it are renumbered, so that there are no gaps."""

    def moved(nodes: list[int]) -> list[int]:
        return [node - (node > gone) for node in nodes if node != gone]

    parents = [-1, *map(int, scenario.settings["tree"].split(","))]
    heir = parents[gone] if gone else 1
    rest = [heir if parent == gone else parent for parent in parents]
    del rest[gone]
    tree = ",".join(str(parent - (parent > gone)) for parent in rest[1:])
    everybody = " ".join(map(str, range(scenario.nodes)))
    named = scenario.settings["groups"].replace("all", everybody)
    groups = [moved([int(node) for node in members.split()]) for members in named.split(";")]
    number = {group: place for place, group in enumerate([at for at, members in enumerate(groups) if members])}
    listed = ";".join(" ".join(map(str, members)) for members in groups if members)
    return structs.replace(
        scenario,
        nodes=scenario.nodes - 1,
        numbers=scenario.numbers[:gone] + scenario.numbers[gone + 1 :],
        settings=scenario.settings | {"tree": tree, "groups": listed or "0"},
        faults=[
            structs.replace(fault, nodes=moved(fault.nodes), others=moved(fault.others)) for fault in scenario.faults
        ],
        publishes=[
            structs.replace(publish, node=moved([publish.node])[0], group=number[publish.group or 0])
            for publish in scenario.publishes
            if publish.node != gone and (publish.group or 0) in number
        ],
        reactions=[
            structs.replace(reaction, node=moved([reaction.node])[0], group=number[reaction.group])
            for reaction in scenario.reactions
            if reaction.node != gone and reaction.group in number
        ],
        acts=[
            structs.replace(act, node=moved([act.node])[0], argument=moved([act.argument])[0])
            for act in scenario.acts
            if gone not in (act.node, act.argument)
        ],
    )
