"""Whatever a test asks Spark, the local engine is asked too, and must say the same to the byte.

Tests of the pipeline call these functions in place of the package's own, so that every trace and log they have is
compared. What Spark refuses, the local engine refuses in the same words.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from whence.errors import WhenceError
from whence.pipeline import batch, metrics, report
from whence.pipeline import verify as verifying
from whence.pipeline.events import Input
from whence.pipeline.local.errors import NotLocal
from whence.pipeline.local.session import local_session

Result = TypeVar("Result")


def outcome(work: Callable[[], Result]) -> tuple[Result | None, WhenceError | None]:
    """Return what came of something: a result, or how it was refused."""
    try:
        return work(), None
    except WhenceError as error:
        return None, error


def on_both(
    spark: SparkSession, work: Callable[[SparkSession], Result], shown: Callable[[Result], list[str]]
) -> Result:
    """Do something on both engines, compare what is shown of it line by line, and return what Spark returned."""
    on_spark, refused = outcome(lambda: work(spark))
    with local_session() as local:
        on_local, refused_here = outcome(lambda: work(local))
    if refused is not None:
        assert (type(refused_here), str(refused_here)) == (type(refused), str(refused))
        raise refused
    assert refused_here is None, f"only the local engine refused: {refused_here}"
    assert on_spark is not None
    assert on_local is not None
    assert shown(on_local) == shown(on_spark)
    return on_spark


def verify(
    spark: SparkSession, paths: Iterable[Path | str], promises: Iterable[str] | None = None, **options: Any
) -> verifying.Verified:
    """Judge runs on both engines."""
    given, names = list(paths), None if promises is None else list(promises)
    return on_both(spark, lambda session: verifying.verify(session, given, names, **options), lines_of_verdicts)


def lines_of_verdicts(done: verifying.Verified) -> list[str]:
    """Return everything that was said, a line for each verdict and for each thing that was set aside."""
    said: list[Any] = [(judged.run.run_id, verdict) for judged in done.runs for verdict in judged.verdicts]
    return [msgspec.json.encode(each).decode() for each in [*said, *map(tuple, done.set_aside)]]


def write_report(spark: SparkSession, traces: list[Path], out: Path) -> verifying.Verified:
    """Write the page of some runs with both engines, Spark's last."""

    def written(session: SparkSession) -> tuple[verifying.Verified, str]:
        return report.write_report(session, traces, out), out.read_text(encoding="utf-8")

    judged, page = on_both(spark, written, lambda made: made[1].splitlines())
    out.write_text(page, encoding="utf-8")
    return judged


def measured_tables(spark: SparkSession, found: Input) -> dict[str, list[str]]:
    """Measure runs on both engines; return every table as lines, its columns and types first."""

    def tables(session: SparkSession) -> dict[str, list[str]]:
        with metrics.measures(session, found) as measures:
            made = {name: make(measures).toArrow() for name, make in metrics.TABLES.items()}
        return {
            name: [f"{field.name} {field.type}" for field in table.schema] + sorted(map(repr, table.to_pylist()))
            for name, table in made.items()
        }

    return on_both(spark, tables, lambda made: [f"{name}: {line}" for name, lines in made.items() for line in lines])


def merge_logs(
    spark: SparkSession, logs: Path, out: Path, parts: int, mapping: Mapping[str, str] | None = None, **options: Any
) -> batch.MergeCounts:
    """Merge logs on Spark and, if they are plain, on the local engine beside it."""
    done = batch.merge_logs(spark, logs, out, parts, mapping, **options)
    beside = out.with_name(f"{out.name}-here")
    if beside.exists():
        shutil.rmtree(beside)
    here = merged_here(logs, beside, mapping or {}, **options)
    if here is None:
        assert not beside.exists()
        return done
    assert here == done
    assert merged_rows(beside) == merged_rows(out)
    assert merged_rows(beside / batch.TWICE_TO) == merged_rows(out / batch.TWICE_TO)
    return done


def merged_here(logs: Path, out: Path, mapping: Mapping[str, str], **options: Any) -> batch.MergeCounts | None:
    """Merge logs on the local engine; return None where they are not plain."""
    chosen = {"groups": None, "by_group": True, "strict": False} | options
    try:
        with local_session() as local:
            return batch.merge_on(local, logs, out, 0, mapping, **chosen)
    except NotLocal:
        return None


def merged_rows(directory: Path) -> list[str]:
    """Return the rows of a merge with their groups' directories, and the columns and types of every file."""
    rows, shapes = list[str](), set[str]()
    for file in directory.rglob("*.parquet"):
        below = file.relative_to(directory).parent.as_posix()
        if not below.startswith("_"):
            table = pq.ParquetFile(file).read()
            rows += [f"{below}: {row}" for row in table.to_pylist()]
            shapes.add(f"{below}: {[(field.name, str(field.type)) for field in table.schema]}")
    return [*sorted(shapes), *sorted(rows)]
