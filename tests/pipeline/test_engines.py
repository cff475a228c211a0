"""The local engine means by PySpark's words what Spark means, is taken where it suits, and says what it cannot do.

That it judges every trace of these tests like Spark, to the byte, is held where they are judged (engines.py).
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.check.trace_builder import TraceBuilder
from tests.pipeline.engines import measured_tables, merged_here
from tests.pipeline.logs import made_log, write_files
from tests.pipeline.test_agreement import clean_traces
from tests.pipeline.test_report import live_trace
from whence.errors import UsageError
from whence.pipeline import engine as engines
from whence.pipeline.batch import MergeCounts
from whence.pipeline.engine import LOCAL_BYTES_MAX, Engine, local_bytes, run_on
from whence.pipeline.events import find_input
from whence.pipeline.frames import F, Window
from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.session import is_local_engine, local_session
from whence.pipeline.metrics import measures, ticket_timeline
from whence.trace.schema import Kind
from whence.trace.writer import write_trace

FEW_LEVELS = ("fifo", "optimistic", "causal", "total")


def test_tables_of_metrics_have_the_same_columns_types_and_rows_on_both_engines(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Runs with gaps, tickets, groups and crashes, and one without true time."""
    for name, trace in clean_traces(1):
        if name.startswith(FEW_LEVELS):
            trace.run.run_id = name
            write_trace(tmp_path, trace)
    write_trace(tmp_path, live_trace(asks=True))
    tables = measured_tables(spark, find_input([tmp_path]))
    assert all(len(lines) > 5 for lines in tables.values())


def taken(engine: Engine, size: int, **asked: bool) -> str:
    """Return which engine a job was given to."""
    spark: Any = "spark"
    return run_on(engine, size, lambda given: "local" if is_local_engine(given) else str(given), lambda: spark, **asked)


def test_small_input_is_for_the_local_engine_unless_somebody_asks_for_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHENCE_MASTER", raising=False)
    assert taken(Engine.AUTO, 1000) == taken(Engine.LOCAL, local_bytes() + 1) == "local"
    assert taken(Engine.AUTO, local_bytes() + 1) == taken(Engine.SPARK, 1000) == "spark"
    assert taken(Engine.AUTO, 1000, asks_spark=True) == taken(Engine.AUTO, 1000, is_here=False) == "spark"
    with pytest.raises(UsageError, match="does not know places behind a URI"):
        taken(Engine.LOCAL, 1000, is_here=False)
    monkeypatch.setenv("WHENCE_MASTER", "local[2]")
    assert taken(Engine.AUTO, 1000) == "spark"


def test_the_local_engine_gets_what_takes_half_of_the_memory_and_no_more_than_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(engines, "_CONTAINER", limit)
    limit.write_text(f"{6 << 20}\n")
    assert local_bytes() == 1 << 20
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 12 << 18}.__getitem__)
    for without in ("max\n", "", str(1 << 60)):
        limit.write_text(without)
        assert local_bytes() == 2 << 30
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 30}.__getitem__)
    assert local_bytes() == LOCAL_BYTES_MAX


def test_what_the_local_engine_does_not_know_is_done_by_spark_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHENCE_MASTER", raising=False)
    spark: Any = "spark"

    def job(given: Any) -> str:
        return str(F.soundex("name")) if is_local_engine(given) else given

    assert run_on(Engine.AUTO, 1, job, lambda: spark) == "spark"
    with pytest.raises(UsageError, match="does not know the function soundex; give --engine spark"):
        run_on(Engine.LOCAL, 1, job, lambda: spark)


@pytest.mark.parametrize("strange", ["rollup", "hint", "mapInArrow"])
def test_a_method_that_is_not_there_is_refused_by_name(strange: str) -> None:
    with local_session() as local, pytest.raises(NotLocal, match=strange):
        getattr(local.createDataFrame([(1,)], "a int"), strange)


def test_a_trace_is_judged_where_there_is_no_spark(tmp_path: Path) -> None:
    """Neither PySpark nor Java is looked for, and nothing is loaded that takes longer than the judgement: not pandas,
    and not what other commands need."""
    out = write_trace(tmp_path, dict(clean_traces(1))["fifo-none-1"])
    words = (
        "import sys; sys.modules['pyspark'] = None; from whence.cli.app import run; "
        f"code = run(['verify', {str(out)!r}, '--json']); left = {{'pandas', 'whence.core', 'whence.net'}}; "
        "assert not left & {*sys.modules}, left & {*sys.modules}; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)["verdicts"].values()) <= {"holds", "vacuous", "unknown"}


@pytest.mark.parametrize("by_group", [True, False])
def test_plain_logs_are_merged_here_and_others_are_left_to_spark(tmp_path: Path, by_group: bool) -> None:
    """Large numbers of publishers, duplicates and lines of JSON are plain; one row without a place is not."""
    rows = [row | {"pid": row["pid"] * (1 << 59) + 1} for row in made_log(8, events=80)]
    write_files(tmp_path / "logs", [*rows, *rows[5:9]], 2, 0)
    lines = [json.dumps(row | {"seq": row["seq"] + 1000, "payload": "text"}) for row in rows[:20]]
    (tmp_path / "logs" / "more.ndjson").write_text("\n".join(lines), encoding="utf-8")
    done = merged_here(tmp_path / "logs", tmp_path / "out", {}, by_group=by_group)
    assert done == MergeCounts(104, 100, 4, 0, 0, 0)
    assert (tmp_path / "out" / "_SUCCESS").exists()
    (tmp_path / "logs" / "last.ndjson").write_text('{"pid": 1, "seq": "x", "l": 1}', encoding="utf-8")
    assert merged_here(tmp_path / "logs", tmp_path / "none", {}, by_group=by_group) is None
    assert not (tmp_path / "none").exists()


# --- words ---


def values(rows: Any, *columns: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows.select(*columns).collect()]


def test_the_end_of_a_lease_is_the_same_to_the_nanosecond_on_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    """How late a process was is divided by the rate of its clock; a part of a nanosecond is cut off, not rounded."""
    made = TraceBuilder((0, 1), run_id="r", parameters={"promises": ["ticket_exclusivity"], "drift_max": 0.01})
    for late_ns in (98, 99, 100, 149, 150, 198, 1_000_001, -150):
        made.row(Kind.TICKET_ACQUIRE, 0, ticket=late_ns, epoch=1, value=1)
        made.row(Kind.TICKET_SUSPEND, 0, ticket=late_ns, epoch=1, late_ns=late_ns)
    found = find_input([write_trace(tmp_path, made.trace)])
    assert len(measured_tables(spark, found)["ticket_holds"]) > 8
    with local_session() as local, measures(local, found) as tables:
        untils = {row["ticket"]: row["until"] for row in ticket_timeline(tables).collect()}
    ends = {row["ticket"]: row["t_true"] for row in made.trace.records(Kind.TICKET_SUSPEND)}
    assert untils == {late_ns: ends[late_ns] - int(late_ns / (1 - 0.01)) for late_ns in ends}


def test_nulls_come_first_and_last_where_the_order_falls() -> None:
    with local_session() as local:
        rows: Any = local.createDataFrame([(2,), (None,), (1,)], "a int")
        assert values(rows.orderBy("a"), "a") == [(None,), (1,), (2,)]
        assert values(rows.orderBy(F.desc("a")), "a") == [(2,), (1,), (None,)]


def test_collected_lists_leave_nulls_out_and_the_value_beside_a_maximum_may_be_null() -> None:
    with local_session() as local:
        rows: Any = local.createDataFrame([(1, 5), (None, 9), (3, None)], "a int, b int")
        made = rows.agg(F.collect_list("a").alias("a"), F.max_by("a", "b").alias("b"), F.sum("a").alias("c"))
        ((listed, beside, total),) = [tuple(row) for row in made.collect()]
        assert (sorted(listed), beside, total) == ([1, 3], None, 4)


def test_it_is_unknown_whether_one_of_some_is_so_if_it_is_unknown_of_one_and_so_of_none() -> None:
    with local_session() as local:
        rows: Any = local.createDataFrame([([1, 5],), ([1, None],), ([1],), ([],), (None,)], "a array<int>")
        found = values(rows, F.exists("a", lambda each: each > 3).alias("is_so"))
        assert sorted(map(str, (value for (value,) in found))) == ["False", "False", "None", "None", "True"]


def test_structs_compare_by_place_whatever_their_fields_are_called() -> None:
    with local_session() as local:
        rows: Any = local.createDataFrame([(1, 2, 1, 3), (1, 3, 1, 2)], "a int, b int, c int, d int")
        assert values(rows.filter(F.struct("a", "b") < F.struct("c", "d")), "b") == [(2,)]


def test_bits_that_leave_a_long_are_gone_and_its_highest_is_its_sign() -> None:
    with local_session() as local:
        rows: Any = local.createDataFrame([(1, 63), (3, 63), (5, 1), (2, 62)], "a bigint, n int")
        shifted = values(rows, F.call_function("shiftleft", F.col("a"), F.col("n")).alias("a"))
        assert sorted(shifted) == [(-(2**63),), (-(2**63),), (-(2**63),), (10,)]


def test_numbers_are_written_with_commas_and_rounded_where_they_have_places() -> None:
    with local_session() as local:
        rows: Any = local.createDataFrame([(1234567, 1234.565), (-12, 0.0)], "a bigint, b double")
        shown = values(rows, F.format_number("a", 0).alias("a"), F.format_number("b", 1).alias("b"))
        assert sorted(shown) == [("-12", "0.0"), ("1,234,567", "1,234.6")]


def test_a_window_looks_at_the_rows_before_and_numbers_them() -> None:
    with local_session() as local:
        given = [("x", 1, 7), ("x", 2, 3), ("x", 3, 9), ("y", 1, 5)]
        rows: Any = local.createDataFrame(given, "g string, t int, v int")
        line = Window.partitionBy("g").orderBy("t")
        before = F.max("v").over(line.rowsBetween(Window.unboundedPreceding, -1))
        found = values(rows, "g", F.row_number().over(line).alias("n"), before.alias("before"))
        assert sorted(found, key=str) == [("x", 1, None), ("x", 2, 7), ("x", 3, 7), ("y", 1, None)]
