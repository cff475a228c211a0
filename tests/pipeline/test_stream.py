"""The streaming merge releases what the batch merge would, once each and in order, whatever kills it and when."""

import gzip
import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.kills import command_of, finished, killed
from tests.pipeline.logs import FIRST_LANDING, Row, in_order, key_of, made_log, write_files
from whence.cli.app import run as command
from whence.core.clocks.stamp import Timing
from whence.core.levels.total.merge_buffer import MergeBuffer, entry_of
from whence.errors import InternalError, StorageError, UsageError
from whence.limits import MergeLimits
from whence.pipeline import stream_step
from whence.pipeline.batch import merge_logs
from whence.pipeline.manifest import LATE, REJECTED, Manifest, committed_steps, read_manifest, read_released
from whence.pipeline.pending_files import PendingFiles
from whence.pipeline.stream import run_stream
from whence.pipeline.stream_step import Mode, Rules, StreamMerge
from whence.store.lock import locked
from whence.types import Process, packed

CALM = Rules(epsilon=5, delta=200)
BRISK = Rules(epsilon=5, delta=20)
HASTY = Rules(epsilon=1, delta=2)


def released(spark: SparkSession, out: Path, cls: str = "released") -> list[tuple[str, int, bytes]]:
    rows = read_released(spark, out, cls).collect()
    return sorted((row["grp"], row["pos"] if cls == "released" else 0, bytes(row["payload"])) for row in rows)


def streamed(spark: SparkSession, tmp_path: Path, rules: Rules, **how: Any) -> None:
    how = {"once": True, "flush": True, "files_per_batch": 1} | how
    run_stream(spark, tmp_path / "logs", tmp_path / "out", tmp_path / "work", rules, {}, **how)


def test_a_stream_releases_the_order_of_the_batch_and_of_the_live_merger(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_log(1)
    write_files(tmp_path / "logs", rows, 5, 20)
    streamed(spark, tmp_path, BRISK)
    assert len(committed_steps(tmp_path / "out")) == 6
    got = released(spark, tmp_path / "out")
    assert got == in_order(rows)
    assert [payload for _, _, payload in got] == [payload for grp in ("g0", "g1") for payload in live_order(rows, grp)]


def test_a_group_with_a_nul_in_its_name_is_rejected_as_in_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for kind in ("ndjson", "parquet"):
        rows = [{"grp": grp, "pid": len(kind), "seq": seq, "l": 5} for seq, grp in enumerate(("a\0b", "a"))]
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), tmp_path / "logs" / "log.parquet")
        else:
            (tmp_path / "logs" / "log.ndjson").write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    streamed(spark, tmp_path, BRISK)
    assert [row["grp"] for row in read_released(spark, tmp_path / "out").collect()] == ["a", "a"]
    wrong = read_released(spark, tmp_path / "out", REJECTED).collect()
    assert [row["reason"] for row in wrong] == ["grp has a NUL, which no name of a directory may have"] * 2


def live_order(rows: list[Row], grp: str) -> list[bytes]:
    """Return what the merger of a live member releases, given the same events as they are published."""
    merger = MergeBuffer(Timing(epsilon=5, delta=20), MergeLimits(), "paper")
    out = []
    for row in rows:
        if row["grp"] == grp:
            bundle = packed(Process(row["pid"], row["inc"]), row["seq"], [row["payload"]])
            merger.arrive(row["r"], entry_of(key_of(row), row["r"], 0, bundle))
        out += merger.release(row["r"])
    out += merger.flush(10**6)
    return [payload for entry in out for payload in entry[6].payloads()]


def test_what_comes_after_its_place_goes_to_the_late_table(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is lost: released and late rows together are all rows, and the released are in order."""
    rows = made_log(2)
    write_files(tmp_path / "logs", rows, 6, 200)
    streamed(spark, tmp_path, HASTY)
    got, late = released(spark, tmp_path / "out"), released(spark, tmp_path / "out", LATE)
    assert late
    assert sorted(payload for _, _, payload in got + late) == sorted(row["payload"] for row in rows)
    kept = {payload for _, _, payload in got}
    assert got == in_order([row for row in rows if row["payload"] in kept])


def test_late_rows_are_told_where_a_stream_ends(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of files that are read one by one, in the order of their modification times; and of this run alone."""
    (tmp_path / "logs").mkdir()
    for place, l_ in enumerate((10_000, 20_000, 5, 30_000)):
        file = tmp_path / "logs" / f"{9 - place}.ndjson"
        file.write_text(json.dumps({"pid": 1, "seq": place, "l": l_}))
        os.utime(file, (1_000 + place, 1_000 + place))
    words = [
        "stream", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work"), "--once",
        "--files-per-batch", "1", "--json",
    ]  # fmt: skip
    assert command(words) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["late"] == 1
    assert f"1 rows came after their place had passed, and lie in {tmp_path / 'out' / 'late'}" in err
    assert command(words) == 0
    assert "came after their place" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_rows_without_a_place_are_set_aside_and_counted(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """A directory for each publisher, of whom only one has payloads; lines that are none; keys out of range."""
    logs = tmp_path / "logs"
    is_valid = [{"pid": pid, "seq": seq, "l": 10 * seq} for pid in (1, 2) for seq in range(1, 4)]
    wrong: list[dict[str, Any]] = [
        {"seq": 9, "l": 15}, {"pid": 1, "seq": 9}, {"pid": -40, "seq": 9, "l": 15}, {"pid": 1, "seq": -9, "l": 15},
    ]  # fmt: skip
    for pid in (1, 2):
        rows = [row for row in is_valid if row["pid"] == pid] + (wrong if pid == 2 else [])
        rows = [row | {"payload": f"{row['seq']}"} if pid == 2 else row for row in rows]
        where = logs / f"p{pid}" / f"log.{'ndjson' if kind == 'json' else kind}"
        where.parent.mkdir(parents=True)
        if kind == "json":
            where.write_text(
                "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows) + "{no line\n" * (pid == 2)
            )
        else:
            named = {name: [row.get(name) for row in rows] for name in ("pid", "seq", "l", *["payload"][: pid - 1])}
            pq.write_table(pa.table(named), where)
    (logs / "notes.txt").write_text("nobody reads this")
    streamed(spark, tmp_path, BRISK, files_per_batch=8)
    got = read_released(spark, tmp_path / "out").orderBy("pos").collect()
    assert [(row["pid"], row["seq"]) for row in got] == [(pid, seq) for seq in (1, 2, 3) for pid in (1, 2)]
    assert [row["payload"] for row in got[:2]] == [None, b"1"]
    done = [read_manifest(tmp_path / "out", step).rows for step in committed_steps(tmp_path / "out")]
    assert sum(rows.get(REJECTED, 0) for rows in done) == len(wrong) + (kind == "json")
    assert read_released(spark, tmp_path / "out", REJECTED).count() == len(wrong) + (kind == "json")
    assert done[-1]["pending"] == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_files_that_differ_in_columns_are_streamed_and_merged_alike(
    spark: SparkSession, tmp_path: Path, restarts: bool
) -> None:
    """An old file without k and a new one with it, in either order and across a restart: nothing is lost."""
    rows = made_log(9, events=120)
    old, new = [row | {"k": 0} for row in rows[:60]], rows[60:]
    logs = tmp_path / "logs"
    logs.mkdir()
    tables = [("b-old", [{name: row[name] for name in row if name != "k"} for row in old]), ("a-new", new)]
    for number, (name, part) in enumerate(tables):
        pq.write_table(pa.Table.from_pylist(part), logs / f"{name}.parquet")
        os.utime(logs / f"{name}.parquet", (FIRST_LANDING + number,) * 2)
        if restarts:
            streamed(spark, tmp_path, BRISK, flush=number == 1)
    if not restarts:
        streamed(spark, tmp_path, BRISK)
    last = read_manifest(tmp_path / "out", committed_steps(tmp_path / "out")[-1])
    assert (last.rows["pending"], last.rows["released"] > 0) == (0, True)
    assert released(spark, tmp_path / "out") == in_order([*old, *new])
    done = merge_logs(spark, logs, tmp_path / "merged", 3)
    got = spark.read.parquet(str(tmp_path / "merged")).collect()
    assert sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in got) == in_order([*old, *new])
    assert (done.read, done.rows) == (120, 120)


def test_a_bad_value_stops_nothing_unless_it_must(spark: SparkSession, tmp_path: Path) -> None:
    """It is set aside with its file and the reason; strictly, the stream stops before the step and names it."""
    (tmp_path / "logs").mkdir()
    file = tmp_path / "logs" / "log.ndjson"
    file.write_text('{"pid": 1, "seq": 1, "l": 4}\n\n{"pid": "x", "seq": 2, "l": 5}\n{"pid": 1, "seq": 3, "l": 6}\n')
    with pytest.raises(UsageError, match=r"log\.ndjson, line 3: pid is x, no whole number .*: \{.pid.: .x") as told:
        streamed(spark, tmp_path, BRISK, strict=True)
    assert len(str(told.value).splitlines()) == 1
    assert not committed_steps(tmp_path / "out")
    streamed(spark, tmp_path, BRISK)
    assert [row["seq"] for row in read_released(spark, tmp_path / "out").orderBy("pos").collect()] == [1, 3]
    (wrong,) = read_released(spark, tmp_path / "out", REJECTED).collect()
    assert (wrong["file"], wrong["raw"]) == (str(file), '{"pid": "x", "seq": 2, "l": 5}')
    done = [read_manifest(tmp_path / "out", step).rows for step in committed_steps(tmp_path / "out")]
    assert [sum(rows[name] for rows in done) for name in ("in", "released", "rejected")] == [3, 2, 1]


@pytest.mark.parametrize("grp", ["g" * 201, "", "__HIVE_DEFAULT_PARTITION__"])
def test_a_group_that_cannot_be_a_directory_is_rejected_and_stops_nothing(
    spark: SparkSession, tmp_path: Path, grp: str
) -> None:
    """The ranges in a file's footer do not show it."""
    rows = made_log(12, events=40)
    write_files(tmp_path / "logs", [*rows[:-1], rows[-1] | {"grp": grp}], 1, 0)
    streamed(spark, tmp_path, BRISK)
    told = [read_manifest(tmp_path / "out", step).rows for step in committed_steps(tmp_path / "out")]
    assert [sum(step[fate] for step in told) for fate in ("in", "released", "rejected")] == [40, 39, 1]


def test_an_event_counts_once_whatever_its_rows_say_and_whenever_they_come(spark: SparkSession, tmp_path: Path) -> None:
    """Other payloads in one file, other clocks in a later one, and a file that is there again under another name."""
    rows = made_log(10, events=150)
    changed = [row | {"payload": b"~"} for row in rows[:20]]
    later = [row | {"l": row["l"] + 30, "r": row["r"] + 30} for row in rows[10:15]]
    for number, part in enumerate(([*rows[:75], *changed], [*rows[75:], *later], rows[75:100])):
        write_files(tmp_path / f"part-{number}", part, 1, 0)
        (tmp_path / "logs").mkdir(exist_ok=True)
        file = (tmp_path / f"part-{number}" / "part-00000.parquet").rename(tmp_path / "logs" / f"{number}.parquet")
        os.utime(file, (FIRST_LANDING + number,) * 2)
    streamed(spark, tmp_path, BRISK)
    assert released(spark, tmp_path / "out") == in_order(rows)
    done = merge_logs(spark, tmp_path / "logs", tmp_path / "merged", 2)
    steps = [read_manifest(tmp_path / "out", step).rows for step in committed_steps(tmp_path / "out")]
    assert done.twice == sum(step["twice"] for step in steps) == 50
    assert read_released(spark, tmp_path / "out", "twice").count() == 50


def test_a_step_that_does_not_balance_is_not_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "logs", made_log(11, events=60), 2, 0)
    real = PendingFiles.events_in
    monkeypatch.setattr(PendingFiles, "events_in", lambda held, files: real(held, files).filter("seq <> 3"))
    with pytest.raises(InternalError, match="does not balance and is not committed"):
        streamed(spark, tmp_path, BRISK)
    monkeypatch.undo()
    streamed(spark, tmp_path, BRISK)
    assert released(spark, tmp_path / "out") == in_order(made_log(11, events=60))


@pytest.mark.parametrize(
    ("name", "content", "mapping", "sentence"),
    [
        ("log.parquet", b"no parquet", {}, "LOGS: .*cannot be read"),
        ("log.ndjson", b'{"pid": 1, "seq": 1, "l": 1}', {"l": "nosuch"}, "--mapping: l = .nosuch. does not fit"),
        ("log.ndjson", b'{"pid": 1, "seq": 1}', {}, "has no column l"),
    ],
)
def test_logs_and_mappings_that_are_none_are_told_in_a_sentence(
    spark: SparkSession, tmp_path: Path, name: str, content: bytes, mapping: dict[str, str], sentence: str
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / name).write_bytes(content)
    with pytest.raises(UsageError, match=sentence) as told:
        run_stream(
            spark, tmp_path / "logs", tmp_path / "out", tmp_path / "work", CALM, mapping, once=True, flush=False
        )  # fmt: skip
    assert len(str(told.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_by_frontier_nothing_is_late_and_the_silent_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_log(3, publishers=3)
    gone = [row for row in rows if row["pid"] == 0][:5]
    rows = [row for row in rows if row["pid"] or row in gone]
    write_files(tmp_path / "logs", rows, 5, 0)
    streamed(spark, tmp_path, Rules(mode="frontier", silent=30))
    assert released(spark, tmp_path / "out") == in_order(rows)
    last = read_manifest(tmp_path / "out", committed_steps(tmp_path / "out")[-2])
    assert last.silent == [0]
    assert last.rows["released"] > 0


def test_a_step_that_broke_off_anywhere_is_done_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after the job, before and after the manifest: each time the stream is started again."""
    rows = made_log(4, events=150)
    write_files(tmp_path / "logs", [*rows, *rows[140:]], 3, 20)
    places = (
        ("write_manifest", stream_step),
        ("link", PendingFiles),
        ("_write", StreamMerge),
        ("row_count", stream_step),
        ("already_committed", stream_step),
        ("remove", PendingFiles),
        ("remove", stream_step),
    )
    for name, target in places:
        calls = iter((True, *[False] * 1000))
        real = getattr(target, name)

        def breaks(*args: Any, calls: Any = calls, real: Any = real, **kwargs: Any) -> Any:
            if next(calls):
                raise OSError("no space left on device")
            return real(*args, **kwargs)

        monkeypatch.setattr(target, name, breaks)
        with pytest.raises(UsageError, match="can be started again"):
            streamed(spark, tmp_path, BRISK)
        monkeypatch.undo()
    streamed(spark, tmp_path, BRISK)
    assert released(spark, tmp_path / "out") == in_order(rows)
    steps = [read_manifest(tmp_path / "out", step) for step in committed_steps(tmp_path / "out")]
    assert sum(step.rows["twice"] + step.rows["late"] for step in steps) == 10
    assert (steps[-1].rows["pending"], steps[-1].pending) == (0, {})


@pytest.mark.parametrize("can_link", [True, False])
def test_logs_may_go_as_soon_as_their_step_is_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_link: bool
) -> None:
    """What is pending does not depend on the files that it came in, nor on a file system that has links."""

    def refuses(*_: Any) -> None:
        raise OSError("not supported")

    if not can_link:
        monkeypatch.setattr(os, "link", refuses)
    rows = made_log(6, events=150)
    write_files(tmp_path / "logs", rows, 5, 20)
    kept = []

    def remove(done: Manifest) -> None:
        kept.append(len(done.pending))
        (tmp_path / "logs" / f"part-{int(done.step):05d}.parquet").unlink()

    streamed(spark, tmp_path, BRISK, on_step=remove)
    assert released(spark, tmp_path / "out") == in_order(rows)
    assert max(kept) < 5
    assert not list((tmp_path / "work" / "held").iterdir())


@pytest.mark.parametrize("mode", ["evidence", "frontier"])
def test_logs_of_any_kind_are_streamed(spark: SparkSession, tmp_path: Path, mode: Mode) -> None:
    """Compressed lines of JSON, columns by a mapping, rows that only tell the time, names that need care."""
    rows = made_log(7, events=120)
    logs = tmp_path / "logs" / "of today, 100%"
    logs.mkdir(parents=True)
    for number in range(4):
        lines = [
            {"who": row["pid"], "seq": row["seq"], "at": row["l"], "r": row["r"], "k": row["k"], "grp": row["grp"],
             "payload": row["payload"].decode(), "kind": "event"}
            for row in rows[number * 30 : number * 30 + 30]
        ]  # fmt: skip
        lines.append({"who": 9, "seq": 0, "at": lines[-1]["at"], "r": lines[-1]["r"], "kind": "heartbeat"})
        path = logs / f"part {number}.ndjson.gz"
        path.write_bytes(gzip.compress(b"\n".join(msgspec.json.encode(line) for line in lines)))
        os.utime(path, (FIRST_LANDING + number,) * 2)
    work, rules = tmp_path / "work", Rules(epsilon=5, delta=20, mode=mode)
    mapping = {"pid": "who", "l": "at"}
    run_stream(
        spark, tmp_path / "logs", tmp_path / "out", work, rules, mapping, once=True, flush=False, files_per_batch=1
    )
    last = read_manifest(tmp_path / "out", committed_steps(tmp_path / "out")[-1])
    assert (len(committed_steps(tmp_path / "out")), last.max_r) == (4, max(row["r"] for row in rows))
    got = released(spark, tmp_path / "out")
    assert 0 < len(got) == len(rows) - last.rows["pending"]
    assert got == [each for each in in_order(rows) if each[1] < last.released[each[0]]]


def test_footers_tell_of_a_file_what_its_rows_do(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "logs", made_log(8), 3, 0)
    pending = PendingFiles(spark, tmp_path / "held", {})
    files = pending.link("1", [str(path) for path in (tmp_path / "logs").iterdir()])
    told = pending.spans(files, by_publisher=False)
    assert sum(span.events for span in told) == 400
    mapped = PendingFiles(spark, tmp_path / "held", {"r": "r + 0"})
    assert sorted(mapped.spans(files, by_publisher=False)) == sorted(told)
    each = pending.spans(files, by_publisher=True)
    assert (len(each), sum(span.events for span in each)) == (15, 400)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.long] if seed else []) for seed in range(10)])
def test_a_stream_killed_at_any_moment_releases_every_row_once(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Real processes, kill -9: whatever was going on, the next one goes on from there."""
    rows = made_log(seed, events=300)
    write_files(tmp_path / "logs", rows, 40 if seed else 12, 20)
    out = tmp_path / "out"
    command = command_of(
        "stream", str(tmp_path / "logs"), "--out", str(out), "--work", str(tmp_path / "work"), "--once", "--flush",
        "--files-per-batch", "1", "--delta", "20",
    )  # fmt: skip
    rng = Random(seed)
    for _ in range(6 if seed else 2):
        before = len(committed_steps(out))
        assert killed(command, lambda before=before: len(committed_steps(out)) > before, rng, 1.5)  # type: ignore[misc]
    finished(command)
    assert released(spark, out) == in_order(rows)


def test_directories_that_do_not_belong_together_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "logs", made_log(5, events=20), 1, 0)
    streamed(spark, tmp_path, CALM)
    shutil.rmtree(tmp_path / "work")
    with pytest.raises(UsageError, match="lacks the checkpoint"):
        streamed(spark, tmp_path, CALM)


def test_what_was_merged_elsewhere_is_not_taken_for_merged_here(spark: SparkSession, tmp_path: Path) -> None:
    """With the --work of another --out, nothing would be read again, and the command would say that all is merged."""
    write_files(tmp_path / "logs", made_log(5, events=20), 1, 0)
    streamed(spark, tmp_path, CALM)
    with pytest.raises(UsageError, match=r"does not belong to .*other: what it has merged is not there"):
        run_stream(spark, tmp_path / "logs", tmp_path / "other", tmp_path / "work", CALM, {}, once=True, flush=True)


def test_two_streams_do_not_share_a_directory(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "logs", made_log(5, events=20), 1, 0)
    for name in ("work", "out"):
        with (
            locked(tmp_path / name / ".lock", "", ""),
            pytest.raises(StorageError, match=rf"--{name}: .* is in use in process {os.getpid()}"),
        ):
            streamed(spark, tmp_path, CALM)
    streamed(spark, tmp_path, CALM)  # and what held it is gone with the one that had it


def test_a_stream_does_not_write_where_it_reads_nor_twice_to_one_place(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "logs", made_log(5, events=20), 1, 0)
    logs, out = tmp_path / "logs", tmp_path / "out"
    for there, work, what in (
        (out, tmp_path / "x" / ".." / "out", "needs a directory of its own"),
        (logs / "out", tmp_path / "work", "--out: .* would be read as logs"),
        (out, logs, "--work: .* would be read as logs"),
    ):
        with pytest.raises(UsageError, match=what):
            run_stream(spark, logs, there, work, CALM, {}, once=True, flush=True)
    assert not out.exists()


def test_a_publisher_called_by_a_number_is_not_the_one_that_has_it(spark: SparkSession, tmp_path: Path) -> None:
    """By frontier each is waited for: what the one has said releases nothing of what the other may still say."""
    (tmp_path / "logs").mkdir()
    rows = [{"pid": 1, "seq": seq, "l": 10 * seq} for seq in range(1, 6)] + [{"publisher": "1", "seq": 1, "l": 15}]
    (tmp_path / "logs" / "a.ndjson").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    streamed(spark, tmp_path, Rules(mode="frontier", silent=10**6), flush=False)
    last = read_manifest(tmp_path / "out", committed_steps(tmp_path / "out")[-1])
    assert (last.rows["released"], last.rows["pending"]) == (1, 5)  # the other may still say something at 15
