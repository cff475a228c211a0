"""Sweeps: simulations as a Spark job, one row per configuration and repetition; resumable, errors kept per row.

A plan in TOML gives the levels, the sizes and any settings as lists; every combination is a configuration, repeated
with seeds derived from the configuration itself, so that adding one changes no other:

    repeat = 20
    faults = "swarm"                 # none, swarm or a file of faults
    [grid]
    level = ["eventual", "fifo"]
    nodes = [10, 20]
    events = [100]
    rate = [100, 1000]               # also payload, publishers, coordinators, bandwidth, latency_ms, loss
    fanout = [3, 4]                  # anything else is a setting of the level

A sweep is cut into jobs of some seconds, each appended when it is whole: a crash loses one job, and a sweep that is
started again runs only what is missing. One command at a time writes to a place. A file of results that cannot be read
any more is set aside, and its runs are run again.
"""

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from itertools import product
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.errors import UsageError, WhenceError
from whence.pipeline.session import cores_of, first_line
from whence.pipeline.sole_writer import sole_writer
from whence.pipeline.storage import AnyPath, entries
from whence.pipeline.stored_runs import set_aside_damaged

if TYPE_CHECKING:
    from whence.sim.scenario import Scenario

RESULTS: Final = (
    "config string, number int, seed bigint, level string, nodes int, events int, published bigint, delivered bigint, "
    "deliveries_expected bigint, skipped bigint, latency_ms_p50 double, latency_ms_p99 double, "
    "metadata_bytes_mean double, broken string, unknown string, wall_seconds double, error string"
)
_SHAPE = pa.schema(
    [("config", pa.string()), ("number", pa.int32()), ("seed", pa.int64()), ("level", pa.string()),
     ("nodes", pa.int32()), ("events", pa.int32()), ("published", pa.int64()), ("delivered", pa.int64()),
     ("deliveries_expected", pa.int64()), ("skipped", pa.int64()), ("latency_ms_p50", pa.float64()),
     ("latency_ms_p99", pa.float64()), ("metadata_bytes_mean", pa.float64()), ("broken", pa.string()),
     ("unknown", pa.string()), ("wall_seconds", pa.float64()), ("error", pa.string())]
)  # fmt: skip
PLAN_COLUMNS: Final = "config string, number int, seed bigint"
Planned = tuple[str, int, int]
"""A run: configuration as JSON, repetition, seed."""
RUNS_PER_JOB: Final = 500
RUNS_IN_FIRST_JOB: Final = 4
JOB_SECONDS: Final = 10
"""An interruption loses the job under way. The first is small, and each is at most twice as large as the one before,
while that is over in less than half this time. None has fewer runs than there are cores, or some would have nothing to
do."""
RUNS_PER_TASK: Final = 8
TASKS_MIN: Final = 32
"""A small sweep is cut finer, down to one run each, so that its progress shows."""
_LOOK_SECONDS = 0.5
_EVENTS_TRIED = 3
"""Events with which a configuration is tried before the sweep begins: enough to see whether it can run."""
_NEEDED = {"level": str, "nodes": int, "events": int}


def read_plan(path: AnyPath) -> list[Planned]:
    """Read a plan; return (configuration as JSON, repetition, seed) for every run. Raises UsageError."""
    try:
        plan = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise UsageError(f"PLAN: {path} cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"PLAN: {path} cannot be read as TOML: {error}") from None
    grid, repeat, faults = plan.get("grid"), plan.get("repeat", 1), plan.get("faults", "none")
    if unknown := [name for name in plan if name not in ("grid", "repeat", "faults")]:
        raise UsageError(f"PLAN: {path}: {unknown[0]} is unknown; there are repeat and faults, and a table [grid]")
    if not isinstance(grid, dict):
        raise UsageError(f"PLAN: {path} needs a table [grid]")
    if type(repeat) is not int or repeat < 1:
        raise UsageError(f"PLAN: {path}: repeat must be a whole number from 1 on, not {repeat!r}")
    if not isinstance(faults, str):
        raise UsageError(f"PLAN: {path}: faults must be none, swarm or the name of a file, as a text, not {faults!r}")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise UsageError(f"PLAN: {path}: grid.{name} must be a list of values, such as [1, 2]")
    for name, kind in _NEEDED.items():
        if name not in grid:
            raise UsageError(f"PLAN: {path}: grid.{name} is missing; there must be level, nodes and events")
        if not all(type(value) is kind for value in grid[name]):
            raise UsageError(f"PLAN: {path}: grid.{name} must be a list of values of type {kind.__name__}")
    configurations = [dict(zip(grid, values, strict=True)) | {"faults": faults} for values in product(*grid.values())]
    texts = [json.dumps(each, sort_keys=True) for each in configurations]
    for text in texts:
        try:
            _scenario_of(text, seed_of(text, 0), events_max=_EVENTS_TRIED)
        except WhenceError as error:
            raise UsageError(f"PLAN: {path}: {_named(text)} cannot run: {error}") from None
    return [(text, number, seed_of(text, number)) for text in texts for number in range(repeat)]


def _named(config: str) -> str:
    return ", ".join(f"{name} {value}" for name, value in json.loads(config).items())


def _scenario_of(config: str, seed: int, events_max: int | None = None) -> "Scenario":
    """Return the run of a configuration, of so many events at most. Raises UsageError and SettingError."""
    from whence.sim.scenarios import EVENTS_MAX, simulation
    from whence.sim.workload import NAMES as WORKLOAD
    from whence.sim.workload import workload_from

    settings = json.loads(config)
    level, nodes, events, faults = (settings.pop(name) for name in ("level", "nodes", "events", "faults"))
    workload = workload_from({name: settings.pop(name) for name in WORKLOAD if name in settings})
    if events_max is not None and events <= EVENTS_MAX:  # what is wrong with others is for `simulation` to say
        events = min(events, events_max)
    return simulation(level, nodes, events, seed, faults, settings, workload)


def seed_of(config: str, number: int) -> int:
    """Derive the seed of a configuration's repetition."""
    return int.from_bytes(blake2b(f"{config}#{number}".encode(), digest_size=6).digest(), "big")


def plan_table(spark: SparkSession, plan: list[Planned]) -> DataFrame:
    """Return the plan as a table."""
    return spark.createDataFrame(plan, PLAN_COLUMNS)


AGAIN: Final = "--resume goes on with what is missing"


class Work(NamedTuple):
    """What a sweep does for each row of its plan."""

    run: Callable[[str, int, int], dict[str, Any]]
    """From a configuration, repetition and seed to a row; a function of a module, which the workers import. Whatever
    goes wrong becomes the row's error."""
    columns: str
    shape: pa.Schema
    """The columns of the row, for Spark and for Arrow."""


def results_table(plan: DataFrame, tasks: int, work: Work) -> DataFrame:
    """Return the result of every run of a plan."""

    def run_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [work.run(row["config"], row["number"], row["seed"]) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=work.shape)

    # From one partition runs are dealt out evenly; from several, two may come into one task while another has none.
    return plan.coalesce(1).repartition(tasks).mapInArrow(run_batches, work.columns)


def simulated(config: str, number: int, seed: int) -> dict[str, Any]:
    """Run one simulation and judge it; whatever goes wrong becomes the row's error."""
    from whence.check.judge import judge
    from whence.check.verdict import Outcome
    from whence.sim.run import run
    from whence.sim.summary import summarize

    said_of = {name: json.loads(config)[name] for name in ("level", "nodes", "events")}
    row: dict[str, Any] = {"config": config, "number": number, "seed": seed, **said_of}
    try:
        outcome = run(_scenario_of(config, seed))
        facts, verdicts = summarize(outcome.trace), judge(outcome.trace)
        said = {which: [v.promise for v in verdicts if v.outcome is which] for which in Outcome}
        latency = facts["latency_ms"]
        names = ("published", "delivered", "deliveries_expected", "skipped", "metadata_bytes_mean")
        return row | {name: facts[name] for name in names} | {
            "latency_ms_p50": latency.p50, "latency_ms_p99": latency.p99, "broken": ",".join(said[Outcome.BROKEN]),
            "unknown": ",".join(said[Outcome.UNKNOWN]), "wall_seconds": outcome.wall_seconds,
        }  # fmt: skip
    except Exception as error:  # noqa: BLE001 - one bad configuration must not stop the others
        return row | {"error": f"{type(error).__name__}: {first_line(error)}"}


SIMULATIONS: Final = Work(simulated, RESULTS, _SHAPE)


def summary_table(done: DataFrame) -> DataFrame:
    """Return, per configuration, how often a promise broke, with Wilson's interval, and the lowest seed of it."""
    ran, bad = F.count_if(F.col("error").isNull()), F.count_if(F.col("broken") != "")
    sums = done.groupBy("config").agg(
        ran.alias("runs"), bad.alias("broken_runs"), F.count("error").alias("errors"),
        F.min(F.when(F.col("broken") != "", F.col("seed"))).alias("broken_seed"), F.min("error").alias("error"),
        F.avg("latency_ms_p50").alias("latency_ms_p50"), F.avg("latency_ms_p99").alias("latency_ms_p99"),
        F.avg("metadata_bytes_mean").alias("metadata_bytes_mean"),
        F.sum("delivered").alias("delivered"), F.sum("deliveries_expected").alias("deliveries_expected"),
    )  # fmt: skip
    z = 1.96
    n, p = F.nullif(F.col("runs"), F.lit(0)), F.col("broken_runs") / F.nullif(F.col("runs"), F.lit(0))
    middle, half = p + z * z / (2 * n), z * F.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return sums.select(
        "*", ((middle - half) / (1 + z * z / n)).alias("broken_low"),
        ((middle + half) / (1 + z * z / n)).alias("broken_high")
    )  # fmt: skip


def of_plan(done: DataFrame, plan: list[Planned]) -> DataFrame:
    """Return the results of a plan's runs: by configuration, number and seed."""
    wanted = done.sparkSession.createDataFrame(plan, PLAN_COLUMNS)
    return done.join(F.broadcast(wanted), ["config", "number", "seed"], "left_semi")


def run_sweep(
    spark: SparkSession, plan: list[Planned], out: AnyPath, *, resume: bool,
    on_progress: Callable[[int, int], None] | None = None, on_message: Callable[[str], None] | None = None,
    work: Work = SIMULATIONS, runs_per_job: int = RUNS_PER_JOB, again: str = AGAIN,
) -> DataFrame:  # fmt: skip
    """Run what is missing of a plan, job by job; return all results, those of other plans too.

    `on_message` is told, in a sentence each, which files were damaged and set aside; `again` says how to go on after
    trouble. Raises UsageError, and StorageError where another command writes there.
    """
    directory = out / "results"
    if not resume and _finished(directory):
        raise UsageError(f"--out: {directory} holds results already; give --resume to go on, or a new directory")
    with sole_writer(out):
        for sentence in set_aside_damaged(directory, _finished(directory)):
            if on_message is not None:
                on_message(sentence)
        try:
            earlier = _read(spark, _finished(directory), work).select("config", "number", "seed").collect()
        except Exception as error:
            raise UsageError(
                f"{directory} cannot be read: {first_line(error)}; remove it, or give another --out"
            ) from error
        done = {tuple(row) for row in earlier}
        todo = [each for each in plan if each not in done]
        tell = partial(_tell, on_progress, len(plan))
        try:
            _run_jobs(spark, todo, directory, work, runs_per_job, partial(tell, len(plan) - len(todo)))
        except Exception as error:
            raise UsageError(f"the sweep stopped: {first_line(error)}; when that is mended, {again}") from error
    return _read(spark, _finished(directory), work)


def _tell(on_progress: Callable[[int, int], None] | None, of: int, before: int, done: int) -> None:
    if on_progress is not None:
        on_progress(before + done, of)


def _run_jobs(
    spark: SparkSession, todo: list[Planned], directory: AnyPath, work: Work, most: int, tell: Callable[[int], None]
) -> None:
    """Run jobs until nothing is left; tell how many runs are done."""
    finished = _finished(directory)
    number = int(finished[-1].name.removeprefix("job-")) + 1 if finished else 0
    least = min(most, cores_of(spark))
    start, size = 0, min(most, max(RUNS_IN_FIRST_JOB, least))
    while start < len(todo):
        began, part, where = monotonic(), todo[start : start + size], directory / f"job-{number:05d}"
        tasks = max(-(-len(part) // RUNS_PER_TASK), min(len(part), TASKS_MIN))

        def so_far(share: float, before: int = start, runs: int = len(part)) -> None:
            tell(before + int(share * runs))

        with _watching(where, tasks, so_far):
            results = results_table(plan_table(spark, part), tasks, work).coalesce(tasks)
            results.write.mode("overwrite").parquet(str(where))
        start, number, size = start + len(part), number + 1, next_size(size, monotonic() - began, least, most)


def next_size(size: int, seconds: float, least: int, most: int) -> int:
    """Return how many runs the next job has, from the size of the last and how long it took."""
    if seconds < JOB_SECONDS / 2:
        return min(most, 2 * size)
    return max(least, size // 2) if seconds > 2 * JOB_SECONDS else size


@contextmanager
def _watching(where: AnyPath, tasks: int, tell: Callable[[float], None]) -> Iterator[None]:
    """Report the share of a job's tasks that have written their rows, while it runs and when it is over."""
    over = Event()

    def look() -> None:
        most = 0  # what was written moves to its place at the end, and then nothing is seen there any more
        while not over.wait(_LOOK_SECONDS):
            with suppress(WhenceError, OSError):  # it only shows how far the job is
                attempts = [where / "_temporary" / name for name in entries(where / "_temporary")]
                most = max(most, sum(name.startswith("task_") for each in attempts for name in entries(each)))
            tell(min(1.0, most / tasks))

    watcher = Thread(target=look, name="progress", daemon=True)
    tell(0.0)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    tell(1.0)


def _finished(directory: AnyPath) -> list[AnyPath]:
    """Return the jobs whose results are whole."""
    jobs = [directory / name for name in entries(directory) if name.startswith("job-")]
    return [job for job in jobs if (job / "_SUCCESS").exists()]


def _read(spark: SparkSession, jobs: list[AnyPath], work: Work) -> DataFrame:
    if not jobs:
        return spark.createDataFrame([], work.columns)
    return spark.read.schema(work.columns).parquet(*map(str, jobs))
