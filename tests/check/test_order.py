"""The oracles of order against their twins: on every execution, each says what its definition says."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.check.twins import Twin
from tests.check.worlds import any_world, causal_world, copy, swapped, with_columns
from whence.check.history import History
from whence.check.judge import judge, judge_history
from whence.check.verdict import Outcome, Verdict
from whence.trace.memory import Trace
from whence.trace.schema import K_HI, K_LO, K_MID, T_CLK, T_TRUE, Kind, L

SEEDS = st.integers(0, 2**32)
NODES = st.integers(2, 4)
STEPS = st.integers(0, 45)
ORDERS = ("no_duplicates", "fifo", "causal", "optimistic_causal", "total_order")


def only(trace: Trace, promise: str) -> Verdict:
    (verdict,) = judge(trace, [promise])
    return verdict


def outcomes(trace: Trace, promises: tuple[str, ...] = ORDERS) -> list[tuple[Outcome, int]]:
    return [(verdict.outcome, verdict.count) for verdict in judge(trace, promises)]


@given(SEEDS, NODES, STEPS, st.booleans())
def test_a_correct_causal_broadcast_keeps_every_causal_promise(
    seed: int, nodes: int, steps: int, partial: bool
) -> None:
    """Delivering an event only after its whole past is causal order (LoCaMu, section 1.1)."""
    trace = causal_world(seed, nodes, steps, partial)
    for verdict in judge(trace, ["integrity", "no_duplicates", "causal", "optimistic_causal"]):
        assert verdict.is_fine, verdict.sentence


@given(SEEDS, NODES, STEPS, st.booleans())
def test_two_swapped_deliveries_break_what_the_definition_says(
    seed: int, nodes: int, steps: int, partial: bool
) -> None:
    trace = swapped(causal_world(seed, nodes, steps, partial), Random(seed))
    twin = Twin(trace)
    assert (only(trace, "causal").outcome is Outcome.BROKEN) == bool(twin.causal())
    assert (only(trace, "optimistic_causal").outcome is Outcome.BROKEN) == bool(twin.optimistic())
    assert (only(trace, "fifo").outcome is Outcome.BROKEN) == twin.fifo()


@given(SEEDS, NODES, STEPS)
def test_happened_before_is_what_can_be_reached_over_program_order_and_deliveries(
    seed: int, nodes: int, steps: int
) -> None:
    """The closure by masks equals a search backwards (Lamport 1978)."""
    trace = any_world(seed, nodes, steps)
    history, twin = History(trace), Twin(trace)
    for key, event in history.number.items():
        past = {known for known, number in history.number.items() if history.past[event] >> number & 1}
        assert past == twin.past(key)
    assert history.impossible == []


@given(SEEDS, NODES, STEPS)
def test_the_causal_oracle_names_every_missing_cause_and_no_other(seed: int, nodes: int, steps: int) -> None:
    trace = any_world(seed, nodes, steps)
    found = {((v.node, v.inc), ("g", *v.ids[0])) for v in only(trace, "causal").violations}
    assert found == Twin(trace).causal()


@given(SEEDS, NODES, STEPS)
def test_the_optimistic_oracle_names_every_event_that_came_too_late(seed: int, nodes: int, steps: int) -> None:
    """Never deliver an event after one that follows it (optimistic 6)."""
    trace = any_world(seed, nodes, steps)
    found = {((v.node, v.inc), ("g", *v.ids[0])) for v in only(trace, "optimistic_causal").violations}
    assert found == Twin(trace).optimistic()


@given(SEEDS, NODES, STEPS)
def test_the_fifo_oracle_agrees_with_the_definition(seed: int, nodes: int, steps: int) -> None:
    trace = any_world(seed, nodes, steps)
    assert (only(trace, "fifo").outcome is Outcome.BROKEN) == Twin(trace).fifo()


@given(SEEDS, NODES, st.integers(0, 25))
def test_the_total_order_oracle_agrees_with_the_closure_of_all_sequences(seed: int, nodes: int, steps: int) -> None:
    trace = any_world(seed, nodes, steps)
    assert (only(trace, "total_order").outcome is Outcome.BROKEN) == Twin(trace).total()


@given(SEEDS, NODES, STEPS)
def test_every_repeated_delivery_is_counted_once(seed: int, nodes: int, steps: int) -> None:
    trace = any_world(seed, nodes, steps)
    assert only(trace, "no_duplicates").count == Twin(trace).duplicates()


@given(SEEDS, NODES, STEPS)
def test_verdicts_never_rest_on_stamps_or_clocks(seed: int, nodes: int, steps: int) -> None:
    """Scramble every stamp and every process's clock: the same verdicts."""
    trace, rng = any_world(seed, nodes, steps), Random(seed)
    scrambled = copy(trace)
    for kind in (Kind.PUBLISH, Kind.DELIVER):
        scrambled.rows[kind] = [
            with_columns(row, kind, **{name: rng.getrandbits(60) for name in (L, K_HI, K_MID, K_LO, T_CLK)})
            for row in trace.rows[kind]
        ]
    assert outcomes(scrambled) == outcomes(trace)


@given(SEEDS, NODES, STEPS)
def test_verdicts_on_order_need_no_true_time_among_founders(seed: int, nodes: int, steps: int) -> None:
    """A live trace has no true time; happened-before and order are the same."""
    trace = swapped(causal_world(seed, nodes, steps), Random(seed))
    live = copy(trace)
    for kind, rows in trace.rows.items():
        live.rows[kind] = [with_columns(row, kind, **{T_TRUE: None}) for row in rows]
    assert outcomes(live) == outcomes(trace)


@given(SEEDS, NODES, STEPS)
def test_the_order_of_rows_in_the_files_does_not_matter(seed: int, nodes: int, steps: int) -> None:
    """A process's rows are ordered by their numbers, wherever they lie."""
    trace, rng = any_world(seed, nodes, steps), Random(seed)
    shuffled = copy(trace)
    for rows in shuffled.rows.values():
        rng.shuffle(rows)
    assert outcomes(shuffled) == outcomes(trace)


@given(SEEDS, NODES, STEPS)
def test_a_wrong_answer_is_never_given_about_an_incomplete_trace(seed: int, nodes: int, steps: int) -> None:
    """With rows missing nothing holds for certain, and what is broken is broken in the whole trace too."""
    trace, rng = any_world(seed, nodes, steps), Random(seed)
    cut = copy(trace)
    kinds = [kind for kind, rows in cut.rows.items() if rows]
    if not kinds:
        return
    rows = cut.rows[rng.choice(kinds)]
    del rows[rng.randrange(len(rows))]
    history = History(cut)
    if history.incomplete is None:  # it was the last row of its process: nobody can tell
        return
    for whole, part in zip(judge(trace, ORDERS), judge_history(history, ORDERS), strict=True):
        assert not part.is_fine
        if part.outcome is Outcome.BROKEN:
            assert whole.outcome is Outcome.BROKEN


def test_oracles_and_twins_agree_on_many_executions_of_both_outcomes(long_mode: bool) -> None:
    """Thousands of executions, small and large, in which every promise is kept often and broken often."""
    seen: Counter[tuple[str, Outcome]] = Counter()
    for seed in range(10_000 if long_mode else 800):
        rng = Random(seed)
        nodes, steps = rng.randint(2, 4), rng.randint(0, 60)
        for trace in (any_world(seed, nodes, steps), swapped(causal_world(seed, nodes, steps, seed % 2 == 0), rng)):
            twin = Twin(trace)
            answers = {
                "no_duplicates": bool(twin.duplicates()),
                "fifo": twin.fifo(),
                "causal": bool(twin.causal()),
                "optimistic_causal": bool(twin.optimistic()),
                "total_order": twin.total(),
            }
            for verdict in judge(trace, ORDERS):
                assert (verdict.outcome is Outcome.BROKEN) == answers[verdict.promise], (seed, verdict)
                seen[verdict.promise, verdict.outcome] += 1
    for promise in ORDERS:
        assert seen[promise, Outcome.HOLDS] > 150
        assert seen[promise, Outcome.BROKEN] > 150
