"""A running group as a DataFrame: every row its nodes wrote, once, whatever is restarted in between."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from whence.errors import UsageError
from whence.pipeline import api
from whence.pipeline.source import LiveSource, LiveStreamReader, use_live_source
from whence.pipeline.storage import UriPath
from whence.trace.schema import COLUMNS_OF, Kind
from whence.trace.segments import TraceSegmentWriter, whole_until


def told(spool: TraceSegmentWriter, node: int, first: int, count: int) -> None:
    """A node that publishes and delivers its own events, so many of each."""
    for seq in range(first, first + count):
        for at, kind in enumerate((Kind.PUBLISH, Kind.DELIVER)):
            given = {"node": node, "inc": 1, "ev": 2 * (seq - 1) + at, "t_clk": seq, "grp": "alps",
                     "m_pid": node, "m_inc": 1, "m_seq": seq}  # fmt: skip
            if kind is Kind.PUBLISH:
                given["dests"] = (0, 1)
            spool.add(kind, tuple(given.get(name) for name in COLUMNS_OF[kind]))
        spool.flush()


def numbers(rows: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["node"], row["ev"]) for row in rows.select("node", "ev").collect())


def test_a_batch_reads_what_is_there_and_leaves_a_torn_record_for_later(spark: SparkSession, tmp_path: Path) -> None:
    use_live_source(spark)
    spool = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 1)
    told(spool, 0, 1, 3)
    spool.close()
    TraceSegmentWriter(tmp_path, "other", "fifo", 5, 1).close()
    segment = next(tmp_path.glob("spool-*-0-1-*"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-3])
    reader = spark.read.format("whence").option("group", "alps")
    assert numbers(reader.load(str(tmp_path))) == [(0, ev) for ev in range(4)]
    segment.write_bytes(whole)
    live = reader.load(str(tmp_path))
    assert numbers(live) == [(0, ev) for ev in range(6)]
    published = live.filter("kind = 'publish'").collect()
    assert {tuple(row["dests"]) for row in published} == {(0, 1)}


def test_rows_have_the_names_of_their_process_and_of_the_publisher_and_payloads(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One process has no name, and one that published left no segment here."""
    use_live_source(spark)
    columns = COLUMNS_OF[Kind.DELIVER]
    for node, name in ((0, "billing-1"), (1, ""), (2, "gates")):
        spool = TraceSegmentWriter(tmp_path, "alps", "fifo", node, 1, about={"name": name})
        for ev, publisher in enumerate((0, 1, 9)):
            given = {"node": node, "inc": 1, "ev": ev, "t_clk": ev, "grp": "alps", "m_pid": publisher, "m_inc": 1,
                     "m_seq": 1, "payload": b"paid"}  # fmt: skip
            spool.add(Kind.DELIVER, tuple(given.get(column) for column in columns))
        spool.close()
    rows = spark.read.format("whence").option("group", "alps").load(str(tmp_path))
    everywhere = api.read_live(spark, tmp_path, group="alps")
    assert everywhere.columns == rows.columns
    assert sorted(everywhere.collect(), key=repr) == sorted(rows.collect(), key=repr)
    assert {bytes(row["payload"]) for row in rows.collect()} == {b"paid"}
    told = [(row["name"], row["publisher"]) for row in rows.orderBy("node", "ev").collect()]
    assert told == [(name, who) for name in ("billing-1", None, "gates") for who in ("billing-1", None, None)]
    segment = str(next(tmp_path.glob("*-2-1-*")).name)
    reader = LiveStreamReader(tmp_path, "alps")
    (part,) = reader.partitions({}, {segment: whole_until(tmp_path / segment, 0)})
    assert [batch.column("name").to_pylist() for batch in reader.read(part)] == [["gates"] * 3]


def test_a_stream_reads_every_row_once_across_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """Segments grow, nodes come, segments follow each other, and the query is stopped and started in between."""
    use_live_source(spark)
    spools = tmp_path / "spools"
    first = TraceSegmentWriter(spools, "alps", "fifo", 0, 1, segment_bytes=300)
    second: TraceSegmentWriter | None = None
    for turn in range(2):
        told(first, 0, 1 + 4 * turn, 4)
        if turn:
            second = second or TraceSegmentWriter(spools, "alps", "fifo", 1, 1)
            told(second, 1, 1, 2)
        live = spark.readStream.format("whence").option("group", "alps").load(str(spools))
        query = live.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()
        wanted = [(0, ev) for ev in range(8 * (turn + 1))] + [(1, ev) for ev in range(4 * turn)]
        assert numbers(spark.read.parquet(str(tmp_path / "out"))) == wanted
    assert len(list(spools.glob("spool-*-0-1-*"))) > 1
    first.close()
    assert second is not None
    second.close()


def test_offsets_are_bytes_of_segments_and_vanished_ones_are_passed_over(tmp_path: Path) -> None:
    spool = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 1, segment_bytes=200, segments_max=2)
    reader = LiveStreamReader(tmp_path, "alps")
    assert reader.latestOffset(reader.initialOffset()).keys() == {path.name for path in tmp_path.glob("*.rows")}
    told(spool, 0, 1, 2)
    early = reader.latestOffset({})
    told(spool, 0, 3, 8)
    late = reader.latestOffset(early)
    assert late.keys() > early.keys()
    rows = [batch.num_rows for part in reader.partitions({}, late) for batch in reader.read(part)]
    spool.close()
    assert 0 < sum(rows) < 20
    assert reader.partitions(late, late) == []


def test_what_cannot_be_read_is_said_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    use_live_source(spark)
    with pytest.raises(Exception, match="must name the group"):
        spark.read.format("whence").load(str(tmp_path)).count()
    with pytest.raises(Exception, match="needs the directory"):
        spark.read.format("whence").option("group", "alps").load(str(tmp_path / "nowhere")).count()
    behind_a_uri = LiveSource({"path": "s3a://bucket/live", "group": "alps"})
    for reader in (behind_a_uri.reader, behind_a_uri.streamReader):
        with pytest.raises(
            UsageError,
            match=r"not s3a://bucket/live: Spark gives .* gather --follow\) reads .*read_trace and read_logs",
        ):
            reader(None)


def test_behind_a_uri_a_function_reads_what_the_format_reads_on_disk(
    spark: SparkSession, tmp_path: Path, mounted: UriPath
) -> None:
    """A segment whose last record is torn, one of which nothing is whole yet, and one of another group."""
    for node in (0, 1):
        spool = TraceSegmentWriter(tmp_path / "behind", "alps", "fifo", node, 1, about={"name": f"n{node}"})
        told(spool, node, 1, 3)
        spool.close()
    TraceSegmentWriter(tmp_path / "behind", "other", "fifo", 5, 1).close()
    first, second = sorted((tmp_path / "behind").glob("spool-616c7073-*"))
    first.write_bytes(first.read_bytes()[:-3])
    second.write_bytes(second.read_bytes()[:7])
    use_live_source(spark)
    rows = api.read_live(spark, str(mounted), group="alps")
    on_disk = spark.read.format("whence").option("group", "alps").load(str(tmp_path / "behind"))
    assert numbers(rows) == numbers(on_disk) == [(0, ev) for ev in range(4)]
    assert {row["name"] for row in rows.collect()} == {"n0"}
    with pytest.raises(UsageError, match="give the directories that live nodes write traces to"):
        api.read_live(spark, str(mounted / "nowhere"), group="alps")


def test_a_directory_may_be_named_by_its_uri(spark: SparkSession, tmp_path: Path) -> None:
    use_live_source(spark)
    spool = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 1)
    told(spool, 0, 1, 3)
    spool.close()
    live = spark.read.format("whence").option("group", "alps").load(tmp_path.as_uri())
    assert numbers(live) == [(0, ev) for ev in range(6)]
