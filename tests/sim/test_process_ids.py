"""Scenarios whose processes have arbitrary ids: what is drawn without holes runs under the ids it lists."""

from msgspec import structs

from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.limits import PEER_ID_MAX
from whence.sim.process_ids import with_process_ids
from whence.sim.run import run
from whence.sim.scenario import Act, Fault, Publish, Reaction, Scenario
from whence.sim.shrink import _fewer_members
from whence.sim.swarm import draw
from whence.trace.schema import Kind

MS = 1_000_000
NUMBERS = [900, 5, PEER_ID_MAX, 41]


def scenario(level: str, **settings: object) -> Scenario:
    return Scenario(
        level=level, seed=3, nodes=4, numbers=NUMBERS, settings={"tree": "0,0,1", "groups": "0 1 2 3;1 3", **settings},
        publishes=[Publish(at_ns=at * 50 * MS, node=at % 4, group=at % 2) for at in range(1, 9)],
        reactions=[Reaction(node=3, group=0, times=2)], end_at_ns=8_000 * MS,
    )  # fmt: skip


def test_nodes_get_the_numbers_of_their_processes_wherever_a_scenario_names_them() -> None:
    plain = structs.replace(
        scenario("causal"),
        faults=[Fault(kind="cut", at_ns=1, nodes=[0], others=[2])],
        acts=[Act(at_ns=1, node=1, name="suspect", argument=3), Act(at_ns=1, node=1, name="corrupt_state", argument=3)],
    )
    named = with_process_ids(plain)
    assert (named.faults[0].nodes, named.faults[0].others) == ([900], [PEER_ID_MAX])
    assert [(act.node, act.argument) for act in named.acts] == [(5, 41), (5, 3)]
    assert [publish.node for publish in named.publishes[:4]] == [5, PEER_ID_MAX, 41, 900]
    assert named.reactions[0].node == 41
    assert named.settings["processes"] == f"900 5 {PEER_ID_MAX} 41"
    assert named.settings["groups"] == f"5 41 900 {PEER_ID_MAX};5 41"
    assert with_process_ids(structs.replace(plain, numbers=[])) == structs.replace(plain, numbers=[])


def test_every_level_on_a_tree_keeps_its_promises_under_any_numbers() -> None:
    for level, settings in (
        ("causal", {}), ("causal", {"identity": "paper"}), ("causal", {"f": 2}), ("cbcast", {}), ("barriers", {}),
        ("neighbourhood", {}),
    ):  # fmt: skip
        trace = run(scenario(level, **settings)).trace
        assert [verdict.promise for verdict in judge(trace) if verdict.outcome is Outcome.BROKEN] == []
        assert {row[0] for row in trace.rows[Kind.DELIVER]} == {*NUMBERS}, level
        assert trace.run.nodes == NUMBERS


def test_who_is_left_keeps_its_number_when_a_scenario_shrinks() -> None:
    smaller = [each.numbers for each in _fewer_members(scenario("causal"))]
    assert smaller == [NUMBERS[:gone] + NUMBERS[gone + 1 :] for gone in (3, 2, 1, 0)]
    direct = structs.replace(scenario("causal", spread="direct", groups="all"), publishes=[], reactions=[])
    assert [each.settings["groups"] for each in _fewer_members(direct)] == ["0 1 2"] * 4


def test_the_swarm_draws_numbers_from_anywhere_and_the_timers_of_live_groups() -> None:
    drawn = [draw("causal", seed) for seed in range(60)]
    assert any(each.numbers and max(each.numbers) > 300 for each in drawn)
    assert any(not each.numbers for each in drawn)
    assert {"live" in each.shape for each in drawn} == {True, False}
    assert any(draw("cbcast", seed).numbers for seed in range(10))
