"""Experiments: runs that measure something, as a sweep; and means with confidence bands of what they measured.

A measuring function gets a configuration and a seed and returns numbers by name. It is a function of a module that the
workers import. The same configuration and seed give the same numbers, so nothing of when or where it ran is in a row.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from whence.pipeline.session import first_line
from whence.pipeline.sweep import Planned, Work, of_plan, run_sweep, seed_of

Config = dict[str, Any]
Measure = Callable[[Config, int], Mapping[str, float]]

MEASURED: Final = "config string, number int, seed bigint, measures map<string,double>, error string"
_SHAPE = pa.schema(
    [("config", pa.string()), ("number", pa.int32()), ("seed", pa.int64()),
     ("measures", pa.map_(pa.string(), pa.float64())), ("error", pa.string())]
)  # fmt: skip

RUNS_PER_JOB: Final = 24
"""Runs of an experiment take seconds each."""
AGAIN: Final = "the same command goes on with what is missing"

STUDENT: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t for a band of 95 %, by degrees of freedom from 1 on; beyond the table 1.96 is close enough."""


def planned(configs: Sequence[Config], repeat: int, seed: int = 0, same_draw: Collection[str] = ()) -> list[Planned]:
    """Return the runs of an experiment, each with a seed that depends on its configuration, its number and `seed`.

    Values named in `same_draw` have no part in it: configurations that differ in these alone have the same seeds.
    """
    salt = f"@{seed}" if seed else ""
    return [
        (_text(config), number, seed_of(_text(drawn) + salt, number))
        for config in configs
        for drawn in ({name: value for name, value in config.items() if name not in same_draw},)
        for number in range(repeat)
    ]


def _text(config: Config) -> str:
    return json.dumps(config, sort_keys=True)


def measuring(measure: Measure) -> Work:
    """Return the work of a sweep whose runs measure something."""

    def run(config: str, number: int, seed: int) -> dict[str, Any]:
        row: dict[str, Any] = {"config": config, "number": number, "seed": seed}
        try:
            return row | {"measures": {name: float(value) for name, value in measure(json.loads(config), seed).items()}}
        except Exception as error:  # noqa: BLE001 - one bad configuration must not stop the others
            return row | {"error": f"{type(error).__name__}: {first_line(error)}"}

    return Work(run, MEASURED, _SHAPE)


def run_experiment(
    spark: SparkSession, plan: list[Planned], measure: Measure, out: Path,
    on_progress: Callable[[int, int], None] | None = None, on_message: Callable[[str], None] | None = None,
) -> DataFrame:  # fmt: skip
    """Run what is missing of a plan; return the results of this plan, and of no other. Raises as `run_sweep`."""
    done = run_sweep(
        spark, plan, out, resume=True, on_progress=on_progress, on_message=on_message, work=measuring(measure),
        runs_per_job=RUNS_PER_JOB, again=AGAIN,
    )  # fmt: skip
    return of_plan(done, plan).orderBy("config", "number")


def band_table(done: DataFrame) -> DataFrame:
    """Return, per configuration and measure, the mean over all runs with its confidence band of 95 %, and extremes.

    A single run has no band: low and high are its value.
    """
    each = done.filter(F.col("error").isNull()).select("config", F.explode("measures").alias("measure", "value"))
    values = each.groupBy("config", "measure").agg(F.array_sort(F.collect_list("value")).alias("values"))
    sums = values.select("*", F.size("values").alias("runs"), (_total("values") / F.size("values")).alias("mean"))
    squares = F.transform("values", lambda value: (value - F.col("mean")) * (value - F.col("mean")))
    spread = F.sqrt(_total(squares) / F.greatest(F.col("runs") - 1, F.lit(1)))
    table = F.array(*[F.lit(t) for t in STUDENT])
    freedom = F.greatest(F.col("runs") - 1, F.lit(1))
    t = F.when(freedom > len(STUDENT), F.lit(1.96)).otherwise(
        F.element_at(table, F.least(freedom, F.lit(len(STUDENT))).cast("int"))
    )
    half = t * spread / F.sqrt(F.col("runs"))
    return sums.select(
        "config", "measure", "runs", "mean", (F.col("mean") - half).alias("low"), (F.col("mean") + half).alias("high"),
        F.array_min("values").alias("least"), F.array_max("values").alias("most"),
    ).orderBy("config", "measure")  # fmt: skip


def _total(values: Column | str) -> Column:
    """Return a sum in the order of the array: the order in which rows come changes no digit."""
    return F.aggregate(values, F.lit(0.0), lambda total, value: total + value)
