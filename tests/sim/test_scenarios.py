"""Scenarios: data that survives being written down, phases in their order, draws that any seed repeats."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.core.levels.gossip.level import settings_from
from whence.core.registry import LEVELS
from whence.errors import UsageError
from whence.limits import MESH_MEMBERS_MAX
from whence.sim.fault_plan import FaultPlan, read_fault_plan
from whence.sim.network import LATENCY_SHAPES, Latency, NetworkModel
from whence.sim.run import run
from whence.sim.scenario import Clocks, Fault, Scenario
from whence.sim.scenarios import simulation, usual_nodes
from whence.sim.scenarios.gossip import churn, rounds_for
from whence.sim.summary import summarize
from whence.sim.swarm import draw
from whence.trace.memory import digest_of

LEVELS_OF_GOSSIP = ("eventual", "fifo")

times = st.integers(0, 10**12)
pids = st.lists(st.integers(0, 2**15 - 1), max_size=4)
chances = st.floats(0, 1)
faults = st.builds(
    Fault,
    kind=st.sampled_from(("crash", "pause", "cut", "partition", "slow", "burst", "clock_jump", "join", "leave")),
    at_ns=times,
    until_ns=times,
    nodes=pids,
    others=pids,
    amount=st.floats(-1e12, 1e12),
    disk=st.sampled_from(("lost", "torn", "wiped")),
    between_effects=st.booleans(),
)
plans = st.builds(
    FaultPlan,
    st.lists(faults, max_size=4),
    st.builds(
        NetworkModel,
        latency=st.builds(Latency, shape=st.sampled_from(LATENCY_SHAPES), low_ns=times, high_ns=times),
        bandwidth_bps=st.integers(0, 10**9),
        fifo_links=st.booleans(),
        loss=chances,
        duplicate=chances,
    ),
    st.builds(Clocks, offset_ns=times, drift_ppm=st.integers(0, 999_999)),
)


def toml_of(table: dict[str, Any]) -> str:
    """Write plain data as TOML: numbers, texts and lists look the same in JSON."""
    lines = []
    for name, value in table.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{key} = {_toml_value(each)}" for key, each in value.items())
            lines.append(f"{name} = {{{inner}}}")
        else:
            lines.append(f"{name} = {_toml_value(value)}")
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value)


@given(plan=plans)
def test_a_file_of_faults_reads_back_as_it_was_written_in_toml_and_json(
    tmp_path_factory: pytest.TempPathFactory, plan: FaultPlan
) -> None:
    folder = tmp_path_factory.mktemp("faults")
    plain = msgspec.to_builtins(plan)
    (folder / "faults.json").write_text(json.dumps(plain), encoding="utf-8")
    (folder / "faults.toml").write_text(toml_of(plain), encoding="utf-8")
    assert read_fault_plan(str(folder / "faults.json")) == plan
    assert read_fault_plan(str(folder / "faults.toml")) == plan


def test_a_file_of_faults_for_people(tmp_path: Path) -> None:
    file = tmp_path / "storm.toml"
    file.write_text(STORM, encoding="utf-8")
    scenario = simulation("fifo", 6, 60, 1, str(file))
    assert [fault.kind for fault in scenario.faults] == ["crash", "partition", "join"]
    assert scenario.network.loss == 0.05
    assert run(scenario).effective["crash_torn"] == 1


STORM = """
[network]
loss = 0.05

[[faults]]
kind = "crash"
at_ns = 500_000_000
until_ns = 1_500_000_000
nodes = [1]
disk = "torn"

[[faults]]
kind = "partition"
at_ns = 1_000_000_000
until_ns = 2_000_000_000
nodes = [0, 2]

[[faults]]
kind = "join"
at_ns = 100_000_000
nodes = [6]
"""

BAD_TROUBLE = {
    "no TOML": "faults = [",
    "unknown table": "weather = 1",
    "unknown kind": 'faults = [{kind = "meteor", at_ns = 1}]',
    "unknown field": 'faults = [{kind = "crash", at_ns = 1, node = [1]}]',
    "misspelled ill": "network = {los = 0.1}",
    "misspelled latency": "network = {latency = {low = 1}}",
    "misspelled clock": "clocks = {drift = 1}",
    "no time": 'faults = [{kind = "crash", nodes = [1]}]',
    "negative time": 'faults = [{kind = "crash", at_ns = -1, nodes = [1]}]',
    "end before beginning": 'faults = [{kind = "partition", at_ns = 5, until_ns = 4, nodes = [1]}]',
    "never while it lasts": 'faults = [{kind = "crash", at_ns = 90_000_000_000, nodes = [1]}]',
    "nobody": 'faults = [{kind = "crash", at_ns = 1}]',
    "stranger": 'faults = [{kind = "crash", at_ns = 1, nodes = [77]}]',
    "no peer id": 'faults = [{kind = "join", at_ns = 1, nodes = [99999]}]',
    "joins twice": 'faults = [{kind = "join", at_ns = 1, nodes = [1]}]',
    "cut from whom": 'faults = [{kind = "cut", at_ns = 1, nodes = [1]}]',
    "loses more than all": 'faults = [{kind = "burst", at_ns = 1, amount = 1.5}]',
    "slower than still": 'faults = [{kind = "slow", at_ns = 1, nodes = [1], amount = 0}]',
    "loss above one": "network = {loss = 1.1}",
    "negative latency": "network = {latency = {low_ns = -5}}",
    "latency upside down": "network = {latency = {low_ns = 5, high_ns = 4}}",
    "negative bandwidth": "network = {bandwidth_bps = -1}",
    "clocks that stand still": "clocks = {drift_ppm = 1_000_000}",
    "a text for a number": 'network = {loss = "much"}',
}


@pytest.mark.parametrize("text", BAD_TROUBLE.values(), ids=BAD_TROUBLE.keys())
def test_a_file_of_faults_that_cannot_be_is_refused_in_a_sentence_that_names_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"--faults: .*bad\.toml"):
        simulation("fifo", 6, 60, 1, str(file))


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"[" * 100_000, b"", b"[1, 2]"], ids=["no text", "deep", "", "list"]
)
def test_json_that_is_no_file_of_faults_is_refused_too(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"--faults: .*bad\.json"):
        simulation("fifo", 6, 60, 1, str(file))


@pytest.mark.parametrize("level", LEVELS_OF_GOSSIP)
def test_a_scenario_written_down_gives_the_same_run_when_it_is_read_back(level: str) -> None:
    for seed in range(5):
        scenario = draw(level, seed)
        again = msgspec.json.decode(msgspec.json.encode(scenario), type=Scenario)
        assert again == scenario
        assert digest_of(run(again).trace) == digest_of(run(scenario).trace)


# --- scenarios for people ---


def phases_are_sound(scenario: Scenario, events: int) -> None:
    """Check the order of phases, and that everything happens in the one it belongs to."""
    heal, start, stop = scenario.heal_at_ns, scenario.live_from_ns, scenario.live_until_ns
    assert 0 <= heal <= start < stop
    assert stop + scenario.deadline_ns <= scenario.end_at_ns
    assert sum(publish.events for publish in scenario.publishes) == events
    for publish in scenario.publishes:
        assert 0 <= publish.at_ns < heal or start <= publish.at_ns < stop
        assert 0 <= publish.node < scenario.nodes
    newcomers = [pid for fault in scenario.faults if fault.kind == "join" for pid in fault.nodes]
    for fault in scenario.faults:
        assert 0 <= fault.at_ns < heal
        assert fault.until_ns == 0 or fault.at_ns < fault.until_ns
        assert all(pid < scenario.nodes or pid in newcomers for pid in (*fault.nodes, *fault.others))
    assert LEVELS[scenario.level].settings_from(scenario.settings) == settings_from(scenario.settings)


@given(
    st.sampled_from(LEVELS_OF_GOSSIP),
    st.integers(2, 60),
    st.integers(3, 60),
    st.integers(0, 2**40),
    st.sampled_from(("none", "swarm")),
)
def test_a_simulation_has_its_events_and_its_faults_each_in_their_phase(
    level: str, nodes: int, events: int, seed: int, plan: str
) -> None:
    scenario = simulation(level, nodes, events, seed, plan)
    phases_are_sound(scenario, events)
    assert scenario == simulation(level, nodes, events, seed, plan)
    assert bool(scenario.heal_at_ns) == (plan != "none")


@given(st.sampled_from(LEVELS_OF_GOSSIP), st.integers(20, 200), st.integers(30, 100), st.integers(0, 2**40))
def test_the_demos_scenario_has_every_sort_of_churn_before_it_heals(
    level: str, nodes: int, events: int, seed: int
) -> None:
    scenario = churn(level, nodes, events, seed)
    phases_are_sound(scenario, events)
    kinds = Counter(fault.kind for fault in scenario.faults)
    assert {"crash", "leave", "join", "pause", "partition"} == set(kinds)
    afflicted = [pid for fault in scenario.faults if fault.kind in ("crash", "leave") for pid in fault.nodes]
    assert len(dict.fromkeys(afflicted)) == len(afflicted)


@pytest.mark.parametrize(
    ("nodes", "events", "named"),
    [(1, 9, "--nodes"), (-3, 9, "--nodes"), (30_001, 9, "--nodes"), (9, 0, "--events"), (9, 10**8, "--events")],
)
def test_groups_and_runs_of_impossible_size_are_refused(nodes: int, events: int, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        simulation("fifo", nodes, events, 1)


# --- the swarm ---


def test_a_seed_always_draws_the_same_scenario_and_another_seed_another_one() -> None:
    drawn = [msgspec.json.encode(draw("fifo", seed)) for seed in range(100)]
    assert drawn == [msgspec.json.encode(draw("fifo", seed)) for seed in range(100)]
    assert len(dict.fromkeys(drawn)) == 100


def test_levels_of_one_seed_meet_the_same_weather() -> None:
    """So that a seed that breaks one level can be tried on another."""
    for seed in range(20):
        assert structs.replace(draw("eventual", seed), level="fifo") == draw("fifo", seed)


@given(st.integers(-(2**63), 2**63))
def test_a_drawn_scenario_is_sound_and_loses_at_most_one_member_for_good(seed: int) -> None:
    scenario = draw("fifo", seed)
    heal, start, stop = scenario.heal_at_ns, scenario.live_from_ns, scenario.live_until_ns
    assert 0 < heal < start < stop < scenario.rest_at_ns < scenario.end_at_ns
    assert stop + scenario.deadline_ns <= scenario.end_at_ns
    newcomers = [pid for fault in scenario.faults if fault.kind == "join" for pid in fault.nodes]
    known = [*range(scenario.nodes), *newcomers]
    assert all(publish.node in known and 0 <= publish.at_ns < stop for publish in scenario.publishes)
    for fault in scenario.faults:
        assert 0 <= fault.at_ns < (stop if fault.lasting else heal)
        assert fault.until_ns <= (stop if fault.lasting else heal)
        assert all(pid in known for pid in (*fault.nodes, *fault.others))
    for_good = [
        fault for fault in scenario.faults if fault.kind == "leave" or (fault.kind == "crash" and not fault.until_ns)
    ]
    assert sum(len(fault.nodes) for fault in for_good) <= 1
    settings_from(scenario.settings)


ILLS = ("loss", "duplicate", "reorder", "replay", "corrupt")
CRASHES = ("crash_lost", "crash_torn", "crash_wiped", "crash_between_effects", "restart")
OTHERS = ("pause", "cut", "partition", "slow", "burst", "clock_jump", "join", "leave")


@pytest.mark.no_cover
def test_every_kind_of_fault_does_something_in_some_schedule_of_the_swarm() -> None:
    """Coverage of the generator: in 120 schedules each kind is effective in two or more, none is there in name only."""
    schedules: Counter[str] = Counter()
    for seed in range(120):
        schedules.update(dict.fromkeys(run(draw("eventual", seed)).effective, 1))
    rare = [kind for kind in (*ILLS, *CRASHES, *OTHERS) if schedules[kind] < 2]
    assert rare == []


def test_the_swarm_draws_every_shape_of_group_network_and_clock() -> None:
    drawn: Counter[tuple[str, object]] = Counter()
    for seed in range(300):
        scenario = draw("fifo", seed)
        network = scenario.network
        drawn.update(
            [
                ("group", scenario.shape), ("latency", network.latency.shape), ("links", network.fifo_links),
                ("bandwidth", bool(network.bandwidth_bps)), ("both ways", network.bandwidth_both_ways),
                ("drift", bool(scenario.clocks.drift_ppm)), ("offset", bool(scenario.clocks.offset_ns)),
                ("sync", bool(scenario.sync_ns)), ("view", scenario.settings["view"]), ("calm", network.is_calm()),
            ]
        )  # fmt: skip
    values = Counter(dimension for dimension, _ in drawn)
    assert values == {"group": 8, "latency": 4, "links": 2, "bandwidth": 2, "both ways": 2, "drift": 2, "offset": 2,
                      "sync": 2, "view": 2, "calm": 2}  # fmt: skip
    assert min(drawn.values()) >= 2


def test_rounds_enough_for_the_paper_are_chosen_for_its_groups() -> None:
    assert [rounds_for(nodes) for nodes in (25, 125, 250)] == [6, 7, 8]


def test_a_level_that_no_table_knows_is_refused_with_the_list_of_those_that_are() -> None:
    listed = (
        r"'strict' is unknown; there are: eventual, fifo, .*; with whence-lab also its rivals cbcast, .*; and canary"
    )
    with pytest.raises(UsageError, match=listed):
        simulation("strict", 5, 10, 1)
    with pytest.raises(UsageError, match=listed):
        draw("strict", 1)


@pytest.mark.parametrize(
    ("level", "settings"),
    [("causal-living", {}), ("causal", {"spread": "mesh"}), ("causal", {"membership": "living"}),
     ("total-strict", {}), ("total", {"order": "strict"})],
)  # fmt: skip
@pytest.mark.parametrize("faults", ["none", "swarm"])
def test_a_group_on_views_is_simulated_by_its_kind_or_its_settings_and_keeps_its_promises(
    level: str, settings: dict[str, Any], faults: str
) -> None:
    trace = run(simulation(level, 6, 40, 3, faults, settings)).trace
    said = {verdict.promise: verdict.outcome for verdict in judge(trace)}
    assert "one_chain" in said
    assert ("strict_total" in said) == level.startswith("total")
    assert Outcome.BROKEN not in said.values()
    if faults == "none":
        assert (summarize(trace)["delivered"], said["agreement"]) == (240, Outcome.HOLDS)


@pytest.mark.parametrize("level", ["causal-living", "total-strict"])
@pytest.mark.parametrize("journal", ["true", "false"])
def test_groups_on_views_keep_their_promises_under_a_swarm_of_faults(level: str, journal: str, long_mode: bool) -> None:
    for seed in range(500 if long_mode else 25):
        outcome = run(simulation(level, 2 + seed % 9, 60, seed, "swarm", {"journal": journal}))
        broken = [verdict for verdict in judge(outcome.trace) if verdict.outcome is Outcome.BROKEN]
        assert not broken, (seed, broken[0].sentence)


def test_a_group_on_views_has_as_many_members_as_it_may_unless_more_are_asked_for() -> None:
    assert usual_nodes("total", {"order": "strict"}) == usual_nodes("causal-living", {}) == MESH_MEMBERS_MAX
    assert usual_nodes("total", {}) == usual_nodes("causal", {}) == 25
    for level, settings, instead in (
        ("total", {"order": "strict"}, "order=timed"), ("causal-living", {}, "on a tree"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=f"at most {MESH_MEMBERS_MAX} members, not 25; .*{instead}"):
            simulation(level, 25, 40, 3, "none", settings)
