"""Spark and the in-process oracles judge the same traces, each from its own code: they must agree row for row."""

from collections.abc import Iterable
from pathlib import Path
from random import Random

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.check.trace_builder import TraceBuilder
from tests.check.worlds import any_world, causal_world, swapped
from tests.pipeline.engines import verify
from whence.check.judge import judge
from whence.check.verdict import VIOLATIONS_MAX, Outcome, Verdict
from whence.errors import TraceError, UsageError
from whence.pipeline import verify as verifying
from whence.pipeline.certificate import PROVABLE, certified
from whence.pipeline.events import FILES_READ, find_input, read_events
from whence.pipeline.promise_tables import PROMISES
from whence.pipeline.session import SMALL_BYTES, configure_for_size
from whence.pipeline.verify import Verified
from whence.sim.canary import CANARY
from whence.sim.lab import spec_of
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.sim.swarm import SWARMS, draw
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.schema import COLUMNS_OF, K_HI, K_LO, M_PID, M_SEQ, Kind
from whence.trace.writer import write_trace
from whence_lab.mutants import Mutant, find, mutants_of

EVERY = list(PROMISES)
"""All but two kinds: the fingerprint of a trace is for one reader of all rows in order, and views are not for Spark."""

QUIET = ("eventual", "fifo", "optimistic", "causal", "total")


def tickets_misused() -> Trace:
    """A ticket with two owners at once, an epoch that goes back, and a use without ownership."""
    builder = TraceBuilder(level="optimistic")
    builder.row(Kind.TICKET_ACQUIRE, 0, ticket=1, epoch=3)
    builder.publish(0, ticket=1, epoch=3)
    builder.row(Kind.TICKET_ACQUIRE, 1, ticket=1, epoch=2)
    builder.row(Kind.TICKET_RELEASE, 0, ticket=1, epoch=3)
    builder.publish(0, ticket=1, epoch=3)
    builder.row(Kind.TICKET_SUSPEND, 1, ticket=1, epoch=2)
    builder.row(Kind.TICKET_ACQUIRE, 2, ticket=1, epoch=3)
    builder.crash(2)
    return builder.trace


def tickets_after_healing(acted_for: int) -> Trace:
    """A cluster of four tickets whose first owner acts for some; a lease that ran out unnoticed."""
    builder = TraceBuilder(level="optimistic", parameters={"tickets": 4, "k": 1, "ticket_round_ns": 10})
    builder.row(Kind.TICKET_ACQUIRE, 1, ticket=2, epoch=1)
    builder.publish(1, ticket=2, epoch=1)
    builder.row(Kind.TICKET_SUSPEND, 1, ticket=2, epoch=1, late_ns=1500)
    builder.phases()
    builder.row(Kind.TICKET_ACQUIRE, 0, ticket=1, epoch=2, value=acted_for)
    builder.row(Kind.TICKET_ACQUIRE, 2, ticket=0, epoch=3)
    return builder.trace


def tickets_wished() -> Trace:
    """After healing one loses a ticket, one gives it back, and of two who asked one gave up."""
    builder = TraceBuilder(nodes=range(5), level="optimistic", parameters={"tickets": 4, "k": 1, "ticket_round_ns": 10})
    for node in range(5):
        builder.row(Kind.NOTE, node, reason="ticket_asked")
    for epoch, node in enumerate(range(3), 1):
        builder.row(Kind.TICKET_ACQUIRE, node, ticket=node, epoch=epoch, value=2 if node == 0 else 1)
    builder.phases()
    builder.row(Kind.NOTE, 2, reason="ticket_given_back")
    for node in (1, 2):
        builder.row(Kind.TICKET_RELEASE, node, ticket=node, epoch=node + 1)
    builder.row(Kind.NOTE, 4, reason="ticket_given_back")
    return builder.trace


def tickets_kept() -> Trace:
    builder = TraceBuilder(level="optimistic")
    for epoch, node in enumerate((0, 1, 2, 0), 1):
        builder.row(Kind.TICKET_ACQUIRE, node, ticket=1, epoch=epoch)
        builder.publish(node, ticket=1, epoch=epoch)
        builder.row(Kind.TICKET_RELEASE, node, ticket=1, epoch=epoch)
    return builder.trace


def without_true_time() -> Trace:
    """A live trace in which an effect comes before its cause."""
    builder = TraceBuilder(level="causal")
    first = builder.publish(0, t_true=None)
    builder.deliver(1, first, t_true=None)
    second = builder.publish(1, t_true=None)
    builder.deliver(0, second, t_true=None)
    builder.trace.rows[Kind.DELIVER].reverse()
    return builder.trace


def tickets_by_clocks(skew_ns: int | None) -> Trace:
    """Owners without true time whose stretches overlap by 1,000 and 2,000 ns on their clocks; one's end is not told."""
    builder = TraceBuilder(level="optimistic", epsilon=None if skew_ns is None else 1, tick_ns=skew_ns)

    def turn(kind: Kind, node: int, epoch: int, **columns: int) -> None:
        builder.row(kind, node, ticket=1, epoch=epoch, t_true=None, **columns)

    turn(Kind.TICKET_ACQUIRE, 0, 1)
    turn(Kind.TICKET_ACQUIRE, 1, 2)
    turn(Kind.TICKET_RELEASE, 0, 1)
    turn(Kind.TICKET_ACQUIRE, 2, 3)
    builder.publish(2, ticket=1, epoch=3, t_true=None)
    turn(Kind.TICKET_RELEASE, 1, 2)
    turn(Kind.TICKET_SUSPEND, 2, 3, late_ns=1200)
    turn(Kind.TICKET_ACQUIRE, 0, 4)
    turn(Kind.TICKET_ACQUIRE, 1, 5, value=2)
    return builder.trace


def stamped(last: tuple[int, int]) -> Trace:
    """Two publications with keys that grow, and a third after both with a given one."""
    builder = TraceBuilder(level="total")
    first = builder.publish(0, k_hi=5, k_lo=1)
    builder.deliver(1, first)
    builder.publish(1, k_hi=5, k_lo=2)
    builder.deliver(2, first)
    builder.publish(1, k_hi=last[0], k_lo=last[1])
    return builder.trace


def durable_lives() -> Trace:
    builder = TraceBuilder(level="causal", durable=True)
    one = builder.broadcast(0)
    builder.crash(1)
    builder.restart(1)
    builder.deliver(1, one)
    builder.publish(1)
    builder.phases()
    builder.broadcast(2)
    return builder.trace


def with_rows_missing() -> Trace:
    trace = causal_world(3, 4, 60)
    del trace.rows[Kind.DELIVER][5:9]
    return trace


def keys_swapped() -> Trace:
    """Two events that took each other's keys, everywhere alike: no sequence shows it, and readers sort by the key."""
    trace = run(simulation("total", 6, 25, 2, "none"), spec_of("total", None)).trace
    for kind in (Kind.PUBLISH, Kind.DELIVER):
        names = COLUMNS_OF[kind]
        rows, first = trace.rows[kind], slice(names.index(M_PID), names.index(M_SEQ) + 1)
        key = slice(names.index(K_HI), names.index(K_LO) + 1)
        one, other = (row[first] for row in trace.rows[Kind.PUBLISH][8:10])
        keys = {row[first]: row[key] for row in rows if row[first] in (one, other)}
        keys = {one: keys[other], other: keys[one]}
        rows[:] = [(*row[: key.start], *keys.get(row[first], row[key]), *row[key.stop :]) for row in rows]
    return trace


SMALL = (0, 2, 3, 4, 5, 6, 7)
"""Schedules with some hundred deliveries; what they show needs no more."""


def planted(level: str, mutant: Mutant, seeds: Iterable[int]) -> Trace | None:
    """The first schedule in which a planted bug shows, if it does in these."""
    for seed in seeds:
        trace = run(draw(level, seed), spec_of(level, mutant.name), keep_crash=True).trace
        if judge(trace, [mutant.law])[0].outcome is Outcome.BROKEN:
            return trace
    return None


def made_traces(long_mode: bool) -> dict[str, Trace]:
    count, schedules = (40, 4) if long_mode else (8, 1)
    traces = {f"any-{seed}": any_world(seed, 4, 60) for seed in range(count)}
    for seed in range(count // 2):
        traces[f"causal-{seed}"] = causal_world(seed, 4, 60, partial=seed % 2 == 0)
        traces[f"swapped-{seed}"] = swapped(causal_world(seed, 4, 60, partial=seed % 2 == 1), Random(seed))
    for level in ("eventual", "fifo", "canary"):
        for seed in SMALL[: 2 * schedules]:
            traces[f"{level}-{seed}"] = run(draw(level, seed), spec_of(level, None)).trace
    bugs = [(level, mutant) for level in SWARMS for mutant in mutants_of(level) if mutant.law in EVERY]
    some = [bug for bug in bugs if bug[0] == "fifo" or bug[1].name == "counts_bundles"] + bugs[:8]
    for level, mutant in bugs if long_mode else some:
        shown_in = planted(level, mutant, range(40) if long_mode else SMALL)
        if shown_in is not None:
            traces[f"planted-{level}-{mutant.name}"] = shown_in
    for level in QUIET:
        traces[f"{level}-quiet"] = run(simulation(level, 6, 25, 1, "none"), spec_of(level, None)).trace
    by_hand = (
        keys_swapped,
        tickets_misused,
        tickets_wished,
        tickets_kept,
        without_true_time,
        durable_lives,
        with_rows_missing,
    )
    for acted_for in (2, 4):
        traces[f"acted-for-{acted_for}"] = tickets_after_healing(acted_for)
    for skew_ns in (None, 10, 1500, 5000):
        traces[f"by-clocks-{skew_ns}"] = tickets_by_clocks(skew_ns)
    for level in ("optimistic", "causal", "cbcast", "barriers", "neighbourhood", "total"):
        if level in SWARMS:
            traces[f"{level}-1"] = run(draw(level, 1), spec_of(level, None)).trace
    return traces | {make.__name__: make() for make in by_hand}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the traces lie that all tests here share."""
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def told(spark: SparkSession, directory: Path, long_mode: bool) -> tuple[dict[str, Trace], Verified]:
    """Many runs in one directory, judged in one go."""
    traces = made_traces(long_mode)
    for name, trace in traces.items():
        trace.run.run_id = name
        write_trace(directory, trace)
    return traces, verify(spark, [directory], EVERY)


def shown(verdict: Verdict) -> set[tuple[object, ...]]:
    return {(witness.node, witness.inc, witness.grp, witness.ids, witness.evs) for witness in verdict.violations}


def is_cycle(verdict: Verdict) -> bool:
    """Of several cycles each shows the one it finds."""
    return verdict.sentence.startswith("no single order explains")


def test_spark_and_the_oracles_agree_on_every_run_and_promise(told: tuple[dict[str, Trace], Verified]) -> None:
    """Outcome, count and, where all are listed, the very rows; planted bugs included."""
    traces, verified = told
    assert not verified.set_aside
    assert len(verified.runs) == len(traces)
    for judged in verified.runs:
        wanted = {verdict.promise: verdict for verdict in judge(traces[judged.run.run_id], EVERY)}
        for verdict in judged.verdicts:
            want, name = wanted[verdict.promise], (judged.run.run_id, verdict.promise)
            assert (*name, verdict.outcome, verdict.count) == (*name, want.outcome, want.count)
            if want.count <= VIOLATIONS_MAX and not is_cycle(want):
                assert (*name, shown(verdict)) == (*name, shown(want))
            if verdict.is_fine or judged.run.run_id.startswith("by-clocks"):
                assert (*name, verdict.sentence) == (*name, want.sentence)


def test_the_traces_show_every_promise_kept_and_broken(told: tuple[dict[str, Trace], Verified]) -> None:
    """An agreement on traces that break nothing would be worth nothing."""
    seen = {(verdict.promise, verdict.outcome) for judged in told[1].runs for verdict in judged.verdicts}
    assert seen >= {(promise, outcome) for promise in EVERY for outcome in (Outcome.HOLDS, Outcome.BROKEN)}


def test_planted_bugs_are_found_by_the_promise_they_break(
    told: tuple[dict[str, Trace], Verified], long_mode: bool
) -> None:
    """At least twenty of them, each in a trace in which the oracles find it."""
    found = 0
    for judged in told[1].runs:
        if judged.run.run_id.startswith("planted-"):
            _, level, name = judged.run.run_id.split("-")
            law = find(level, name).law
            outcomes = {verdict.promise: verdict.outcome for verdict in judged.verdicts}
            assert (name, outcomes[law]) == (name, Outcome.BROKEN)
            found += 1
    assert found >= (80 if long_mode else 20)


@pytest.mark.long
@pytest.mark.parametrize("batch", range(10))
def test_a_thousand_clean_traces_of_all_levels_raise_no_alarm(spark: SparkSession, tmp_path: Path, batch: int) -> None:
    """Each run by its own promises, under a swarm of faults: nothing is broken, whether certified first or not."""
    levels = [level for level in SWARMS if level != CANARY]
    for number in range(100 * batch, 100 * (batch + 1)):
        level = levels[number % len(levels)]
        trace = run(draw(level, number), spec_of(level, None)).trace
        trace.run.run_id = f"{level}-{number}"
        write_trace(tmp_path, trace)
    done = verify(spark, [tmp_path], certify=batch % 2 == 0)
    assert len(done.runs) == 100
    assert not [
        (judged.run.run_id, verdict)
        for judged in done.runs
        for verdict in judged.verdicts
        if verdict.outcome is Outcome.BROKEN
    ]


@pytest.mark.long
def test_more_than_64_megabytes_are_read_and_judged_alike(
    spark: SparkSession, directory: Path, told: tuple[dict[str, Trace], Verified], tmp_path: Path
) -> None:
    """Beyond the size of a small job files are read where they lie, and certificates come first; verdicts stay."""
    builder = TraceBuilder(range(20), level="total")
    for number in range(25_200):
        builder.broadcast(number % 20)
    large = {"large": builder.trace, "large-swapped": swapped(builder.trace, Random(1))}
    for name, trace in large.items():
        trace.run = msgspec.structs.replace(trace.run, run_id=name)
        write_trace(tmp_path, trace)
    found = find_input([directory, tmp_path])
    assert found.bytes > 2 * SMALL_BYTES
    assert sum(map(len, found.files.values())) > FILES_READ
    try:
        done = verify(spark, [directory, tmp_path], EVERY)
    finally:
        configure_for_size(spark, 0)
    assert not done.set_aside
    wanted = {judged.run.run_id: judged.verdicts for judged in told[1].runs}
    wanted |= {name: judge(trace, EVERY) for name, trace in large.items()}
    assert {judged.run.run_id for judged in done.runs} == set(wanted)
    for judged in done.runs:
        outcomes = {(each.promise, each.outcome, each.count) for each in judged.verdicts}
        assert outcomes == {(each.promise, each.outcome, each.count) for each in wanted[judged.run.run_id]}
    assert {each.promise for each in wanted["large-swapped"] if each.outcome is Outcome.BROKEN} >= {
        "causal",
        "total_order",
    }
    assert not [each for each in wanted["large"] if each.outcome is Outcome.BROKEN]


def test_runs_that_are_judged_after_one_another_are_judged_alike(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory bounds how many are judged at once, whoever is among them."""
    for seed in range(1, 5):
        trace = causal_world(seed, 3, 20)
        trace.rows[Kind.DELIVER].pop()
        trace.run.run_id = f"run-{seed}"
        write_trace(tmp_path, trace)
    together = verify(spark, [tmp_path])
    monkeypatch.setattr(verifying, "ROWS_AT_ONCE", read_trace(tmp_path / "run_id=run-1").count() * 2)
    assert verify(spark, [tmp_path]) == together
    assert len(together.runs) == 4


def test_every_witness_tells_its_story_in_a_sentence(told: tuple[dict[str, Trace], Verified]) -> None:
    traces, verified = told
    for judged in verified.runs:
        wanted = {verdict.promise: verdict for verdict in judge(traces[judged.run.run_id], EVERY)}
        for verdict in judged.verdicts:
            if verdict.promise not in ("total_order", "optimistic_causal") and verdict.count <= VIOLATIONS_MAX:
                theirs = {witness.sentence for witness in wanted[verdict.promise].violations}
                assert {witness.sentence for witness in verdict.violations} == theirs


def test_certificates_agree_with_the_oracles_and_settle_clean_runs(
    spark: SparkSession, directory: Path, told: tuple[dict[str, Trace], Verified], tmp_path: Path
) -> None:
    """The same verdicts, one pass; and clean runs of each sort are settled by it, broken ones never."""
    traces, verified = told
    wanted = dict.fromkeys(traces, EVERY)
    configure_for_size(spark, 0)
    proved = certified(read_events(spark, find_input([directory]), wanted, tmp_path), wanted).verdicts
    settled: dict[str, set[str]] = {}
    for judged in verified.runs:
        for verdict in judged.verdicts:
            proof = proved.get(judged.run.run_id, {}).get(verdict.promise)
            if proof is not None:
                name = judged.run.run_id, verdict.promise
                assert (*name, proof.outcome, proof.sentence) == (*name, verdict.outcome, verdict.sentence)
                settled.setdefault(verdict.promise, set()).add(judged.run.run_id)
    assert set(settled) == set(PROVABLE)
    assert settled["causal"] >= {f"{level}-quiet" for level in ("causal", "total")} | {"causal-3"}
    assert settled["total_order"] >= {"total-quiet"}


def test_a_key_that_does_not_grow_breaks_the_promise_of_keys(spark: SparkSession, tmp_path: Path) -> None:
    """Along what a process published and delivered before; equal is not greater, and rows without one prove nothing."""
    keys = {"grows": (6, 0), "same": (5, 2), "falls": (5, 0), "delivered": (5, 1)}
    for name, last in keys.items():
        trace = stamped(last)
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    for certify in (False, True):
        done = verify(spark, [tmp_path], ["keys"], certify=certify)
        outcomes = {judged.run.run_id: judged.verdicts[0] for judged in done.runs}
        grows = outcomes.pop("grows")
        assert (grows.outcome, grows.sentence) == (
            Outcome.UNKNOWN, "2 of 5 publications and deliveries have no key",
        ), certify  # fmt: skip
        for name, verdict in outcomes.items():
            low, *shared = sorted(verdict.violations, key=lambda witness: "not greater" not in witness.sentence)
            assert (verdict.outcome, low.node, low.evs) == (Outcome.BROKEN, 1, (2,)), certify
            assert low.ids == ((1, 1, 2), (1, 1, 1))
            assert "with a key that is not greater than that of event 1 of process 1" in low.sentence
            assert [witness.ids[0] for witness in shared] == ([] if name == "falls" else [(1, 1, 2)])


def test_input_that_cannot_be_used_is_set_aside_with_a_reason(spark: SparkSession, tmp_path: Path) -> None:
    """A torn file, a run that did not finish and rows shipped twice; the rest is judged."""
    for name in ("whole", "torn", "unfinished", "twice"):
        trace = causal_world(1, 4, 60)
        trace.run.run_id = name
        write_trace(tmp_path, trace)
    torn = next((tmp_path / "run_id=torn" / "kind=deliver").glob("*.parquet"))
    torn.write_bytes(torn.read_bytes()[:-100])
    (tmp_path / "run_id=unfinished" / "run.json").unlink()
    shipped = next((tmp_path / "run_id=twice" / "kind=deliver").glob("*.parquet"))
    shipped.with_name("part-00001.parquet").write_bytes(shipped.read_bytes())
    done = verify(spark, [tmp_path])
    outcomes = {judged.run.run_id: {verdict.outcome for verdict in judged.verdicts} for judged in done.runs}
    assert outcomes["whole"] == outcomes["twice"] == {Outcome.HOLDS, Outcome.UNKNOWN, Outcome.VACUOUS}
    assert outcomes["torn"] == {Outcome.UNKNOWN}
    reasons = {each.run_id or Path(each.path).name: each for each in done.set_aside}
    assert set(reasons) == {"torn", "run_id=unfinished", "twice"}
    assert "not a whole Parquet file" in reasons["torn"].reason
    assert "did not finish" in reasons["run_id=unfinished"].reason
    assert reasons["twice"].rows == len(causal_world(1, 4, 60).rows[Kind.DELIVER])


def test_what_is_no_trace_is_refused_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist"):
        verify(spark, [tmp_path / "nowhere"])
    with pytest.raises(TraceError, match="holds no run_id"):
        verify(spark, [tmp_path])
    write_trace(tmp_path, causal_world(1, 3, 20))
    with pytest.raises(UsageError, match="no promise that is judged here is called 'kindness'"):
        verify(spark, [tmp_path], ["kindness"])
