"""The batch merge gives one order, whatever the partitions, and refuses what it cannot read in one sentence."""

import json
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.logs import in_order, key_of, made_log, write_files
from whence.cli.app import run
from whence.errors import UsageError
from whence.pipeline.logs import read_logs, read_mapping
from whence.pipeline.merge import merged_by_group, subscribed, unique_events, write_by_group, write_in_one


def test_the_order_is_the_same_for_any_partitioning(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_log(1)
    shuffled = Random(1).sample(rows, len(rows))
    write_files(tmp_path / "logs", shuffled, 3, 50)
    log = subscribed(read_logs(spark, tmp_path / "logs"), None)
    for partitions in (1, 2, 7):
        merged = merged_by_group(log, partitions).collect()
        assert sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in merged) == in_order(rows)


def test_the_merge_is_one_exchange_and_one_sort(spark: SparkSession, tmp_path: Path) -> None:
    """And no Python: every expression is one of Spark's own."""
    write_files(tmp_path / "logs", made_log(1), 2, 0)
    merged = merged_by_group(subscribed(read_logs(spark, tmp_path / "logs"), None), 3)
    plan = merged._jdf.queryExecution().executedPlan().toString()
    rows, groups = plan.split("BroadcastExchange", 1) if "BroadcastExchange" in plan else (plan, "")
    assert rows.count("Exchange") + groups.count("REPARTITION_BY_NUM") == 1
    assert plan.count("Sort [grp") == 1
    assert "payload" not in groups.split("HashAggregate")[0]
    assert "Python" not in plan


def test_one_order_over_all_groups_has_every_position_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_log(2)
    write_files(tmp_path / "logs", rows, 4, 20)
    log = subscribed(read_logs(spark, tmp_path / "logs"), None)
    write_in_one(spark, log, tmp_path / "out", 3)
    merged = sorted(spark.read.parquet(str(tmp_path / "out")).collect(), key=lambda row: row["pos"])
    assert [row["pos"] for row in merged] == list(range(len(rows)))
    assert [bytes(row["payload"]) for row in merged] == [row["payload"] for row in sorted(rows, key=key_of)]
    assert not list(tmp_path.glob(".out*"))


def test_a_group_and_its_duplicates_can_be_picked_out(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_log(3, events=60)
    write_files(tmp_path / "logs", [*rows, *rows[:10]], 2, 0)
    log = unique_events(subscribed(read_logs(spark, tmp_path / "logs"), ["g1"]))
    write_by_group(log, tmp_path / "out", 2)
    merged = spark.read.parquet(str(tmp_path / "out")).collect()
    wanted = [entry for entry in in_order(rows) if entry[0] == "g1"]
    assert sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in merged) == wanted


def test_foreign_logs_are_read_by_a_mapping_file(spark: SparkSession, tmp_path: Path) -> None:
    """NDJSON with other names: the order is that of the same events in our own form."""
    rows = made_log(4, events=60)
    foreign = [{"who": f"p{row['pid']}", "n": row["seq"], "ms": row["l"], "c": row["k"], "room": row["grp"],
                "text": row["payload"].decode()} for row in rows]  # fmt: skip
    (tmp_path / "log.ndjson").write_text("\n".join(map(json.dumps, foreign)))
    mapping = 'pid = "cast(substr(who, 2) as int)"\nseq = "n"\nl = "ms"\nk = "c"\ngrp = "room"\npayload = "text"\n'
    (tmp_path / "mapping.toml").write_text(mapping)
    log = read_logs(spark, tmp_path / "log.ndjson", read_mapping(tmp_path / "mapping.toml"))
    merged = merged_by_group(subscribed(log, None), 2).collect()
    assert sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in merged) == in_order(rows)


def test_what_cannot_be_merged_is_said_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_logs(spark, tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"no \.parquet"):
        read_logs(spark, tmp_path)
    (tmp_path / "log.ndjson").write_text('{"pid": 1, "seq": 1}\n')
    with pytest.raises(UsageError, match="has no column l"):
        read_logs(spark, tmp_path)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "log.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match="cannot be read"):
        read_logs(spark, tmp_path / "torn")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    write_files(tmp_path / "logs", made_log(1, events=9), 1, 0)
    with pytest.raises(UsageError, match="is not empty"):
        write_by_group(subscribed(read_logs(spark, tmp_path / "logs"), None), tmp_path / "full", 1)
    assert run(["merge", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 2


def test_the_command_merges_and_counts(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path / "logs", made_log(5, events=30), 2, 0)
    assert run(["merge", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 30
