"""Merged groups explored: no schedule breaks a promise, every planted bug is caught, recovery is measured."""

import pytest
from msgspec import structs

from tests.simulation.hunts import hunted
from whence.check.delays import observe, propose, trade_off
from whence.check.diagrams.merged_streams import delivery_sequences, merged_streams_diagram
from whence.check.judge import judge
from whence.check.levels import PROMISES_OF
from whence.check.verdict import Outcome
from whence.errors import UsageError
from whence.sim.corruption import KINDS, OF_STREAMS
from whence.sim.explore import broken_verdicts, explore, judged
from whence.sim.merge_timing import merge_settings, warm_ns
from whence.sim.run import run
from whence.sim.scenario import Act, Clocks, Fault
from whence.sim.scenarios import simulation
from whence.sim.scenarios.merge import merger_killed
from whence.sim.swarm import draw
from whence.sim.swarm.merge import SHAPES
from whence.trace.memory import Trace
from whence.trace.schema import Kind
from whence_lab.mutants import mutants_of

pytestmark = pytest.mark.no_cover

PARTS = 4
MS = 1_000_000


@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_of_a_merged_group_breaks_a_promise(part: int, long_mode: bool) -> None:
    """80 schedules, 5,000 in long mode: wild clocks, corrupted states, crashes of mergers, relays, tiny memories."""
    schedules = (5_000 if long_mode else 80) // PARTS
    total = explore("total", schedules, seed=1 + part * schedules, workers=1)
    assert total.broken is None
    assert total.unknown == 0
    assert total.delivered > total.published > schedules


@pytest.mark.parametrize("name", [mutant.name for mutant in mutants_of("total")])
def test_a_planted_bug_is_caught_by_the_promise_it_must_break(name: str, long_mode: bool) -> None:
    """And the schedule that shows it shows nothing broken_verdicts the level without the bug."""
    caught = hunted("total", name, long_mode)
    assert caught.caught
    assert caught.seed is not None
    assert all(verdict.holds for verdict in judged(draw("total", caught.seed))[1])


def test_the_swarm_draws_every_kind_of_group_and_every_kind_does_something() -> None:
    shapes = {draw("total", seed).shape for seed in range(60)}
    assert shapes == set(SHAPES)


def test_when_a_merger_dies_all_sequences_stay_identical() -> None:
    trace = run(merger_killed(8, 120, 3)).trace
    lines = delivery_sequences(trace)
    longest = max(lines.values(), key=len)
    assert all(line == longest for process, line in lines.items() if process != (1, 1))
    assert lines[1, 1] == longest[: len(lines[1, 1])]
    assert 0 < len(lines[1, 1]) < len(longest) == 120
    assert "from merger 0" in merged_streams_diagram(trace)
    assert all(verdict.holds for verdict in judge(trace))


@pytest.mark.parametrize("seed", [8_120_259, 8_120_262])
def test_schedules_that_once_broke_a_promise_hold_now(seed: int) -> None:
    """Links so slow that no merger answered before the next was asked; a late event at one that only began to merge."""
    assert not broken_verdicts(judged(draw("total", seed))[1])


@pytest.mark.parametrize("faults", ["none", "swarm"])
def test_people_can_simulate_a_merged_group(faults: str) -> None:
    scenario = simulation("total", 6, 90, 2, faults)
    outcome, verdicts = judged(scenario)
    assert {verdict.promise for verdict in verdicts} == set(PROMISES_OF["total"])
    assert all(verdict.holds for verdict in verdicts)
    assert (outcome.trace.run.tick_ns, outcome.trace.run.epsilon) == (MS, 5 if faults == "none" else 20)


def test_with_clocks_far_beyond_epsilon_only_lateness_remains() -> None:
    """Offsets of a hundred times ε: nothing out of order, nothing twice, no cause after its effect."""
    broken = 0
    for seed in range(1, 9):
        calm = simulation("total", 6, 120, seed, settings={"delta": 10})
        scenario = structs.replace(calm, clocks=Clocks(offset_ns=500 * MS, drift_ppm=9_000))
        verdicts = {verdict.promise: verdict for verdict in judged(scenario)[1]}
        for promise in ("integrity", "no_duplicates", "total_order", "optimistic_causal", "bounds"):
            assert verdicts[promise].holds, promise
        broken += verdicts["agreement"].outcome is Outcome.BROKEN
    assert broken, "clocks so far apart must cost something"


def after(trace: Trace, time: int) -> Trace:
    """Return the part of a trace that tells of events published after a time."""
    late = Trace(trace.run)
    names = {(row["m_pid"], row["m_inc"], row["m_seq"]) for row in trace.records(Kind.PUBLISH) if row["t_true"] >= time}
    for kind in (Kind.PUBLISH, Kind.DELIVER):
        late.rows[kind] = [row for row in trace.rows[kind] if row[6:9] in names]
    return late


@pytest.mark.parametrize("kind", range(KINDS))
def test_the_stream_is_right_again_within_two_delta_and_six_epsilon_after_any_corruption(kind: int) -> None:
    """With stall_max = 0: what is published so long after the last fault is delivered by all in one causal order.

    Where roles were corrupted, all mergers may be wrong: then it takes the time to notice their silence, too.
    """
    chosen = {"stall_max": 0, "delta": 40, "epsilon": 5, "beat_ns": 5 * MS}
    settings = merge_settings(chosen)
    scenario = simulation("total", 6, 150, 10 + kind, settings=chosen)
    struck_at = 500 * MS
    acts = [Act(at_ns=struck_at, node=node, name="corrupt_state", argument=kind) for node in range(6)]
    outcome = run(structs.replace(scenario, acts=acts))
    bound_ns = (2 * settings.timing.delta + 6 * settings.timing.epsilon) * settings.merge.tick_ns
    if kind >= OF_STREAMS:
        bound_ns += 3 * settings.patience_ns + warm_ns(settings)
    recovered = after(outcome.trace, struck_at + bound_ns)
    assert len(recovered.rows[Kind.PUBLISH]) > 60
    assert len(recovered.rows[Kind.DELIVER]) == 6 * len(recovered.rows[Kind.PUBLISH])
    for verdict in judge(recovered, ["total_order", "optimistic_causal", "no_duplicates"]):
        assert verdict.outcome is not Outcome.BROKEN, verdict.sentence


def test_tuning_proposes_what_keeps_the_run_on_time_and_shows_the_price_of_less() -> None:
    trace = run(simulation("total", 6, 200, 5)).trace
    observed = observe(trace)
    proposal = propose(observed)
    assert observed.exact
    assert proposal.epsilon == -(-observed.offset_ns // MS) + 1
    assert observed.delays_ns[-1] <= proposal.delta * MS
    latencies = [choice.latency_ms for choice in proposal.choices]
    parts = [choice.beyond_delta for choice in proposal.choices]
    assert latencies == sorted(latencies)
    assert parts == sorted(parts, reverse=True)
    assert "(proposed)" in trade_off(proposal)
    tuned = {"delta": proposal.delta, "epsilon": proposal.epsilon}
    assert all(verdict.holds for verdict in judged(simulation("total", 6, 200, 5, settings=tuned))[1])


def test_tuning_reads_gossip_too_and_refuses_a_trace_without_arrivals() -> None:
    assert propose(observe(run(simulation("fifo", 5, 20, 1)).trace), tick_ns=10 * MS).tick_ns == 10 * MS
    with pytest.raises(UsageError, match="no event at another process"):
        observe(Trace(run(simulation("total", 3, 5, 1)).trace.run))


@pytest.mark.parametrize("mergers", [1, 2])
def test_when_all_mergers_are_killed_at_once_others_take_over_and_whatever_is_published_then_reaches_all(
    mergers: int,
) -> None:
    """And what was left out meanwhile is told: of every publisher, all that survive know what they did not get."""
    scenario = simulation("total", 7, 300, 4, settings={"mergers": mergers})
    killed_at = scenario.publishes[60].at_ns
    settings = merge_settings(scenario.settings)
    recovered_at = killed_at + 3 * settings.patience_ns + warm_ns(settings)
    fault = Fault(kind="crash", at_ns=killed_at, mergers=mergers, lasting=True)
    outcome = run(structs.replace(scenario, faults=[fault]))
    assert outcome.effective["merger_crash"] == 1
    recovered = after(outcome.trace, recovered_at)
    published, delivered = (len(recovered.rows[kind]) for kind in (Kind.PUBLISH, Kind.DELIVER))
    assert published > 60
    assert delivered == (7 - mergers) * published
    for verdict in judge(outcome.trace, ["total_order", "optimistic_causal", "no_duplicates", "fifo", "keys"]):
        assert verdict.holds, verdict.sentence


def test_a_merger_may_be_killed_while_everything_is_owed() -> None:
    scenario = simulation("total", 5, 120, 4)
    killed = structs.replace(scenario, faults=[Fault(kind="crash", at_ns=400 * MS, nodes=[0])])
    assert all(verdict.holds for verdict in judged(killed)[1])
