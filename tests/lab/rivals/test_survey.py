"""The survey's systems: what each promises, judged by the oracles under the faults that it promises to survive."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec import structs

from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.core.level import BuildContext
from whence.core.membership.full_view import Directory
from whence.core.ready import Send
from whence.errors import UsageError
from whence.sim.cluster import Cluster
from whence.sim.explore import explore, hunt, judged
from whence.sim.faults import ScenarioScheduler
from whence.sim.lab import REPAIRING, RIVALS, spec_of
from whence.sim.run import describe, run
from whence.sim.scenario import Fault
from whence.sim.scenarios import simulation
from whence.sim.swarm import draw
from whence.sim.workload import Workload
from whence.trace.memory import Trace
from whence.trace.schema import Kind
from whence.types import Process
from whence_lab.experiments.topics import of_topic, topics_of
from whence_lab.mutants import mutants_of
from whence_lab.rivals.pastry import Pastry, distance, id_of
from whence_lab.rivals.vcube import cluster

SURVEY = ("vcube", "scribe", "gryphon", "plumtree", "thicket")
BUGS = [(level, bug) for level in RIVALS for bug in mutants_of(level)]


@pytest.mark.no_cover
@pytest.mark.parametrize("level", ["neighbourhood", *SURVEY])
def test_no_schedule_of_the_faults_it_survives_breaks_a_promise(level: str, long_mode: bool) -> None:
    total = explore(level, 1_000 if long_mode else 30, seed=1, workers=1)
    assert total.broken is None
    assert total.unknown == 0
    if level in REPAIRING:
        assert total.effective["crash_lost"]
        assert total.effective["restart"]


@pytest.mark.no_cover
@pytest.mark.parametrize(("level", "bug"), BUGS, ids=[bug.name for _, bug in BUGS])
def test_a_planted_bug_of_a_rival_is_caught_by_the_promise_it_breaks(level: str, bug: Any) -> None:
    caught = hunt(level, bug.name, bug.law, 1, 120)
    assert caught.caught
    assert caught.seed is not None
    assert all(verdict.outcome is not Outcome.BROKEN for verdict in judged(draw(level, caught.seed))[1])


@pytest.mark.parametrize("level", SURVEY)
def test_everybody_gets_everything_once_where_nothing_goes_wrong(level: str) -> None:
    trace = run(simulation(level, 32, 20, 5)).trace
    assert all(verdict.holds for verdict in judge(trace))
    assert len(trace.rows[Kind.DELIVER]) == 32 * 20


@pytest.mark.parametrize("level", REPAIRING)
def test_simulations_with_crashes_hold_what_the_level_promises(level: str) -> None:
    outcome, verdicts = judged(simulation(level, 21, 60, 2, "swarm"))
    assert outcome.effective["restart"]
    assert all(verdict.holds for verdict in verdicts)


def test_a_level_that_survives_no_crash_refuses_faults() -> None:
    with pytest.raises(UsageError, match="survives no faults"):
        simulation("vcube", 8, 10, 1, "swarm")


# --- VCube-PS ---


def test_the_clusters_of_a_node_are_all_others_each_once() -> None:
    for node in (0, 5, 15):
        found = [other for dimension in range(1, 5) for other in cluster(node, dimension)]
        assert sorted([node, *found]) == list(range(16))


def test_a_message_costs_one_copy_and_one_acknowledgement_per_subscriber() -> None:
    trace = run(simulation("vcube", 16, 10, 3, settings={"groups": "0 1 2 3 9"})).trace
    receivers = sum(5 - (row[0] in (0, 1, 2, 3, 9)) for row in trace.rows[Kind.PUBLISH])
    assert len(trace.rows[Kind.SEND]) == 2 * receivers


@pytest.mark.parametrize("seed", range(1, 6))
def test_topics_are_in_causal_order_each_by_itself(seed: int) -> None:
    scenario = draw("cbcast", seed)
    trace = run(structs.replace(scenario, level="vcube")).trace
    for members in topics_of(trace):
        verdicts = judge(of_topic(trace, members), ["integrity", "no_duplicates", "fifo", "causal"])
        assert not [verdict for verdict in verdicts if verdict.outcome in (Outcome.BROKEN, Outcome.UNKNOWN)]


# --- Scribe ---


def test_pastry_routes_every_key_to_the_nearest_node_from_anywhere() -> None:
    everybody = range(200)
    nodes = [Pastry(process, everybody, 8, 1) for process in everybody]
    for topic in range(20):
        key = id_of(f"topic {topic}")
        nearest = min(everybody, key=lambda process: distance(id_of(f"node {process}"), key))
        for start in (3, 77, 199):
            at, hops = start, 0
            while (following := nodes[at].next_hop(key, 0)) is not None:
                at, hops = following, hops + 1
            assert at == nearest
            assert hops <= 5


def test_pastry_goes_around_nodes_that_are_gone_and_asks_leaves_for_others() -> None:
    everybody = range(100)
    key = id_of("topic 1")
    nearest = sorted(everybody, key=lambda process: distance(id_of(f"node {process}"), key))
    second = Pastry(nearest[1], everybody, 8, 10)
    assert second.next_hop(key, 0) == nearest[0]
    assert second.gone(nearest[0], 0)
    assert second.next_hop(key, 0) is None
    assert second.next_hop(key, 11) == nearest[0]


def test_another_root_takes_over_with_the_children_of_the_one_that_crashed() -> None:
    calm = simulation("scribe", 30, 40, 4)
    root = min(range(30), key=lambda process: distance(id_of(f"node {process}"), id_of("topic 0")))
    publishes = [structs.replace(publish, node=(root + 1) % 30) for publish in calm.publishes]
    crash = Fault(kind="crash", at_ns=calm.publishes[10].at_ns, nodes=[root], lasting=True)
    trace = run(structs.replace(calm, publishes=publishes, faults=[crash])).trace
    last = max(row[8] for row in trace.rows[Kind.PUBLISH])
    assert sum(row[8] == last for row in trace.rows[Kind.DELIVER]) == 29


# --- Gryphon ---


def test_where_nobody_wants_a_message_silence_stands_for_it() -> None:
    """Two topics at the two ends of the tree: a message is sent to one side alone, and FIFO holds on both."""
    trace = run(simulation("gryphon", 16, 30, 1, settings={"groups": "0 1 2 3;12 13 14 15"})).trace
    assert all(verdict.holds for verdict in judge(trace))
    copies = [row for row in trace.rows[Kind.SEND] if row[-1]]
    assert len(copies) < 30 * 15 / 2


def test_a_subscription_begins_with_the_first_message_that_names_it_and_has_no_gap_from_there() -> None:
    """Node 5 subscribes to topic 1 while node 0 publishes to it all the time."""
    member = GryphonNet(8, "0 1 2 3;0 1")
    for number in range(12):
        if number == 4:
            member.act(5, "subscribe", 1)
        member.publish(0, 1, number)
        member.settle(3 if number % 2 else 0)
    member.settle(50)
    assert member.delivered[1] == list(range(12))
    got = member.delivered[5]
    assert got
    assert got == list(range(got[0], 12))
    member.act(5, "unsubscribe", 1)
    member.settle(20)
    member.publish(0, 1, 99)
    member.settle(50)
    assert member.delivered[5] == got
    assert member.delivered[1][-1] == 99
    with pytest.raises(UsageError, match="no act"):
        member.act(5, "subscribe", 7)


class GryphonNet:
    """Brokers of Gryphon in one hand: copies wait until they are let through."""

    def __init__(self, nodes: int, groups: str) -> None:
        spec: Any = spec_of("gryphon")
        settings = spec.settings_from({"tree": "binary", "tree_nodes": nodes, "groups": groups})
        self.now = 0
        self.who = [Process(node, 1) for node in range(nodes)]
        self.members = [spec.build(each, settings, BuildContext(Random(1).random, 0, Directory())) for each in self.who]
        self.flying: list[tuple[int, int, Any]] = []
        self.delivered: dict[int, list[int]] = {node: [] for node in range(nodes)}
        for node, each in enumerate(self.members):
            self.apply(node, each.found([], 0))

    def publish(self, node: int, group: int, number: int) -> None:
        self.apply(node, self.members[node].publish_to(group, [bytes([number])], self.now)[1])

    def act(self, node: int, name: str, argument: int) -> None:
        self.apply(node, self.members[node].act(name, argument, self.now))

    def apply(self, node: int, ready: Any) -> None:
        self.delivered[node] += [step.bundle.body[0] for step in ready.deliver]
        for send in ready.send:
            assert isinstance(send, Send)
            self.flying += [(node, target, send.item) for target in send.to]

    def settle(self, rounds: int) -> None:
        for _ in range(rounds):
            for source, target, item in [self.flying.pop(0) for _ in range(len(self.flying))]:
                self.apply(target, self.members[target].receive(self.who[source], item, self.now))
            self.now += 50_000_000
            for node, member in enumerate(self.members):
                self.apply(node, member.tick(self.now))


# --- HyParView, Plumtree, Thicket ---


def test_links_of_hyparview_go_both_ways_and_connect_everybody() -> None:
    overlay = members_after(simulation("plumtree", 60, 5, 3))
    active = {pid: set(member._overlay.active) for pid, member in overlay.items()}
    assert all(pid in active[peer] for pid, peers in active.items() for peer in peers)
    assert all(2 <= len(peers) <= 5 for peers in active.values())
    found, edge = {0}, [0]
    for pid in edge:
        edge += [peer for peer in sorted(active[pid]) if peer not in found]
        found |= active[pid]
    assert found == set(range(60))


def test_plumtree_sends_a_payload_once_to_each_member_when_its_tree_has_grown() -> None:
    """The tree is that of the first publisher: later messages of the same one bring no second copy."""
    calm = simulation("plumtree", 40, 30, 2, workload=Workload(rate=4))
    trace = run(structs.replace(calm, publishes=[structs.replace(each, node=7) for each in calm.publishes])).trace
    half = calm.publishes[15].at_ns
    copies = sum(row[4] >= half and row[-1] > 0 for row in trace.rows[Kind.SEND])
    events = sum(row[4] >= half for row in trace.rows[Kind.PUBLISH])
    assert copies == 39 * events


def test_thicket_spreads_the_load_of_forwarding() -> None:
    """Members that forward in two trees or more are few, and the busiest does less than in one tree."""
    calm = simulation("thicket", 32, 40, 2, settings={"active_view": 8})
    members = members_after(calm)
    loads = Counter(member.load for member in members.values())
    assert loads[0] + loads[1] + loads[2] > 0.9 * len(members)

    def busiest(level: str) -> int:
        trace = run(structs.replace(calm, level=level)).trace
        return max(Counter(row[0] for row in trace.rows[Kind.SEND] if row[-1] > 0).values())

    assert busiest("thicket") < busiest("plumtree")


def members_after(scenario: Any) -> dict[int, Any]:
    """Run a scenario and return its members."""
    spec = spec_of(scenario.level)
    cluster = Cluster(scenario, spec, Trace(describe(scenario, spec)).rows)
    cluster.start()
    ScenarioScheduler(cluster, scenario).plan()
    cluster.loop.run(scenario.end_at_ns)
    return {pid: process.member for pid, process in cluster.processes.items()}
