"""Rows that were lost after they were written, and members that had left by the end: nothing of that is acquitted.

In-process, on the local engine (with and without a certificate) and in plain Python; once on Spark, too.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.check.trace_builder import TraceBuilder
from tests.pipeline import plain_oracle
from tests.pipeline.engines import verify
from tests.pipeline.segments import LiveNode
from whence.check.expected import NOTHING_EXPECTED
from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.cli.app import run
from whence.pipeline import verify as judging
from whence.pipeline.local.session import local_session
from whence.trace.layout import RUN_FILE
from whence.trace.memory import Trace
from whence.trace.reader import read_run, read_trace
from whence.trace.schema import Kind
from whence.trace.writer import write_trace

PROMISED = ("integrity", "no_duplicates", "fifo", "agreement", "liveness")


def stopped_in_order(run_id: str, *, deaf: int | None = None, until: int | None = None, wait: int = 100_000) -> Trace:
    """Three members, ten events of each, and all leave `wait` after the last one, deadlines being 50,000.

    One may be handed nothing, or only the events up to some number.
    """
    made = TraceBuilder((0, 1, 2), run_id=run_id, parameters={"promises": list(PROMISED)})
    made.phases(deadline_ns=50_000)
    for _ in range(10):
        for publisher in (0, 1, 2):
            event = made.publish(publisher)
            for node in (0, 1, 2):
                if node == publisher or node != deaf or (until is not None and event.seq <= until):
                    made.deliver(node, event)
    made.now += wait
    for node in (0, 1, 2):
        made.row(Kind.LEAVE, node, reason="left")
    return made.trace


def told(directory: Path, run_id: str) -> dict[str, str]:
    """Judge a run in three ways that share no code; return the outcomes by promise, in which they must agree."""
    checked = {each.promise: each for each in judge(read_trace(directory / f"run_id={run_id}"))}
    plain = plain_oracle.judge(directory / f"run_id={run_id}")
    with local_session() as session:
        for certify in (False, True):
            (judged,) = judging.verify(session, [directory / f"run_id={run_id}"], certify=certify).runs
            outcomes = {each.promise: each.outcome for each in judged.verdicts}
            assert outcomes == {promise: each.outcome for promise, each in checked.items()}
            reasons = {each.sentence for each in judged.verdicts if each.outcome is Outcome.VACUOUS}
            assert reasons == {each.sentence for each in checked.values() if each.outcome is Outcome.VACUOUS}
    assert {promise: plain[promise][0] for promise in PROMISED} == {name: outcomes[name].value for name in PROMISED}
    return {promise: outcome.value for promise, outcome in outcomes.items()}


def keep(directory: Path, is_kept: Callable[[int, int], bool]) -> None:
    """Remove rows (node, ev) from the files of a run, and leave its description as it is."""
    for file in directory.glob("kind=*/*.parquet"):
        table = pq.ParquetFile(file).read()
        kept = [is_kept(*row) for row in zip(table["node"].to_pylist(), table["ev"].to_pylist(), strict=True)]
        pq.write_table(table.filter(pc.equal(kept, True)), file)


def lose(base: Path, way: str) -> None:
    """Lose rows of a run: the last of a process, everything from its middle on, all of a process, or all of all."""
    last = max(row[2] for rows in read_trace(base).rows.values() for row in rows if row[0] == 2)
    if way == "last":
        keep(base, lambda node, ev: node != 2 or ev < last)
    elif way == "half":
        keep(base, lambda node, ev: node != 2 or ev <= last // 2)
    elif way == "process":
        keep(base, lambda node, ev: node != 2)
    else:
        for each in base.glob("kind=*"):
            shutil.rmtree(each)


LOSSES = ("last", "half", "process", "all")


@pytest.mark.parametrize("way", LOSSES)
def test_what_was_written_and_is_not_there_leaves_every_promise_unknown(tmp_path: Path, way: str) -> None:
    """Not held, whatever the rest shows, nor broken, whatever seems missing."""
    write_trace(tmp_path, stopped_in_order("r"))
    assert set(told(tmp_path, "r").values()) == {"holds"}
    lose(tmp_path / "run_id=r", way)
    assert set(told(tmp_path, "r").values()) == {"unknown"}
    assert "rows were written" in judge(read_trace(tmp_path))[0].sentence


def test_a_trace_of_an_older_writer_is_judged_as_before_unless_no_row_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_trace(tmp_path, stopped_in_order("r"))
    described = json.loads((directory / RUN_FILE).read_text())
    assert described.pop("rows") == read_trace(tmp_path).count()
    (directory / RUN_FILE).write_text(json.dumps(described))
    assert set(told(tmp_path, "r").values()) == {"holds"}
    assert run(["check", str(tmp_path)]) == 0
    lose(directory, "all")
    assert set(told(tmp_path, "r").values()) == {"unknown"}
    for command in (["check", str(tmp_path)], ["verify", str(tmp_path), "--engine", "local"]):
        capsys.readouterr()
        assert run(command) == 2
        assert "rows" in capsys.readouterr().err


def test_both_engines_miss_the_rows_that_are_not_there(spark: SparkSession, tmp_path: Path) -> None:
    for way in LOSSES:
        lose(write_trace(tmp_path, stopped_in_order(way)), way)
    write_trace(tmp_path, stopped_in_order("deaf", deaf=1))
    outcomes = {
        judged.run.run_id: {each.outcome for each in judged.verdicts} for judged in verify(spark, [tmp_path]).runs
    }
    assert outcomes.pop("deaf") == {Outcome.HOLDS, Outcome.BROKEN}
    assert outcomes == {way: {Outcome.UNKNOWN} for way in LOSSES}


@pytest.mark.parametrize(("until", "lost"), [(None, 20), (7, 6)])
def test_a_member_that_left_in_order_after_the_deadline_owes_what_it_never_delivered(
    tmp_path: Path, until: int | None, lost: int
) -> None:
    write_trace(tmp_path, stopped_in_order("r", deaf=2, until=until))
    outcomes = told(tmp_path, "r")
    assert (outcomes["agreement"], outcomes["liveness"]) == ("broken", "broken")
    assert {each.count for each in judge(read_trace(tmp_path), ["agreement", "liveness"])} == {lost}


def test_where_all_left_before_a_deadline_the_verdict_says_that_nothing_was_checked(tmp_path: Path) -> None:
    write_trace(tmp_path, stopped_in_order("r", deaf=2, wait=-100_000))
    outcomes = told(tmp_path, "r")
    assert (outcomes["agreement"], outcomes["liveness"]) == ("vacuous", "vacuous")
    assert {each.sentence for each in judge(read_trace(tmp_path), ["agreement", "liveness"])} == {NOTHING_EXPECTED}


def test_a_gathered_trace_says_how_many_rows_it_has(spark: SparkSession, tmp_path: Path) -> None:
    node = LiveNode(tmp_path / "live", 0)
    node.publish(1)
    node.deliver(0, 1, 1)
    node.leave()
    for name, more in (("here", []), ("spark", ["--master", "local[2]"])):
        assert run(["gather", str(tmp_path / "live"), "--out", str(tmp_path / name), *more]) == 0
        described = read_run(tmp_path / name / "run_id=live")
        assert described.rows == read_trace(tmp_path / name).count() == 6
