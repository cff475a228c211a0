"""Payloads become columns by a schema, JSON and typed values alike; what does not fit is null, and no row is lost."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import Row, SparkSession

from whence.errors import UsageError
from whence.pipeline.batch import merge_logs
from whence.pipeline.payloads import decoded_payloads
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.trace.schema import M_SEQ, PAYLOAD, Kind
from whence.trace.writer import write_trace

SCHEMA = "flight string, gate int, at timestamp, tags array<string>, where struct<x: double, y: double>"
AT = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)


class Place(msgspec.Struct, array_like=True):
    x: float
    y: float


class Flight(msgspec.Struct):
    flight: str
    gate: int
    at: datetime
    tags: list[str]
    where: Place


def fields(row: Row) -> tuple[object, ...] | None:
    value = row["value"]
    if value is None:
        return None
    where = value["where"] and tuple(value["where"])
    return value["flight"], value["gate"], value["at"] and value["at"].replace(tzinfo=UTC), value["tags"], where


def test_typed_and_json_payloads_become_columns_by_a_schema(spark: SparkSession) -> None:
    whole = Flight("WH1", 7, AT, ["late", "full"], Place(1.5, 2.0))
    as_map = {"x": 1.5, "y": 2.0}
    rows = [
        ("msgpack", msgspec.msgpack.encode(whole)),
        ("msgpack", msgspec.msgpack.encode({"flight": "WH2", "gate": "seven", "more": 1})),
        ("msgpack", b"\xc1 no MessagePack"),
        ("msgpack", None),
        ("json", msgspec.json.encode(msgspec.to_builtins(whole) | {"where": as_map})),
        ("json", b'{"flight": "WH2", "gate": "seven"}'),
        ("json", b"\xff no JSON"),
        ("json", b'{"gate": 1}{"gate": 2}'),
        ("json", b'{"gate": 1}, {"gate": 2}'),
        ("json", b"{'gate': 1}"),
        ("json", None),
        ("json", b"1"),
        ("json", b'{"gate": 3} '),
    ]
    table = spark.createDataFrame(list(enumerate(rows)), "at int, row struct<kind: string, payload: binary>")
    table = table.select("at", "row.kind", "row.payload")
    typed = decoded_payloads(table.filter("kind = 'msgpack'"), SCHEMA, "msgpack").orderBy("at").collect()
    as_text = decoded_payloads(table.filter("kind = 'json'"), SCHEMA).orderBy("at").collect()
    expected = ("WH1", 7, AT, ["late", "full"], (1.5, 2.0))
    half = ("WH2", None, None, None, None)
    assert [fields(row) for row in typed] == [expected, half, None, None]
    assert [fields(row) for row in as_text][:2] == [expected, half]
    assert [fields(row) for row in as_text][2:8] == [None] * 6
    assert fields(as_text[8]) == (None, 3, None, None, None)


def test_schemas_and_encodings_that_are_none_are_refused(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(b"",)], "payload binary")
    with pytest.raises(UsageError, match="give names and types"):
        decoded_payloads(rows, "no schema, at all")
    with pytest.raises(UsageError, match="json or msgpack"):
        decoded_payloads(rows, "a int", "xml")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="have no void"):
        decoded_payloads(rows, "a void", "msgpack")


def test_the_payloads_of_a_trace_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    trace = run(simulation("total", 4, 12, 1, "none", {}), payloads=True).trace
    published = {(row["m_pid"], row[M_SEQ]): row[PAYLOAD] for row in trace.records(Kind.PUBLISH)}
    done = merge_logs(spark, write_trace(tmp_path / "traces", trace), tmp_path / "out", 1)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert done.rows == len(published) == 12
    assert {(row["pid"], row["seq"]): bytes(row["payload"]) for row in rows} == published
