"""What the pipeline costs beside Spark's own plain work on the same rows, in the same session, on two cores.

merge    the batch merge of publishers' logs, all in `one` order and by `groups`, positions included, beside a plain
         global sort of the same rows by one long. Nobody looks for duplicates here. At least 0.9 of its throughput is
         asked for at 10 million rows.
linear   the merge by group from rows / 16 to twice the rows, doubling: at most 2.2 times as long each. The session has
         2 GiB for driver and executor together, so that the largest also shows that memory is bounded.
check    the `causal` check of a trace, and `all` checks, beside a plain sort of its deliveries by one long: at most 2
         and 5 times as long.
flat     all checks of traces with a tenth of the rows and with all of them, without violations and with a few: the
         processor time for a row may grow by a fifth, and the processes may take 4 GiB. `--only flat --rows 100000000`
         goes from 10^7 to 10^8 deliveries.
stream   the streaming merge beside a plain foreachBatch copy of the same files to Parquet: at least 0.5 of its rows
         per second.

Rows that are only sorted go to a sink that throws them away. Times are medians of interleaved repetitions.
"""

import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from _common import arguments, finish, interleaved
from _spark import LISTENERS, write_big_trace, write_logs
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from whence.pipeline.certificate import PROVABLE
from whence.pipeline.log_reader import read_logs
from whence.pipeline.manifest import committed_steps, read_manifest
from whence.pipeline.merge import events_of_groups, merged_by_group, merged_in_one
from whence.pipeline.session import MEMORY, configure_for_size, session
from whence.pipeline.stream import run_stream
from whence.pipeline.stream_step import Rules
from whence.pipeline.verify import verify

SIDES = ("merge", "linear", "check", "flat", "stream")
PARTS = 16
STREAM_FILES, FILES_PER_BATCH = 40, 2
SWAPS = 10

Numbers = dict[str, Any]
Goals = dict[str, bool]


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    began = perf_counter()
    work()
    return perf_counter() - began


def drained(table: Callable[[], DataFrame]) -> Callable[[], float]:
    """Return a function that measures making a table and discarding its rows, planning included."""
    return lambda: seconds(lambda: table().write.format("noop").mode("overwrite").save())


def merge(spark: SparkSession, directory: Path, rows: int, repeat: int) -> tuple[Numbers, Goals]:
    """Measure both merges beside a plain sort."""
    write_logs(spark, directory / "logs", rows, 8, in_order=False)
    log = events_of_groups(read_logs(spark, directory / "logs"), None)
    took = interleaved(
        repeat,
        {
            "sort": drained(lambda: log.orderBy("k_hi")),
            "one": drained(lambda: merged_in_one(log, PARTS, unique_across_groups=True)),
            "groups": drained(lambda: merged_by_group(log, PARTS)),
        },
    )
    ratios = {f"{name}_ratio": round(took["sort"] / took[name], 3) for name in ("one", "groups")}
    numbers = {f"{name}_s": round(each, 2) for name, each in took.items()}
    return numbers | ratios, {f"{name} at least 0.9": ratio >= 0.9 for name, ratio in ratios.items()}


def linear(spark: SparkSession, directory: Path, rows: int, repeat: int) -> tuple[Numbers, Goals]:
    """Measure the merge by group at doubling sizes, up to twice the rows."""
    took = []
    for doubling in range(6):
        count = rows * 2 // 2 ** (5 - doubling)
        where = directory / f"logs-{count}"
        write_logs(spark, where, count, 8, in_order=False)
        log = events_of_groups(read_logs(spark, where), None)
        measure = drained(lambda log=log: merged_by_group(log, PARTS))  # type: ignore[misc]
        measure()  # once to warm up
        took.append(min(measure() for _ in range(repeat)))
        shutil.rmtree(where)
    steps = [round(after / before, 2) for before, after in pairwise(took)]
    numbers = {"rows_max": rows * 2, "memory": MEMORY, "took_s": [round(each, 2) for each in took], "doublings": steps}
    return numbers, {"each doubling at most 2.2": max(steps) <= 2.2}


def check(spark: SparkSession, directory: Path, rows: int, repeat: int) -> tuple[Numbers, Goals]:
    """Measure the causal check and all checks beside a plain sort of the deliveries."""
    traces = write_big_trace(spark, directory / "traces", rows)
    delivered = spark.read.parquet(f"{traces}/run_id=big/kind=deliver")

    def judged(*promises: str) -> None:
        verdicts = verify(spark, [traces], promises, certify=True).runs[0].verdicts
        assert all(verdict.holds for verdict in verdicts), verdicts

    took = interleaved(
        repeat,
        {
            "sort": drained(lambda: delivered.orderBy("payload_crc")),
            "causal": lambda: seconds(lambda: judged("causal")),
            "all": lambda: seconds(lambda: judged(*PROVABLE)),
        },
    )
    times = {f"{name}_times": round(took[name] / took["sort"], 2) for name in ("causal", "all")}
    numbers = {f"{name}_s": round(each, 2) for name, each in took.items()}
    return numbers | times, {"causal at most 2": times["causal_times"] <= 2, "all at most 5": times["all_times"] <= 5}


def flat(spark: SparkSession, directory: Path, rows: int, repeat: int) -> tuple[Numbers, Goals]:
    """Measure all checks at two sizes, without violations and with SWAPS of them."""
    numbers: Numbers = {}
    goals: Goals = {}
    for swaps in (0, SWAPS):
        costs = []
        for count in (rows // 10, rows):
            traces = write_big_trace(spark, directory / "traces", count, swaps=swaps)

            def judged(where: Path = traces, swaps: int = swaps) -> None:
                verdicts = verify(spark, [where], PROVABLE, certify=True).runs[0].verdicts
                told = {verdict.promise: verdict.count for verdict in verdicts}
                assert told["causal"] == told["optimistic_causal"] == told["keys"] == swaps, told
                assert told["total_order"] == (LISTENERS if swaps else 0), told

            judged()  # once to warm up
            costs.append(1e6 * min(cpu_seconds(judged) for _ in range(repeat)) / count)
            shutil.rmtree(traces)
        name = "with violations" if swaps else "without violations"
        growth = round(costs[1] / costs[0], 2)
        numbers[name] = {"cpu_us_per_row": [round(cost, 2) for cost in costs], "growth": growth}
        goals[f"{name} at most 1.2"] = growth <= 1.2
    numbers["peak_gib"] = peak_gib()
    return numbers, goals | {"within 4 GiB": numbers["peak_gib"] <= 4}


def spark_pid() -> int:
    """Return the process that Spark runs in."""
    gateway: Any = SparkContext._gateway
    return int(gateway.proc.pid)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return how much processor time Spark's process took for something."""

    def spent() -> float:
        fields = Path(f"/proc/{spark_pid()}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    began = spent()
    work()
    return spent() - began


def peak_gib() -> float:
    """Return the most memory that Spark's process and this one ever had, without workers of Python."""
    of_all = 0
    for pid in (os.getpid(), spark_pid()):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        of_all += next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return round(of_all / 2**20, 2)


def stream(spark: SparkSession, directory: Path, rows: int, repeat: int) -> tuple[Numbers, Goals]:
    """Measure the streaming merge beside a plain copy."""
    configure_for_size(spark, 0)  # as the command does: batches are too small for compiled code to pay
    logs = directory / "logs"
    write_logs(spark, logs, rows, STREAM_FILES, in_order=True)
    schema = spark.read.parquet(str(logs)).schema
    rules = Rules(epsilon=5, delta=100, partitions=2)

    def copied() -> None:
        where = directory / "copy"
        shutil.rmtree(where, ignore_errors=True)
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(logs))
        writer = source.writeStream.foreachBatch(lambda batch, number: batch.write.parquet(f"{where}/batch={number}"))
        writer.option("checkpointLocation", f"{where}/checkpoint").trigger(availableNow=True).start().awaitTermination()

    def merged() -> None:
        out, work = directory / "out", directory / "work"
        for each in (out, work):
            shutil.rmtree(each, ignore_errors=True)
        run_stream(spark, logs, out, work, rules, {}, once=True, flush=True, files_per_batch=FILES_PER_BATCH)
        released = sum(read_manifest(out, step).rows["released"] for step in committed_steps(out))
        assert released == rows, released

    took = interleaved(repeat, {"copy": lambda: seconds(copied), "stream": lambda: seconds(merged)})
    rates = {f"{name}_rows_per_s": round(rows / each) for name, each in took.items()}
    ratio = round(took["copy"] / took["stream"], 3)
    return rates | {"stream_ratio": ratio}, {"stream at least 0.5": ratio >= 0.5}


def main() -> None:
    """Measure one part, or all."""
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=SIDES, action="append", help="only this; may be given again")
    parser.add_argument("--rows", type=int, help="rows; 10 million unless said, 2 million for the stream")
    given = parser.parse_args()
    spark = session("local[2]")
    configure_for_size(spark, 1 << 30)
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTS))
    numbers: Numbers = {}
    goals: Goals = {}
    for name in given.only or SIDES:
        rows = given.rows or (20_000 if given.quick else 2_000_000 if name == "stream" else 10_000_000)
        with TemporaryDirectory(prefix="whence-bench-") as directory:
            measure = {"merge": merge, "linear": linear, "check": check, "flat": flat, "stream": stream}[name]
            found, reached = measure(spark, Path(directory), rows, given.repeat or (1 if given.quick else 3))
        numbers[name] = {"rows": rows} | found
        goals |= {f"{name}: {goal}": met for goal, met in reached.items()}
    spark.stop()
    finish("pipeline", numbers, goals, quick=given.quick)


if __name__ == "__main__":
    main()
