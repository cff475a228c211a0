"""Everything that a path can be may be a URI: the same answers from a file system that has no path on any disk."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.check.trace_builder import TraceBuilder
from tests.check.worlds import causal_world
from tests.pipeline.conftest import mount_option
from tests.pipeline.kills import command_of, finished, killed
from tests.pipeline.logs import in_order, made_log, write_files
from tests.pipeline.segments import LiveNode
from whence.cli.app import run
from whence.errors import StorageError, TraceError, UsageError
from whence.pipeline import manifest, stream_step
from whence.pipeline.batch import MergeCounts, merge_logs
from whence.pipeline.events import find_input
from whence.pipeline.manifest import Manifest, committed_steps, read_manifest, read_released, write_manifest
from whence.pipeline.pending_files import PendingFiles
from whence.pipeline.storage import (
    Ownership,
    UriPath,
    entries,
    files_below,
    located,
    make_directory,
    put,
    put_new,
    remove,
)
from whence.pipeline.stories import broken_promises
from whence.pipeline.stream import run_stream
from whence.pipeline.stream_step import Mode, Rules, StreamMerge
from whence.pipeline.verify import verify
from whence.places import is_uri
from whence.trace.writer import write_trace

BRISK = Rules(epsilon=5, delta=20)


def test_a_place_is_a_path_unless_it_names_another_file_system(spark: SparkSession) -> None:
    for text, path in (("out/a", "out/a"), ("file:/tmp/a", "/tmp/a"), ("file:///tmp/a", "/tmp/a"), ("out:a", "out:a")):
        assert located(text, lambda: pytest.fail("no session is needed")) == Path(path)
        assert not is_uri(text)
    place = located("hdfs://host:9000/logs/day=1/a.ndjson.gz", lambda: spark)
    assert isinstance(place, UriPath)
    assert str(place / "b") == "hdfs://host:9000/logs/day=1/a.ndjson.gz/b"
    assert (place.name, place.suffix, place.parent.name, place.parts[1]) == ("a.ndjson.gz", ".gz", "day=1", "logs")
    assert place.is_relative_to(located("hdfs://host:9000/logs", lambda: spark))
    assert not place.is_relative_to(located("hdfs://host:9000/log", lambda: spark))


def test_a_file_is_put_whole_and_never_over_another(mounted: UriPath) -> None:
    put_new(mounted / "a" / "one.json", b"first")
    with pytest.raises(StorageError, match=r"one\.json"):
        put_new(mounted / "a" / "one.json", b"second")
    assert (mounted / "a" / "one.json").read_bytes() == b"first"
    put(mounted / "a" / "one.json", b"third")
    assert (mounted / "a" / "one.json").read_bytes() == b"third"
    assert [name for name in entries(mounted / "a") if name[0] != "."] == ["one.json"]
    assert ((mounted / "a").is_dir(), (mounted / "a").is_file(), (mounted / "b").exists()) == (True, False, False)
    remove(mounted / "a")
    remove(mounted / "a")
    assert entries(mounted / "a") == []
    with pytest.raises(FileNotFoundError):
        (mounted / "a" / "one.json").read_bytes()


def test_files_lie_directly_in_what_is_mounted_too(mounted: UriPath) -> None:
    """It is there and cannot be made."""
    make_directory(mounted)
    put(mounted / "page.html", b"all verdicts")
    assert (mounted / "page.html").read_bytes() == b"all verdicts"


def test_who_began_last_writes_and_the_others_stop(mounted: UriPath) -> None:
    first = Ownership(mounted / "out")
    first.check()
    second = Ownership(mounted / "out")
    second.check()
    with pytest.raises(StorageError, match="another writer began after this one"):
        first.check()


def test_a_step_is_committed_once_whoever_commits_it(mounted: UriPath) -> None:
    write_manifest(mounted, Manifest(step="00000001", w=5))
    with pytest.raises(StorageError):
        write_manifest(mounted, Manifest(step="00000001", w=6))
    assert committed_steps(mounted) == ["00000001"]
    assert read_manifest(mounted, "00000001").w == 5


def troubled_traces(where: Path) -> None:
    """A run that holds, one that broke, and files that are torn, foreign, of other widths, or without a run."""
    write_trace(where, causal_world(1, 4, 60))
    broken = TraceBuilder(level="causal")
    cause = broken.publish(0)
    broken.deliver(1, cause)
    broken.deliver(2, broken.publish(1))
    broken.deliver(2, cause)
    broken.trace.run.run_id = "broken"
    write_trace(where, broken.trace)
    third = causal_world(2, 3, 20)
    third.run.run_id = "odd"
    odd = write_trace(where, third)
    deliver = next((odd / "kind=deliver").glob("*.parquet"))
    wide = pq.read_table(deliver, partitioning=None)
    pq.write_table(wide.set_column(0, "node", wide.column("node").cast(pa.int64())), deliver)
    (odd / "kind=deliver" / "part-00007.parquet").write_bytes(deliver.read_bytes()[:-9])
    pq.write_table(wide.drop_columns(["pos"]), odd / "kind=deliver" / "part-00008.parquet")
    (where / "run_id=unfinished" / "kind=deliver").mkdir(parents=True)
    shutil.copy(deliver, where / "run_id=unfinished" / "kind=deliver" / "part-00000.parquet")


def test_runs_behind_a_uri_are_judged_like_those_on_disk(spark: SparkSession, tmp_path: Path, mounted: UriPath) -> None:
    troubled_traces(tmp_path / "behind" / "traces")
    on_disk = find_input([tmp_path / "behind" / "traces"])
    there = find_input([mounted / "traces"])
    assert there.runs == on_disk.runs
    assert there.bytes == on_disk.bytes

    def named(aside: Any) -> list[tuple[str, str, str]]:
        return sorted(
            (each.run_id or "", Path(each.path).name, each.reason.replace(str(mounted), str(tmp_path / "behind")))
            for each in aside
        )

    assert named(there.set_aside) == named(on_disk.set_aside)
    assert len(there.set_aside) == 3
    judged, wanted = verify(spark, [mounted / "traces"]), verify(spark, [tmp_path / "behind" / "traces"])
    assert [(each.run, each.verdicts) for each in judged.runs] == [(each.run, each.verdicts) for each in wanted.runs]
    assert judged.broken
    assert broken_promises(there, judged) == broken_promises(on_disk, wanted)


def test_a_uri_without_runs_is_told_in_a_sentence(mounted: UriPath) -> None:
    for place in (mounted / "nowhere", mounted):
        with pytest.raises(TraceError, match=r"holds no run_id=… directory"):
            find_input([place])


def merged(spark: SparkSession, out: object) -> list[tuple[str, int, bytes]]:
    rows = spark.read.parquet(str(out)).select("grp", "pos", "payload").collect()
    return sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in rows)


def test_logs_behind_a_uri_are_merged_like_those_on_disk(spark: SparkSession, tmp_path: Path, mounted: UriPath) -> None:
    """Files that differ in columns and types, lines of JSON, torn files, rows without a place, events that are there
    twice."""
    rows = made_log(1)
    write_files(tmp_path / "behind" / "logs", [*rows, *rows[:3]], 3, 50)
    logs = tmp_path / "behind" / "logs"
    more = [row | {"pid": 7, "seq": number} for number, row in enumerate(made_log(2, events=9))]
    pq.write_table(pa.Table.from_pylist([row | {"seq": float(row["seq"])} for row in more]), logs / "floats.parquet")
    lines = [row | {"pid": 8, "seq": number} for number, row in enumerate(made_log(3, events=5))]
    texts = [msgspec.json.encode(row | {"payload": row["payload"].decode()}) for row in lines]
    (logs / "lines 100%.ndjson").write_bytes(b"\n".join([*texts, b'{"seq": "none"}']))
    (logs / "torn.parquet").write_bytes(b"no parquet")
    (logs / "torn.ndjson.gz").write_bytes(b"\x1f\x8b\x08no gzip")
    (logs / "other.txt").write_bytes(b"not read")
    done = merge_logs(spark, mounted / "logs", mounted / "out", 2)
    assert done == merge_logs(spark, logs, tmp_path / "on-disk", 2)
    assert done == MergeCounts(read=420, rows=414, twice=3, rejected=3, heartbeats=0, elsewhere=0)
    assert merged(spark, mounted / "out") == in_order([*rows, *more, *lines]) == merged(spark, tmp_path / "on-disk")
    assert (mounted / "out" / "_SUCCESS").exists()
    rejected = spark.read.parquet(str(mounted / "out" / "_rejected")).collect()
    assert {Path(row["file"]).name for row in rejected} == {"torn.parquet", "torn.ndjson.gz", "lines 100%.ndjson"}
    with pytest.raises(UsageError, match="is not empty; give a new directory"):
        merge_logs(spark, mounted / "logs", mounted / "out", 2)
    with pytest.raises(UsageError, match="does not exist"):
        merge_logs(spark, mounted / "nowhere", mounted / "other", 2)
    with pytest.raises(UsageError, match=r"LOGS: viewfs:.*(torn|lines)"):
        merge_logs(spark, mounted / "logs", mounted / "strict", 2, strict=True)
    assert not (mounted / "strict").exists()


def test_mappings_lie_behind_uris_too_and_the_only_group_is_found_there(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, capsys: pytest.CaptureFixture[str]
) -> None:
    behind = tmp_path / "behind"
    (behind / "mapping.toml").write_text('pid = "cast(who as int)"\nl = "seq"\n', encoding="utf-8")
    (behind / "logs").mkdir()
    (behind / "logs" / "a.ndjson").write_text('{"who": 1, "seq": 1}\n{"who": 1, "seq": 2}\n', encoding="utf-8")
    words = ["merge", str(mounted / "logs"), "--out", str(mounted / "merged")]
    assert run([*words, "--mapping", str(mounted / "mapping.toml"), "--json"]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["rows"] == 2
    assert run([*words, "--mapping", str(mounted / "none.toml")]) == 2
    assert "--mapping: viewfs:" in capsys.readouterr().err
    LiveNode(behind / "nodes", 0).close()
    assert run(["gather", str(mounted / "nodes"), "--out", str(mounted / "traces"), "--json"]) == 0
    there = json.loads(capsys.readouterr().out)
    assert run(["gather", (behind / "nodes").as_uri(), "--out", (behind / "here").as_uri(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == there["rows"] > 0
    assert (behind / "here" / "run_id=live" / "run.json").is_file()


def streamed(spark: SparkSession, place: UriPath, rules: Rules = BRISK, **how: Any) -> None:
    how = {"once": True, "flush": True, "files_per_batch": 1} | how
    run_stream(spark, place / "logs", place / "out", place / "work", rules, {}, **how)


def released(spark: SparkSession, out: UriPath) -> list[tuple[str, int, bytes]]:
    return sorted((row["grp"], row["pos"], bytes(row["payload"])) for row in read_released(spark, out).collect())


@pytest.mark.parametrize("mode", ["evidence", pytest.param("frontier", marks=pytest.mark.long)])
def test_a_stream_behind_a_uri_releases_the_order_of_the_batch(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, mode: Mode
) -> None:
    """Pending rows are read where they lie: nothing is linked, and nothing but the logs, out and work is touched."""
    rows = made_log(4, events=150)
    write_files(tmp_path / "behind" / "logs", [*rows, *rows[140:]], 4, 20 if mode == "evidence" else 0)
    streamed(spark, mounted, Rules(epsilon=5, delta=20, mode=mode))
    assert released(spark, mounted / "out") == in_order(rows)
    steps = [read_manifest(mounted / "out", step) for step in committed_steps(mounted / "out")]
    assert sum(step.rows["twice"] + step.rows["late"] for step in steps) == 10
    assert any(file.startswith("viewfs://") for step in steps for file in step.pending)
    assert (steps[-1].rows["pending"], steps[-1].pending) == (0, {})
    assert len(files_below(mounted / "logs")) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["behind"]


@pytest.mark.long
def test_a_step_behind_a_uri_that_broke_off_anywhere_is_done_again(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = made_log(4, events=150)
    write_files(tmp_path / "behind" / "logs", [*rows, *rows[140:]], 3, 20)
    places: tuple[tuple[str, Any], ...] = (
        ("write_manifest", stream_step), ("put_new", manifest), ("_write", StreamMerge),
        ("already_committed", stream_step), ("remove", PendingFiles),
    )  # fmt: skip
    for name, target in places:
        calls = iter((True, *[False] * 1000))
        real: Callable[..., Any] = getattr(target, name)

        def breaks(*args: Any, calls: Any = calls, real: Any = real, **kwargs: Any) -> Any:
            if next(calls):
                raise OSError("the connection was reset")
            return real(*args, **kwargs)

        monkeypatch.setattr(target, name, breaks)
        with pytest.raises(UsageError, match="can be started again"):
            streamed(spark, mounted)
        monkeypatch.undo()
    streamed(spark, mounted)
    assert released(spark, mounted / "out") == in_order(rows)


@pytest.mark.long
def test_tables_pages_and_sweeps_go_to_uris(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path / "behind" / "traces", causal_world(1, 3, 20))
    (tmp_path / "behind" / "plan.toml").write_text("[grid]\nlevel = ['fifo']\nnodes = [3]\nevents = [2]\n")
    traces = str(mounted / "traces")
    assert run(["metrics", traces, "--out", str(mounted / "tables")]) == 0, capsys.readouterr().err
    assert spark.read.parquet(str(mounted / "tables" / "run_metrics")).count() == 1
    assert run(["metrics", traces, "--out", str(mounted / "tables")]) == 2
    assert "holds run_metrics" in capsys.readouterr().err
    assert run(["metrics", traces, "--out", str(mounted / "tables"), "--overwrite"]) == 0
    assert run(["report", traces, "--out", str(mounted / "pages" / "one.html")]) == 0
    assert b"Whence report" in (mounted / "pages" / "one.html").read_bytes()
    for extra in ([], ["--resume"]):
        assert run(["sweep", str(mounted / "plan.toml"), "--out", str(mounted / "sweep"), *extra]) == 0
    assert run(["sweep", str(mounted / "plan.toml"), "--out", str(mounted / "sweep")]) == 2


def imbalances(steps: list[Manifest]) -> list[int]:
    """Return what every step has too many or too few: rows that came in or were pending, less where they went."""
    pending_before = [0, *(step.rows["pending"] for step in steps)]
    fates = ("released", "late", "twice", "rejected", "pending")
    return [
        before + step.rows["in"] - sum(step.rows[fate] for fate in fates)
        for before, step in zip(pending_before, steps, strict=False)
    ]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_a_stream_behind_a_uri_killed_at_any_moment_releases_every_row_once(
    spark: SparkSession, tmp_path: Path, mounted: UriPath, seed: int, long_mode: bool
) -> None:
    """Real processes, kill -9, on a file system without local paths, five times in each of three streams: every row is
    released once, every manifest balances, and each step's rows are those that its manifest counts."""
    rows = made_log(seed, events=200)
    write_files(tmp_path / "behind" / "logs", [*rows, *rows[150:160]], 15 if long_mode else 4, 10)
    name, behind = mount_option("killed", tmp_path / "behind")
    place = "viewfs://killed/data"
    command = command_of(
        "stream", f"{place}/logs", "--out", f"{place}/out", "--work", f"{place}/work", "--once", "--flush",
        "--files-per-batch", "1", "--delta", "20", settings={f"spark.hadoop.{name}": behind},
    )  # fmt: skip
    rng, out = Random(seed), tmp_path / "behind" / "out"
    for _ in range(5 if long_mode else 1):
        before = len(committed_steps(out))
        assert killed(command, lambda before=before: len(committed_steps(out)) > before, rng, 1.5)  # type: ignore[misc]
        assert not any(imbalances([read_manifest(out, step) for step in committed_steps(out)]))
    told = json.loads(finished(command))
    aside = told["twice"] + told["late"]
    assert (told["in"], told["released"], aside, told["pending"]) == (len(rows) + 10, len(rows), 10, 0)
    assert released(spark, mounted / "out") == in_order(rows)
    steps = [read_manifest(out, step) for step in committed_steps(out)]
    assert not any(imbalances(steps))
    written = {
        row["step"]: row["count"] for row in read_released(spark, mounted / "out").groupBy("step").count().collect()
    }
    assert written == {step.step: step.rows["released"] for step in steps if step.rows["released"]}
