"""The batch merge gives one order, whatever the partitions, and refuses what it cannot read in one sentence."""

import gzip
import json
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.engines import merge_logs, merged_here, merged_rows
from tests.pipeline.logs import Row, in_order, key_of, made_log, write_files
from whence.cli.app import run
from whence.errors import UsageError
from whence.pipeline import batch
from whence.pipeline.batch import MergeCounts
from whence.pipeline.log_reader import read_logs
from whence.pipeline.logs import log_files, read_mapping
from whence.pipeline.merge import WRITERS_MAX, events_of_groups, layout_of, merged, merged_by_group, write_merged
from whence.pipeline.session import SMALL_BYTES, configure_for_size
from whence.pipeline.sort_key import KEY_BITS, KeyPacking, key_packing
from whence.sim.lab import spec_of
from whence.sim.run import run as simulate
from whence.sim.scenarios import simulation
from whence.trace.schema import Kind
from whence.trace.writer import write_trace


def test_the_order_is_the_same_for_any_partitioning(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_log(1)
    shuffled = Random(1).sample(rows, len(rows))
    write_files(tmp_path / "logs", shuffled, 3, 50)
    log = events_of_groups(read_logs(spark, tmp_path / "logs"), None)
    for partitions in (1, 2, 7):
        merged = merged_by_group(log, partitions).collect()
        assert sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in merged) == in_order(rows)


def test_the_merge_is_one_exchange_and_one_sort(spark: SparkSession, tmp_path: Path) -> None:
    """By one long, and no Python: every expression is one of Spark's own, and positions need no window."""
    write_files(tmp_path / "logs", made_log(1), 2, 0)
    plan = merged_by_group(events_of_groups(read_logs(spark, tmp_path / "logs"), None), 3)
    text = plan._jdf.queryExecution().executedPlan().toString()
    assert text.count("Exchange") == text.count("Sort [") == 1
    assert "Sort [_nondeterministic" not in text
    assert text.split("Sort [")[1].split("]")[0].count("ASC") == 1
    assert "Window" not in text
    assert "Python" not in text


@pytest.mark.long
def test_logs_of_more_than_64_megabytes_are_merged_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Beyond the size of a small job, with compiled code and plans that adapt: the same order, to the byte."""
    rows = made_log(8, events=400_000, groups=5)
    rng = Random(8)
    for row in rows:
        row["payload"] = b"%d-%d " % (row["pid"], row["seq"]) + rng.randbytes(180)
    write_files(tmp_path / "logs", rows, 6, 100_000)
    size = sum(Path(str(file)).stat().st_size for file in log_files(tmp_path / "logs"))
    assert size > SMALL_BYTES
    partitions = configure_for_size(spark, size)
    try:
        assert partitions > 2
        log = events_of_groups(read_logs(spark, tmp_path / "logs"), None)
        assert write_merged(log, tmp_path / "out", partitions, by_group=True) == len(rows)
    finally:
        configure_for_size(spark, 0)
    got = pq.read_table(tmp_path / "out", columns=["grp", "pos", "payload"])
    merged_rows = zip(*(got.column(name).to_pylist() for name in ("grp", "pos", "payload")), strict=True)
    assert sorted(merged_rows) == in_order(rows)


def test_many_groups_share_parts_and_a_large_one_is_spread_over_several(spark: SparkSession, tmp_path: Path) -> None:
    """Forty small groups and one with most of the rows; every group's file is in order, line by line."""
    rows = made_log(6, events=300, groups=40)
    for row in rows[::2]:
        row["grp"] = "g7"
    write_files(tmp_path / "logs", rows, 3, 50)
    log = events_of_groups(read_logs(spark, tmp_path / "logs"), None)
    layout = layout_of(log, 4, by_group=True)
    assert [cut[0] for cut in layout.cuts].count("g7") >= 2
    assert len(layout.groups) > WRITERS_MAX
    got = merged(log, layout).collect()
    assert sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in got) == in_order(rows)
    write_merged(log, tmp_path / "out", 4, by_group=True)
    for file in (tmp_path / "out").rglob("*.parquet"):
        lines = pq.read_table(file, partitioning=None).column("pos").to_pylist()
        assert lines == sorted(lines)


def test_keys_that_do_not_fit_into_one_long_are_ordered_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(7)
    rows = [row | {"k_hi": rng.getrandbits(62) >> rng.choice((0, 50)), "k_mid": rng.getrandbits(2),
                   "k_lo": rng.getrandbits(63)} for row in made_log(7, events=200)]  # fmt: skip
    for row in rows[::3]:
        row["k_hi"] = rows[0]["k_hi"]
    write_files(tmp_path / "logs", rows, 2, 0)
    log = events_of_groups(read_logs(spark, tmp_path / "logs"), None)
    layout = layout_of(log, 3, by_group=False)
    assert not layout.packing.is_exact
    got = [bytes(row["payload"]) for row in sorted(merged(log, layout).collect(), key=lambda row: row["pos"])]
    wanted = sorted(rows, key=lambda row: (row["k_hi"], row["k_mid"], row["k_lo"]))
    assert got == [row["payload"] for row in wanted]


def packed_key(packing: KeyPacking, words: list[int]) -> int:
    one = 0
    for word, lowest, count in packing.runs:
        one = one << count | words[word] >> lowest & (1 << count) - 1
    return one


@pytest.mark.parametrize("seed", range(40))
def test_leaving_out_bits_that_never_differ_keeps_the_order(seed: int) -> None:
    """Exactly where they fit into one long, and up to ties where they do not."""
    rng = Random(seed)
    masks = [
        rng.getrandbits(63)
        & (rng.getrandbits(63) if seed % 2 else -1)
        & -(1 << rng.randrange(64)) >> rng.choice((0, 30, 60))
        for _ in range(3)
    ]
    same = [rng.getrandbits(63) & ~mask for mask in masks]
    rows = [[fixed | rng.getrandbits(63) & mask for fixed, mask in zip(same, masks, strict=True)] for _ in range(60)]
    varying = [0, 0, 0]
    for row in rows:
        varying = [bits | word ^ first for bits, word, first in zip(varying, row, rows[0], strict=True)]
    packing = key_packing(varying, rng.choice((0, 1, 40)))
    ordered = sorted(rows)
    ones = [packed_key(packing, row) for row in ordered]
    assert ones == sorted(ones)
    assert max(ones).bit_length() <= KEY_BITS
    if packing.is_exact:
        assert [a < b for a, b in pairwise(ones)] == [a < b for a, b in pairwise(ordered)]


def order_in(spark: SparkSession, out: Path) -> list[tuple[str, int, bytes]]:
    rows = spark.read.parquet(str(out)).collect()
    return sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in rows)


def reasons_in(spark: SparkSession, out: Path) -> dict[str, str]:
    """Return why rows were rejected, by the file they came from and what they were."""
    rows = spark.read.parquet(str(out / "_rejected")).collect()
    return {f"{Path(row['file']).name}:{row['row']}": row["reason"] for row in rows}


def test_half_a_key_and_a_group_whose_directory_stands_for_none_are_set_aside(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Half a key, filled up from other columns, would be a place that nobody meant."""
    whole = {"grp": "g", "pid": 1, "seq": 1, "l": 5}
    changes: list[Row] = [{}, {"seq": 2, "k_hi": 4}, {"seq": 3, "k_lo": 4}, {"grp": "__HIVE_DEFAULT_PARTITION__"}]
    (tmp_path / "log.ndjson").write_text("\n".join(json.dumps(whole | change) for change in changes))
    done = merge_logs(spark, tmp_path / "log.ndjson", tmp_path / "out", 1)
    assert (done.read, done.rows, done.rejected) == (4, 1, 3)
    assert sorted(row["reason"] for row in spark.read.parquet(str(tmp_path / "out" / "_rejected")).collect()) == [
        "grp is __HIVE_DEFAULT_PARTITION__, which stands for none in directories",
        "one of k_hi and k_lo is missing",
        "one of k_hi and k_lo is missing",
    ]


def test_a_group_with_a_nul_in_its_name_is_rejected_and_stops_nobody(spark: SparkSession, tmp_path: Path) -> None:
    """No file system has a directory for it. The local engine leaves such logs to Spark."""
    (logs := tmp_path / "logs").mkdir()
    rows: list[Row] = [{"grp": grp, "pid": 1, "seq": seq, "l": 5} for seq, grp in enumerate(("a\0b", "a", "\0", "b"))]
    pq.write_table(pa.Table.from_pylist(rows), logs / "log.parquet")
    (logs / "log.ndjson").write_text("\n".join(json.dumps(row | {"pid": 2}) for row in rows))
    done = merge_logs(spark, logs, tmp_path / "out", 1)
    assert (done.read, done.rows, done.rejected) == (8, 4, 4)
    wrong = spark.read.parquet(str(tmp_path / "out" / "_rejected")).collect()
    assert {row["reason"] for row in wrong} == {"grp has a NUL, which no name of a directory may have"}
    assert merged_here(logs, tmp_path / "none", {}) is None


@pytest.mark.parametrize("by_group", [True, False])
@pytest.mark.parametrize("lines", ["", "\n  \n"])
def test_a_log_without_a_line_is_merged_on_both_engines(
    spark: SparkSession, tmp_path: Path, lines: str, by_group: bool
) -> None:
    (logs := tmp_path / "logs").mkdir()
    (logs / "log.ndjson").write_text(lines)
    with gzip.open(logs / "more.ndjson.gz", "wt") as file:
        file.write(lines)
    out = tmp_path / "out"
    assert merge_logs(spark, logs, out, 1, by_group=by_group).read == 0
    nothing = merged_here(logs, tmp_path / "here", {}, by_group=by_group)
    assert nothing == MergeCounts(0, 0, 0, 0, 0, 0)
    assert (out / "_SUCCESS").exists()
    assert (tmp_path / "here" / "_SUCCESS").exists()


def test_what_is_not_json_is_rejected_by_the_line_and_by_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    """Quotes are double; of an escaped pair of surrogates both halves are there. Of a key that is there twice, the last
    value counts, as with most readers of JSON."""
    (logs := tmp_path / "logs").mkdir()
    good = [
        r'{"grp": "\ud83d\ude00", "pid": 1, "seq": 1, "l": 1}', r'{"grp": "a\\ud800", "pid": 1, "seq": 2, "l": 2}',
        '{"grp": "b", "pid": 1, "seq": 3, "seq": 4, "l": 3}', '{"grp": "it\'s", "pid": 1, "seq": 5, "l": 3}',
    ]  # fmt: skip
    escapes = (r"\ud800", r"a\uDBFF", r"\udc00\ud800", r"\ud800\ud83d\ude00", r"\ud83d\\\ude00", r"\\\ud800")
    half = [rf'{{"grp": "{grp}", "pid": 2, "seq": 1, "l": 1}}' for grp in escapes]
    none = ["{'pid': 3, 'seq': 1, 'l': 1}", '{"pid": 006, "seq": 1, "l": 1}']
    (logs / "log.ndjson").write_text("\n".join([*good, *half, *none]))
    done = merge_logs(spark, logs, tmp_path / "out", 1)
    assert (done.rows, done.rejected) == (4, 8)
    order = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {(row["grp"], row["seq"]) for row in order} == {("\U0001f600", 1), ("a\\ud800", 2), ("b", 4), ("it's", 5)}
    wrong = [row["reason"] for row in spark.read.parquet(str(tmp_path / "out" / "_rejected")).collect()]
    assert (
        sorted(wrong)
        == ["the line has half a character: one surrogate of two"] * 6 + ["the line is no JSON object"] * 2
    )
    (logs / "log.ndjson").write_text("\n".join(good))
    here = merged_here(logs, tmp_path / "here", {})
    assert here is not None
    assert merged_rows(tmp_path / "here") == merged_rows(tmp_path / "out")
    for line in (*half, *none):
        (logs / "log.ndjson").write_text(line)
        assert merged_here(logs, tmp_path / "none", {}) is None, line


def test_a_mapping_leaves_literals_alone_and_a_group_without_a_directory_stops_nobody(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows: list[Row] = [
        {"grp": grp, "pid": 1, "seq": 1, "l": "5", "text": "hi"} for grp in ("a/'\\b", "g" * 201, "/" * 90)
    ]
    (tmp_path / "log.ndjson").write_text("\n".join(json.dumps(row) for row in rows))
    mapping = {"payload": "concat('cast(x) it\\'s CAST (y) ', \"cast(z)\", text)", "l": "CAST (l as bigint)"}
    done = merge_logs(spark, tmp_path / "log.ndjson", tmp_path / "out", 1, mapping)
    assert (done.rows, done.rejected) == (1, 2)
    (row,) = spark.read.parquet(str(tmp_path / "out")).collect()
    assert bytes(row["payload"]) == b"cast(x) it's CAST (y) cast(z)hi"
    wrong = spark.read.parquet(str(tmp_path / "out" / "_rejected")).collect()
    assert {row["reason"] for row in wrong} == {"grp has more than 200 bytes as the name of a directory"}


def test_publishers_that_others_write_differently_are_neither_mixed_up_nor_taken_for_two(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A number that was rounded is another's; a UUID is the same in capitals; what is not UTF-8 is no name."""
    whole = '{"pid": %s, "seq": 1, "l": 5}'
    uuid = "5F0C9D2E-1B3A-4C5D-8E6F-7A8B9C0D1E2F"
    names = ("9007199254740993.0", "9.007199254740995e15", "1.8446744073709551615e19", "9007199254740993", "17.0",
             "18446744073709551615", f'"{uuid}"', f'"{uuid.lower()}"')  # fmt: skip
    lines = [whole.encode() % name.encode() for name in names]
    lines += [b'{"publisher": "\xff", "seq": 1, "l": 5}', b'{"publisher": "\xfe", "seq": 1, "l": 5}']
    (tmp_path / "log.ndjson").write_bytes(b"\n".join(lines))
    done = merge_logs(spark, tmp_path / "log.ndjson", tmp_path / "out", 1)
    assert (done.read, done.rows, done.twice, done.rejected) == (10, 4, 1, 5)
    merged = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {row["publisher"] or str(row["pid"]) for row in merged} == {
        "9007199254740993", "17", "18446744073709551615", uuid.lower(),
    }  # fmt: skip
    reasons = [row["reason"] for row in spark.read.parquet(str(tmp_path / "out" / "_rejected")).collect()]
    assert sorted(reason == "the line is not UTF-8" for reason in reasons) == [False] * 3 + [True] * 2
    assert all("no whole number" in reason for reason in reasons if "UTF-8" not in reason)


@pytest.mark.parametrize("by_group", [True, False])
def test_rows_without_a_place_are_set_aside_each_with_its_reason(
    spark: SparkSession, tmp_path: Path, by_group: bool
) -> None:
    """What has no room in a key would take the place of another; the greatest and the least that have are merged."""
    rows = made_log(9, events=30)
    rows[0] |= {"pid": (1 << 15) - 1, "inc": (1 << 31) - 1}
    rows[1] |= {"pid": 0, "inc": 0, "seq": 0, "l": 0}
    wrong: list[Row] = [{"l": None}, {"seq": None}, {"pid": -1}, {"seq": -3}, {"l": -4}, {"inc": -1}, {"k": 1 << 20}]
    for row, change in zip(rows[10:], wrong, strict=False):
        row |= change
    write_files(tmp_path / "logs", rows, 1, 0)
    done = merge_logs(spark, tmp_path / "logs", tmp_path / "out", 1, by_group=by_group)
    assert (done.read, done.rows, done.rejected) == (30, 23, 7)
    assert reasons_in(spark, tmp_path / "out") == {
        "part-00000.parquet:10": "l is missing",
        "part-00000.parquet:11": "seq is missing",
        "part-00000.parquet:12": "pid is -1, out of its range",
        "part-00000.parquet:13": "seq is -3, out of its range, 0 to 1,099,511,627,775",
        "part-00000.parquet:14": "l is -4, out of its range, 0 to 8,796,093,022,207",
        "part-00000.parquet:15": "inc is -1, out of its range, 0 to 2,147,483,647",
        "part-00000.parquet:16": "k is 1048576, out of its range, 0 to 1,048,575",
    }
    assert spark.read.parquet(str(tmp_path / "out")).count() == 23
    with pytest.raises(UsageError, match=r"part-00000\.parquet, row 11: l is missing: \{.grp.") as told:
        merge_logs(spark, tmp_path / "logs", tmp_path / "strict", 1, by_group=by_group, strict=True)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "strict").exists()


def test_one_order_over_all_groups_has_every_position_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_log(2)
    write_files(tmp_path / "logs", rows, 4, 20)
    log = events_of_groups(read_logs(spark, tmp_path / "logs"), None)
    assert write_merged(log, tmp_path / "out", 3, by_group=False) == len(rows)
    merged = sorted(spark.read.parquet(str(tmp_path / "out")).collect(), key=lambda row: row["pos"])
    assert [row["pos"] for row in merged] == list(range(len(rows)))
    assert [bytes(row["payload"]) for row in merged] == [row["payload"] for row in sorted(rows, key=key_of)]


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_of_an_event_that_is_there_twice_the_least_row_counts(spark: SparkSession, tmp_path: Path, parts: int) -> None:
    """Whatever the partitioning: by its key first, then by all columns; the others are kept beside, and counted."""
    rows = made_log(3, events=60)
    other = [row | {"payload": b"!" + row["payload"]} for row in rows[:10]]
    later = [row | {"l": row["l"] + 3, "payload": b""} for row in rows[20:25]]
    log = Random(parts).sample([*rows, *other, *later, *rows[40:44]], len(rows) + 19)
    write_files(tmp_path / "logs", log, 3, 0)
    done = merge_logs(spark, tmp_path / "logs", tmp_path / "out", parts)
    assert (done.read, done.rows, done.twice) == (79, 60, 19)
    assert order_in(spark, tmp_path / "out") == in_order([*other, *rows[10:]])
    beside = spark.read.parquet(str(tmp_path / "out" / "_twice")).collect()
    assert sorted(bytes(row["payload"]) for row in beside) == sorted(
        row["payload"] for row in [*rows[:10], *later, *rows[40:44]]
    )
    one_group = merge_logs(spark, tmp_path / "logs", tmp_path / "g1", parts, groups=["g1"])
    assert order_in(spark, tmp_path / "g1") == [each for each in in_order([*other, *rows[10:]]) if each[0] == "g1"]
    assert one_group.rows + one_group.twice + one_group.elsewhere == 79


def test_events_with_one_key_are_ordered_by_who_published_them(spark: SparkSession, tmp_path: Path) -> None:
    """Keys that others made may be the same; then publisher and number decide, and no event takes another's place."""
    rows = [row | {"k_hi": 7, "k_mid": 0, "k_lo": row["seq"] % 3} for row in made_log(5, events=80, groups=1)]
    write_files(tmp_path / "logs", Random(1).sample(rows, 80), 4, 0)
    wanted = sorted(rows, key=lambda row: (row["k_lo"], row["pid"], row["seq"]))
    for by_group in (True, False):
        done = merge_logs(spark, tmp_path / "logs", tmp_path / f"out-{by_group}", 3, by_group=by_group)
        assert (done.rows, done.twice) == (80, 0)
        got = sorted(spark.read.parquet(str(tmp_path / f"out-{by_group}")).collect(), key=lambda row: row["pos"])
        assert [bytes(row["payload"]) for row in got] == [row["payload"] for row in wanted]


def test_numbers_that_begin_anew_in_each_group_are_no_duplicates(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row | {"grp": grp, "payload": grp.encode() + row["payload"]} for grp in ("b", "a")
            for row in made_log(6, events=40, groups=1)]  # fmt: skip
    write_files(tmp_path / "logs", rows, 2, 0)
    done = merge_logs(spark, tmp_path / "logs", tmp_path / "out", 3, by_group=False)
    assert (done.rows, done.twice) == (80, 0)
    got = sorted(spark.read.parquet(str(tmp_path / "out")).collect(), key=lambda row: row["pos"])
    wanted = sorted(rows, key=lambda row: (key_of(row), row["grp"]))
    assert [bytes(row["payload"]) for row in got] == [row["payload"] for row in wanted]


def test_foreign_logs_are_read_by_a_mapping_file(spark: SparkSession, tmp_path: Path) -> None:
    """NDJSON with other names: the order is that of the same events in our own form."""
    rows = made_log(4, events=60)
    foreign = [{"who": f"p{row['pid']}", "n": row["seq"], "ms": row["l"], "c": row["k"], "room": row["grp"],
                "text": row["payload"].decode()} for row in rows]  # fmt: skip
    (tmp_path / "log.ndjson").write_text("\n".join(map(json.dumps, foreign)))
    mapping = 'pid = "cast(substr(who, 2) as int)"\nseq = "n"\nl = "ms"\nk = "c"\ngrp = "room"\npayload = "text"\n'
    (tmp_path / "mapping.toml").write_text(mapping)
    log = read_logs(spark, tmp_path / "log.ndjson", read_mapping(tmp_path / "mapping.toml"))
    merged = merged_by_group(events_of_groups(log, None), 2).collect()
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
    with pytest.raises(UsageError, match=r"log\.parquet: the file cannot be read: .*"):
        read_logs(spark, tmp_path / "torn")
    for expression in ("nosuch", "1 +"):
        with pytest.raises(UsageError, match=r"--mapping: l = .* does not fit .*log\.ndjson") as said:
            read_logs(spark, tmp_path / "log.ndjson", {"seq": "seq", "l": expression})
        assert "\n" not in str(said.value)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    write_files(tmp_path / "logs", made_log(1, events=9), 1, 0)
    with pytest.raises(UsageError, match="is not empty"):
        merge_logs(spark, tmp_path / "logs", tmp_path / "full", 1)
    assert run(["merge", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 2


def test_the_command_merges_and_counts(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path / "logs", made_log(5, events=30), 2, 0)
    assert run(["merge", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 30


def test_the_mapping_of_the_documents_reads_lines_of_json_as_others_write_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Times as text, numbers as text, and a value that cannot be cast, which costs nobody else their row."""
    page = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")
    (tmp_path / "mapping.toml").write_text("pid = " + page.split("\npid = ")[1].split("```")[0])
    lines: list[Row] = [
        {"who": f"p{at % 3}", "n": str(at), "sent_at": f"2026-01-01T00:00:{59 - at:02d}.25Z", "text": f"t{at}"}
        for at in range(20)
    ]
    lines += [{"who": "px", "n": 1, "sent_at": "2026-01-01", "text": "a"}, {"who": "p1", "n": 99, "sent_at": "noon"}]
    (tmp_path / "log.ndjson").write_text("\n".join(map(json.dumps, lines)))
    mapping = read_mapping(tmp_path / "mapping.toml")
    done = merge_logs(spark, tmp_path / "log.ndjson", tmp_path / "out", 2, mapping)
    assert (done.rows, done.rejected) == (20, 2)
    assert [payload for _, _, payload in order_in(spark, tmp_path / "out")] == [
        b"t%d" % at for at in reversed(range(20))
    ]


@pytest.mark.parametrize("level", ["total", "total-strict"])
def test_the_merge_of_a_trace_of_total_order_is_what_its_members_delivered(
    spark: SparkSession, tmp_path: Path, level: str
) -> None:
    trace = simulate(simulation(level, 6, 40, 1, "none")).trace
    write_trace(tmp_path / "traces", trace)
    merge_logs(spark, tmp_path / "traces", tmp_path / "out", 2)
    delivered = [(row["m_pid"], row["m_seq"]) for row in trace.records(Kind.DELIVER) if row["node"] == 3]
    assert len(delivered) == 40
    got = sorted(spark.read.parquet(str(tmp_path / "out")).collect(), key=lambda row: row["pos"])
    assert [(row["pid"], row["seq"]) for row in got] == delivered


def test_a_group_without_an_event_is_refused_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write_trace(tmp_path / "traces", simulate(simulation("fifo", 4, 5, 1, "none")).trace)
    logs, out, groups = tmp_path / "traces", tmp_path / "out", ["nobody's"]
    for merge in (partial(merged_here, logs, out, {}), partial(batch.merge_logs, spark, logs, out, 2)):
        with pytest.raises(UsageError, match='no event is of group "nobody\'s"; 5 are of other groups'):
            merge(groups=groups)
        assert not (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.parametrize("level", ["fifo", "total"])
def test_a_trace_is_a_log_by_its_keys_or_by_true_time(spark: SparkSession, tmp_path: Path, level: str) -> None:
    trace = simulate(simulation(level, 6, 20, 1, "none"), spec_of(level, None)).trace
    write_trace(tmp_path / "traces", trace)
    done = merge_logs(spark, tmp_path / "traces", tmp_path / "out", 2)
    rows = list(trace.records(Kind.PUBLISH))
    by = ("k_hi", "k_mid", "k_lo") if level == "total" else ("t_true", "m_pid", "m_inc", "m_seq")
    wanted = [(row["m_pid"], row["m_seq"]) for row in sorted(rows, key=lambda row: [row[name] for name in by])]
    assert done.rows == len(rows) > 0
    got = sorted(spark.read.parquet(str(tmp_path / "out")).collect(), key=lambda row: row["pos"])
    assert [(row["pid"], row["seq"]) for row in got] == wanted
    trace.run.run_id = "another"
    write_trace(tmp_path / "traces", trace)
    with pytest.raises(UsageError, match="they are of 2 runs, whose events are numbered alike"):
        merge_logs(spark, tmp_path / "traces", tmp_path / "more", 2)
