"""Traces that cannot be true, by their numbers, times or descriptions: nothing of them is passed over in silence, and
the other runs are judged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.check.trace_builder import TraceBuilder
from tests.pipeline import plain_oracle
from tests.pipeline.engines import verify
from tests.pipeline.test_lost_rows import stopped_in_order
from tests.pipeline.test_unusable import printed, rewrite
from whence.check.judge import judge
from whence.check.verdict import Outcome, Verdict
from whence.pipeline.events import find_input
from whence.pipeline.local.session import local_session
from whence.pipeline.verify import verify as verify_on
from whence.trace.layout import LIMITS, RUN_FILE
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.schema import COLUMNS_OF, Kind
from whence.trace.writer import write_trace

Capture = pytest.CaptureFixture[str]


def forged(directory: Path, kind: str, name: str, value: int, **options: Any) -> None:
    """Give a column another value in the first row of a kind."""
    file = next((directory / f"kind={kind}").glob("*.parquet"))
    table = pq.ParquetFile(file).read()
    column = pa.array([value, *table[name].to_pylist()[1:]], table.schema.field(name).type)
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, column), file, **options)


def here(*paths: Path, promises: list[str] | None = None) -> dict[str, dict[str, Verdict]]:
    """Judge runs on the local engine, by their names."""
    with local_session() as session:
        done = verify_on(session, list(paths), promises)
    return {judged.run.run_id: {each.promise: each for each in judged.verdicts} for judged in done.runs}


def outcomes(verdicts: dict[str, Verdict]) -> set[Outcome]:
    return {each.outcome for each in verdicts.values()}


# --- numbers and times ---

FORGED = [
    ("deliver", "t_true", -(2**63)), ("deliver", "t_true", -1), ("publish", "t_true", 2**63 - 1),
    ("deliver", "t_clk", -(2**63)), ("publish", "m_seq", -(2**63)), ("deliver", "ev", 2**63 - 1),
    ("deliver", "ev", -3), ("deliver", "inc", -(2**31)), ("deliver", "hold_ns", 2**63 - 1),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "value"), FORGED)
def test_a_forged_number_stops_nobody_elses_judgement(
    tmp_path: Path, capsys: Capture, kind: str, name: str, value: int
) -> None:
    for run_id in ("bad", "good"):
        write_trace(tmp_path, stopped_in_order(run_id))
    forged(tmp_path / "run_id=bad", kind, name, value)
    code, told, err = printed(capsys, "verify", str(tmp_path), "--engine", "local")
    said = f"its column {name} has the value {value}, and must be from"
    assert code == 2
    assert [said in each["reason"] for each in told["set_aside"]] == [True]
    assert said in err
    assert "holds" in told["runs"]["good"].values()
    assert not {"holds", "broken"} & set(told["runs"]["bad"].values())
    code, told, err = printed(capsys, "check", str(tmp_path / "run_id=bad"))
    assert (code, "verdicts" in told) == (2, False)
    assert said in err


def test_nobody_acts_for_more_tickets_than_there_may_be(tmp_path: Path, capsys: Capture) -> None:
    made = TraceBuilder((0, 1), run_id="r", parameters={"promises": ["ticket_exclusivity"]})
    made.row(Kind.TICKET_ACQUIRE, 0, ticket=1, epoch=1, value=2**40)
    made.row(Kind.NOTE, 0, reason="much", value=2**63 - 1)
    directory = write_trace(tmp_path, made.trace)
    for arguments in (["check", str(directory)], ["verify", str(tmp_path), "--engine", "local"]):
        code, _, err = printed(capsys, *arguments)
        assert code == 2
        assert "its column value has the value 1099511627776" in err
        assert "kind=note" not in err


def test_spark_sets_forged_times_aside_as_the_local_engine_does(spark: SparkSession, tmp_path: Path) -> None:
    for run_id in ("bad", "good"):
        write_trace(tmp_path, stopped_in_order(run_id))
    forged(tmp_path / "run_id=bad", "deliver", "t_true", -(2**63))
    assert len(verify(spark, [tmp_path]).set_aside) == 1


def test_a_file_that_does_not_tell_its_least_values_is_looked_into(tmp_path: Path) -> None:
    directory = write_trace(tmp_path, stopped_in_order("r"))
    forged(directory, "deliver", "t_true", 5, write_statistics=False)
    assert find_input([directory]).set_aside == []
    forged(directory, "deliver", "t_true", -5, write_statistics=False)
    assert len(find_input([directory]).set_aside) == 1


def test_the_greatest_and_the_least_times_can_be_counted_with(tmp_path: Path) -> None:
    """No sum and no difference of two of them overflows, on tickets and deliveries."""
    made = TraceBuilder((0, 1), run_id="r", parameters={"promises": ["ticket_exclusivity", "liveness", "integrity"]})
    made.phases()
    event = made.publish(0, t_true=0)
    made.deliver(1, event, t_true=LIMITS["t_true"][1])
    for t_clk in LIMITS["t_clk"]:
        made.row(Kind.TICKET_ACQUIRE, 0, ticket=1, epoch=1, t_true=None, t_clk=t_clk)
        made.row(Kind.TICKET_SUSPEND, 0, ticket=1, epoch=1, t_true=None, t_clk=t_clk, late_ns=LIMITS["late_ns"][0])
        made.row(Kind.TICKET_ACQUIRE, 1, ticket=1, epoch=2, t_true=None, t_clk=t_clk)
    directory = write_trace(tmp_path, made.trace)
    told = {each.promise: each for each in judge(read_trace(directory))}
    assert here(directory)["r"] == told


# --- times that are not there ---


def untimed(trace: Trace, many: int) -> Trace:
    """Take the time from the last deliveries."""
    at = COLUMNS_OF[Kind.DELIVER].index("t_true")
    rows = trace.rows[Kind.DELIVER]
    for place in range(len(rows) - many, len(rows)):
        rows[place] = (*rows[place][:at], None, *rows[place][at + 1 :])
    return trace


def four_events(reach_min: float = 1.0) -> TraceBuilder:
    """Two processes and four events that reach both, at once."""
    made = TraceBuilder((0, 1), run_id="r", parameters={"promises": ["agreement", "liveness"]}, reach_min=reach_min)
    made.phases()
    for _ in range(4):
        made.broadcast(0)
    return made


@pytest.mark.parametrize(
    ("reach_min", "many", "outcome"),
    [(1.0, 0, "holds"), (1.0, 1, "unknown"), (1.0, 8, "unknown"), (0.5, 4, "holds"), (0.5, 5, "unknown")],
)
def test_a_delivery_without_a_time_is_neither_in_time_nor_late(
    spark: SparkSession, tmp_path: Path, reach_min: float, many: int, outcome: str
) -> None:
    directory = write_trace(tmp_path, untimed(four_events(reach_min).trace, many))
    (judged,) = verify(spark, [directory]).runs
    for verdicts in (judged.verdicts, judge(read_trace(directory))):
        assert [each.outcome for each in verdicts] == ["holds", outcome]
    assert judged.verdicts[1].sentence == judge(read_trace(directory))[1].sentence
    assert plain_oracle.judge(directory, ("liveness",))["liveness"] == (outcome, 0)
    (certified,) = verify(spark, [directory], certify=True).runs
    assert certified.verdicts[1].outcome == outcome


def test_what_is_certainly_late_is_broken_beside_what_has_no_time(spark: SparkSession, tmp_path: Path) -> None:
    made = four_events()
    made.deliver(1, made.publish(0), t_true=made.now + 10**10)
    directory = write_trace(tmp_path, untimed(made.trace, 0))
    made.trace.rows[Kind.DELIVER].insert(0, made.trace.rows[Kind.DELIVER].pop())
    directory = write_trace(tmp_path, untimed(made.trace, 2))
    (judged,) = verify(spark, [directory]).runs
    checked = judge(read_trace(directory))[1]
    assert (checked.outcome, checked.count) == (Outcome.BROKEN, 2), "one came late, and one never"
    assert (judged.verdicts[1].outcome, judged.verdicts[1].count) == (checked.outcome, checked.count)
    assert judged.verdicts[1].sentence == checked.sentence


# --- descriptions ---

IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"rows": -1}, "`$.rows`"),
    ({"reach_min": 7.5}, "`$.reach_min`"),
    ({"nodes": [0, 1]}, "which nodes does not name"),
    ({"phases": {"heal_at": 0, "live_from": 0, "live_until": 1, "deadline_ns": 2**63 - 1}}, "`$.phases.deadline_ns`"),
    ({"phases": {"heal_at": -1, "live_from": 0, "live_until": 1, "deadline_ns": 1}}, "heal_at is -1"),
    ({"epsilon": 2**40, "tick_ns": 2**40}, "its epsilon of 1099511627776 ticks"),
    ({"nodes": [0, 1, 2, 2**40]}, "`$.nodes[3]`"),
    ({"parameters": {"drift_max": 1}}, "drift_max is 1"),
    ({"parameters": {"tickets": 10**12}}, "tickets is 1000000000000"),
    ({"parameters": {"drift_max": "much"}}, "drift_max is 'much'"),
]


def redescribed(directory: Path, **other: Any) -> None:
    described = json.loads((directory / RUN_FILE).read_text())
    (directory / RUN_FILE).write_text(json.dumps(described | other))


@pytest.mark.parametrize(("other", "said"), IMPOSSIBLE)
def test_a_description_that_cannot_be_true_is_set_aside(
    tmp_path: Path, capsys: Capture, other: dict[str, Any], said: str
) -> None:
    for run_id in ("bad", "good"):
        write_trace(tmp_path, stopped_in_order(run_id))
    redescribed(tmp_path / "run_id=bad", **other)
    code, told, err = printed(capsys, "verify", str(tmp_path), "--engine", "local")
    assert (code, list(told["runs"])) == (2, ["good"])
    assert said in err
    code, told, err = printed(capsys, "check", str(tmp_path / "run_id=bad"))
    assert (code, "verdicts" in told) == (2, False)
    assert said in err


def test_where_more_rows_are_there_than_were_written_nothing_holds(spark: SparkSession, tmp_path: Path) -> None:
    directory = write_trace(tmp_path, stopped_in_order("r"))
    written = json.loads((directory / RUN_FILE).read_text())["rows"]
    redescribed(directory, rows=10)
    (judged,) = verify(spark, [directory]).runs
    checked = judge(read_trace(directory))
    for verdicts in (judged.verdicts, checked):
        assert not {Outcome.HOLDS, Outcome.BROKEN} & {each.outcome for each in verdicts}
        said = f"the trace contradicts itself: 10 rows were written, and {written:,} are there"
        assert {each.sentence for each in verdicts if each.outcome is Outcome.UNKNOWN} == {said}


def test_members_that_did_nothing_are_members(tmp_path: Path) -> None:
    directory = write_trace(tmp_path, stopped_in_order("r"))
    redescribed(directory, nodes=list(range(40)))
    assert Outcome.HOLDS in outcomes(here(directory)["r"])


def test_rows_of_a_kind_that_no_trace_has_are_named(spark: SparkSession, tmp_path: Path, capsys: Capture) -> None:
    directory = write_trace(tmp_path, stopped_in_order("r"))
    (directory / "kind=empty").mkdir()
    assert printed(capsys, "verify", str(tmp_path), "--engine", "local")[0] == 0
    (directory / "kind=deliver").rename(directory / "kind=banana")
    assert len(verify(spark, [tmp_path]).set_aside) == 1
    for arguments in (["check", str(directory)], ["verify", str(tmp_path), "--engine", "local"]):
        code, _, err = printed(capsys, *arguments)
        assert code == 2
        assert "kind=banana" in err
        assert "of a kind that no trace has" in err


# --- files ---


def test_a_link_to_itself_sets_its_file_aside(tmp_path: Path, capsys: Capture) -> None:
    for run_id in ("bad", "good"):
        write_trace(tmp_path, stopped_in_order(run_id))
    file = next((tmp_path / "run_id=bad" / "kind=deliver").glob("*.parquet"))
    file.unlink()
    file.symlink_to(file.name)
    code, told, err = printed(capsys, "verify", str(tmp_path), "--engine", "local")
    assert (code, [each["path"] for each in told["set_aside"]]) == (2, [str(file)])
    assert "holds" in told["runs"]["good"].values()
    assert "it cannot be read: Too many levels" in err
    assert printed(capsys, "check", str(tmp_path / "run_id=bad"))[0] == 2


def slice_again(directory: Path) -> None:
    file = next((directory / "kind=deliver").glob("*.parquet"))
    file.with_name("part-00001.parquet").write_bytes(file.read_bytes())


def one_row_again(directory: Path) -> None:
    file = next((directory / "kind=deliver").glob("*.parquet"))
    rewrite(file, lambda table: pa.concat_tables([table, table.slice(0, 1)]))


@pytest.mark.parametrize("damage", [slice_again, one_row_again])
def test_check_and_verify_say_alike_that_rows_are_there_twice(
    tmp_path: Path, capsys: Capture, damage: Callable[[Path], None]
) -> None:
    directory = write_trace(tmp_path, stopped_in_order("r"))
    clean = printed(capsys, "check", str(directory))[1]["verdicts"]
    damage(directory)
    for arguments in (["check", str(directory)], ["verify", str(directory), "--engine", "local"]):
        code, told, err = printed(capsys, *arguments)
        assert (code, told["verdicts"]) == (0, clean)
        assert "there twice" in err


def test_a_run_under_another_name_is_called_one(tmp_path: Path, capsys: Capture) -> None:
    directory = write_trace(tmp_path, stopped_in_order("r")).rename(tmp_path / "other")
    assert printed(capsys, "check", str(directory))[0] == 0
    code, _, err = printed(capsys, "verify", str(directory), "--engine", "local")
    assert code == 2
    assert "must be called run_id=r" in err


def test_a_uri_of_a_file_is_decoded(tmp_path: Path, capsys: Capture) -> None:
    directory = write_trace(tmp_path / "of two words", stopped_in_order("r"))
    assert "%20" in directory.as_uri()
    assert printed(capsys, "verify", directory.as_uri(), "--engine", "local")[0] == 0
