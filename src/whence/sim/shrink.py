"""Shrinking: cut a scenario that breaks a promise down to a small one that still breaks it.

It leaves out faults and publications, half of them at first and then fewer; ends the run earlier, calms the network,
steadies the clocks and removes members; and repeats all that until nothing gets smaller. It accepts a smaller scenario
only if the same promise is still broken.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from whence.sim.network import NetworkModel
from whence.sim.scenario import Clocks, Scenario
from whence.sim.shrink_living import is_living, without_founder
from whence.sim.shrink_tree import is_tree, without_node

RUNS_MAX = 500
"""The most runs to spend; each takes some tens of milliseconds."""


class Shrinker:
    """Tries smaller scenarios, up to a number of runs."""

    def __init__(self, still_broken: Callable[[Scenario], bool], runs_max: int) -> None:
        self._still_broken = still_broken
        self.runs_left = runs_max

    def shrink(self, scenario: Scenario) -> Scenario:
        """Cut until a whole pass changes nothing."""
        before = None
        while scenario != before and self.runs_left:
            before = scenario
            scenario = self._first_that_breaks(scenario, _sooner(scenario))
            scenario = self._without(scenario, "faults")
            scenario = self._without(scenario, "publishes")
            scenario = self._without(scenario, "acts")
            scenario = self._without(scenario, "reactions")
            for reduce in (_calmer, _fewer_members, _single_events):
                scenario = self._until_none_breaks(scenario, reduce)
        return scenario

    def _without(self, scenario: Scenario, name: str) -> Scenario:
        """Leave out parts of a list: first halves, then ever smaller ones."""
        part = len(getattr(scenario, name))
        while part:
            start = 0
            while start < len(getattr(scenario, name)):
                things: list[Any] = getattr(scenario, name)
                smaller = structs.replace(scenario, **{name: things[:start] + things[start + part :]})
                if self._breaks(smaller):
                    scenario = smaller
                else:
                    start += part
            part //= 2
        return scenario

    def _until_none_breaks(self, scenario: Scenario, reduce: Callable[[Scenario], Iterator[Scenario]]) -> Scenario:
        while (smaller := self._first_that_breaks(scenario, reduce(scenario))) != scenario:
            scenario = smaller
        return scenario

    def _first_that_breaks(self, scenario: Scenario, candidates: Iterator[Scenario]) -> Scenario:
        return next((smaller for smaller in candidates if self._breaks(smaller)), scenario)

    def _breaks(self, scenario: Scenario) -> bool:
        if not self.runs_left:
            return False
        self.runs_left -= 1
        return self._still_broken(scenario)


def shrink(scenario: Scenario, still_broken: Callable[[Scenario], bool], runs_max: int = RUNS_MAX) -> Scenario:
    """Return the smallest scenario found for which `still_broken` holds, as it must for the one given."""
    return Shrinker(still_broken, runs_max).shrink(scenario)


def size_of(scenario: Scenario) -> int:
    """Return how much there is to understand about a scenario: members, faults and events."""
    return scenario.nodes + len(scenario.faults) + sum(publish.events for publish in scenario.publishes)


def _sooner(scenario: Scenario) -> Iterator[Scenario]:
    for part in (8, 4, 2):
        yield structs.replace(scenario, end_at_ns=scenario.end_at_ns // part)


def _calmer(scenario: Scenario) -> Iterator[Scenario]:
    network = scenario.network
    calm = NetworkModel(latency=network.latency)
    if network != calm:
        yield structs.replace(scenario, network=calm)
        for name in ("loss", "duplicate", "reorder", "replay", "corrupt", "bandwidth_bps"):
            if getattr(network, name):
                yield structs.replace(scenario, network=structs.replace(network, **{name: 0}))
    if scenario.clocks != Clocks():
        yield structs.replace(scenario, clocks=Clocks())
    if scenario.sync_ns:
        yield structs.replace(scenario, sync_ns=0)
    if scenario.numbers:
        yield structs.replace(scenario, numbers=[])
    if scenario.forgetful:
        yield structs.replace(scenario, forgetful=[])
    if scenario.take_ns:
        yield structs.replace(scenario, take_ns=0)


def _fewer_members(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario without each of its members; the others are renumbered, so that there are no gaps."""
    without = without_node if is_tree(scenario) else without_founder if is_living(scenario) else _without_member
    for gone in reversed(range(scenario.nodes if scenario.nodes > 2 else 0)):
        yield without(scenario, gone)


def _without_member(scenario: Scenario, gone: int) -> Scenario:
    def moved(nodes: list[int]) -> list[int]:
        return [node - (gone < node < scenario.nodes) for node in nodes if node != gone]

    faults = [structs.replace(fault, nodes=moved(fault.nodes), others=moved(fault.others)) for fault in scenario.faults]
    publishes = [
        structs.replace(publish, node=moved([publish.node])[0])
        for publish in scenario.publishes
        if publish.node != gone
    ]
    acts = [structs.replace(act, node=moved([act.node])[0]) for act in scenario.acts if act.node != gone]
    numbers = scenario.numbers[:gone] + scenario.numbers[gone + 1 :]
    return structs.replace(
        scenario, nodes=scenario.nodes - 1, numbers=numbers, faults=faults, publishes=publishes, acts=acts
    )


def _single_events(scenario: Scenario) -> Iterator[Scenario]:
    for at, publish in enumerate(scenario.publishes):
        if publish.events > 1:
            publishes = list(scenario.publishes)
            publishes[at] = structs.replace(publish, events=1)
            yield structs.replace(scenario, publishes=publishes)
