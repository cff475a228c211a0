"""Logs that others wrote: batch equals stream equals a plain sort, and every row is accounted for, case by case."""

import shutil
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.engines import merge_logs
from tests.pipeline.foreign import Case, LogFile, drawn, wanted, write_file
from whence.errors import UsageError
from whence.pipeline import stream_step
from whence.pipeline.manifest import committed_steps, read_manifest, read_released
from whence.pipeline.stream import run_stream
from whence.pipeline.stream_step import Rules

CASES, CASES_BRIEF = 200, 4
FATES = ("released", "late", "twice", "rejected")


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.long] if seed >= CASES_BRIEF else []) for seed in range(CASES)]
)
def test_batch_equals_stream_equals_a_plain_sort(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    case = drawn(seed)
    streamed(spark, tmp_path, case, monkeypatch)
    repeated = [case.files[case.renamed]] if case.renamed is not None and case.renamed < len(case.files) - 1 else []
    want = wanted(case.files, repeated)
    counts = balanced(tmp_path / "out")
    assert (counts["twice"] + counts["late"], counts["rejected"]) == (want.twice, want.rejected)
    assert released(spark, tmp_path / "out") == want.order
    for number, file in enumerate(case.files):
        write_file(tmp_path / "batch", file, number)
    for number, file in enumerate(repeated):
        write_file(tmp_path / "batch", file._replace(name=f"again-{number}-{Path(file.name).name}"), number)
    done = merge_logs(spark, tmp_path / "batch", tmp_path / "merged", Random(seed).choice((1, 2, 5)))
    assert (done.twice, done.rejected, done.heartbeats) == want[1:]
    assert merged(spark, tmp_path / "merged") == want.order


def streamed(spark: SparkSession, tmp_path: Path, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stream a case as its files land: started anew, broken off, and with a file that is renamed after it was read."""
    rules = Rules(epsilon=3, delta=60, mode="frontier" if case.mode == "frontier" else "evidence", silent=10**9)

    def go(*, is_last: bool) -> None:
        run_stream(
            spark, tmp_path / "logs", tmp_path / "out", tmp_path / "work", rules, {}, once=True, flush=is_last,
            files_per_batch=2,
        )  # fmt: skip

    landed: list[tuple[Path, LogFile]] = []
    for number, file in enumerate(case.files):
        landed.append((write_file(tmp_path / "logs", file, 10 * number), file))
        if number + 1 in case.stops or (case.renamed == number and number + 1 < len(case.files)):
            broken_off(monkeypatch, case.breaks if number == 0 else None, lambda: go(is_last=False))
        if case.renamed == number and number + 1 < len(case.files):
            path = landed[number][0]
            path.rename(path.with_name(f"again-{path.name}"))
    broken_off(monkeypatch, case.breaks, lambda: go(is_last=True))


def broken_off(monkeypatch: pytest.MonkeyPatch, at: int | None, go: Any) -> None:
    """Let a write fail, and start again."""
    if at is not None:
        left = [at]

        def breaks(real: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                left[0] -= 1
                if left[0] == -1:
                    raise OSError("no space left on device")
                return real(*args, **kwargs)

            return call

        for target, name in (
            (stream_step, "write_manifest"),
            (shutil, "move"),
            (stream_step, "row_count"),
            (stream_step, "already_committed"),
        ):
            monkeypatch.setattr(target, name, breaks(getattr(target, name)))
        with suppress(UsageError):
            go()
        monkeypatch.undo()
    try:
        go()
    except UsageError as error:
        if not any(words in str(error) for words in ("cannot be read", "has no column")):
            raise  # what is there so far may be nothing that can be read; else it must go on


def balanced(out: Path) -> dict[str, int]:
    """Check the law of conservation at every commit; return what became of the rows."""
    sums = dict.fromkeys(("in", *FATES), 0)
    for step in committed_steps(out):
        rows = read_manifest(out, step).rows
        sums = {name: count + rows[name] for name, count in sums.items()}
        assert sums["in"] == sum(sums[fate] for fate in FATES) + rows["pending"]
    assert rows["pending"] == 0
    return sums


def released(spark: SparkSession, out: Path) -> list[tuple[Any, ...]]:
    if not any((out / "released").glob("*")):
        return []
    return _shown(read_released(spark, out).collect())


def merged(spark: SparkSession, out: Path) -> list[tuple[Any, ...]]:
    return _shown(spark.read.parquet(str(out)).collect())


def _shown(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(
        (
            row["grp"], row["pos"], row["publisher"] or str(row["pid"]), row["inc"], row["seq"],
            None if row["payload"] is None else bytes(row["payload"]),
        )
        for row in rows
    )  # fmt: skip
