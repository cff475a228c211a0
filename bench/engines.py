"""What the local engine saves: `whence verify` of a tiny trace on DuckDB beside the same command on Spark.

Both are whole commands, from the start of Python to the exit code, and what they print must be the same to the byte.
The goal is at most a tenth of Spark's wall time.

`--sizes` is what the choice between the engines rests on: both commands on traces of so many deliveries, with the most
memory that the local one took. Such traces hold no violations, so that one pass settles them; with `--swaps` some
deliveries are out of order, and what lies around them is judged in full.

`--candidates` is what the choice of DuckDB rests on: the pass of a certificate over so many deliveries, one running
maximum per publisher, a join and two aggregations, on DuckDB and on Polars (pip install polars), with the time that
each takes to be imported and to answer for the first time.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from _common import arguments, finish, interleaved
from _spark import write_big_trace

from whence.pipeline.events import find_input
from whence.pipeline.session import session

PUBLISHERS = 8
RATIO_MAX = 0.1

_IMPORTS = {
    "duckdb": "import duckdb; duckdb.sql('select 1').fetchall()",
    "polars": "import polars; polars.DataFrame({'a': [1]}).lazy().select('a').collect()",
}


def whence(*words: str) -> tuple[float, str]:
    """Run a command; return how long it took and what it printed."""
    began = perf_counter()
    done = subprocess.run([sys.executable, "-m", "whence", *words], check=True, capture_output=True, text=True)
    return perf_counter() - began, done.stdout


def weighed(*words: str) -> tuple[float, str, float]:
    """Run a command; return how long it took, what it printed, and the most GiB that it had."""
    began = perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "whence", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), words  # 1: something is broken
    return perf_counter() - began, printed, used.ru_maxrss / (1 << 20)


def tiny_verify(directory: Path, repeat: int) -> dict[str, Any]:
    """Measure both engines on a small run of simulated gossip."""
    whence("simulate", "--level", "fifo", "--nodes", "5", "--events", "20", "--seed", "7", "--out", str(directory))
    printed: dict[str, set[str]] = {"local": set(), "spark": set()}

    def verify(engine: str) -> Callable[[], float]:
        def measure() -> float:
            took, text = whence("verify", str(directory), "--engine", engine, "--json")
            printed[engine].add(text)
            return took

        return measure

    took = interleaved(repeat, {engine: verify(engine) for engine in printed})
    return {f"{name}_s": round(value, 3) for name, value in took.items()} | {
        "ratio": round(took["local"] / took["spark"], 3),
        "same": len(printed["local"] | printed["spark"]) == 1,
    }


def by_size(directory: Path, sizes: list[int], swaps: int, repeat: int) -> dict[str, Any]:
    """Measure both engines on traces of some sizes."""
    numbers: dict[str, Any] = {}
    for deliveries in sizes:
        spark = session("local[2]")
        trace = write_big_trace(spark, directory / str(deliveries), deliveries, swaps=swaps)
        spark.stop()
        rows_gib = round(find_input([trace]).bytes / (1 << 30), 2)
        numbers |= {f"{name}_{deliveries}": value for name, value in _both(trace, repeat).items()}
        numbers[f"rows_gib_{deliveries}"] = rows_gib
        shutil.rmtree(trace)
    return numbers


def _both(trace: Path, repeat: int) -> dict[str, Any]:
    printed, memory = set[str](), list[float]()

    def verify(engine: str) -> float:
        took, text, gib = weighed("verify", str(trace), "--engine", engine, "--json")
        printed.add(text)
        if engine == "local":  # Spark's memory is another process's
            memory.append(gib)
        return took

    took = interleaved(repeat, {"local": lambda: verify("local"), "spark": lambda: verify("spark")})
    return {f"{name}_s": round(value, 2) for name, value in took.items()} | {
        "local_gib": round(max(memory), 2), "same": len(printed) == 1,
    }  # fmt: skip


def candidates(directory: Path, rows: int, repeat: int) -> dict[str, Any]:
    """Measure what each library takes to begin, and for the pass of a certificate."""

    def begin(name: str) -> Callable[[], float]:
        def measure() -> float:
            began = perf_counter()
            subprocess.run([sys.executable, "-c", _IMPORTS[name]], check=True)
            return perf_counter() - began

        return measure

    file = directory / "deliveries.parquet"
    _write_deliveries(file, rows)
    assert _on_duckdb(file)[1] == _on_polars(file)[1], "both find the same"
    took = interleaved(repeat, {"duckdb_pass": lambda: _on_duckdb(file)[0], "polars_pass": lambda: _on_polars(file)[0]})
    took |= interleaved(repeat, {f"{name}_start": begin(name) for name in _IMPORTS})
    return {"rows": rows, **{f"{name}_s": round(value, 3) for name, value in took.items()}}


def _write_deliveries(file: Path, rows: int) -> None:
    import duckdb

    duckdb.sql(
        f"""COPY (SELECT (i % 10)::INTEGER AS node, i // 10 AS ev, (i // 10 % {PUBLISHERS})::INTEGER AS pid,
                         i // 10 // {PUBLISHERS} AS place, i % 3 > 0 AS keyed, 1000 + i * 7 AS k_hi, i % 5 AS k_lo
                  FROM range({rows}) t(i)) TO '{file}' (FORMAT parquet)"""
    )


def _on_duckdb(file: Path) -> tuple[float, tuple[Any, ...]]:
    import duckdb

    began = perf_counter()
    line = "OVER (PARTITION BY node ORDER BY ev ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    reach = ", ".join(f"coalesce(max(CASE WHEN pid = {at} THEN place + 1 END) {line}, 0) AS r{at}" for at in range(8))
    least = ", ".join(f"min(r{at}) AS m{at}" for at in range(PUBLISHERS))
    sums = ", ".join(f"sum(m{at})" for at in range(PUBLISHERS))
    keys = f"max({{'h': k_hi, 'l': k_lo}}) {line} AS heard"
    with duckdb.connect() as connection:
        row = connection.execute(
            f"""WITH lines AS (SELECT *, {reach}, {keys} FROM '{file}'),
                     first AS (SELECT pid, min(place) AS first FROM '{file}' GROUP BY pid),
                     each AS (SELECT pid, place, count(*) AS n, {least}, max(heard) AS heard
                              FROM lines JOIN first USING (pid) WHERE place >= first GROUP BY pid, place)
                SELECT count(*), sum(n), {sums}, max(heard.h) FROM each"""
        ).fetchone()
    return perf_counter() - began, tuple(map(int, row or ()))


def _on_polars(file: Path) -> tuple[float, tuple[Any, ...]]:
    import polars as pl

    began = perf_counter()
    rows = pl.scan_parquet(file).sort("node", "ev")
    reach = [
        pl.when(pl.col("pid") == at).then(pl.col("place") + 1).cum_max().forward_fill().shift(1).over("node")
        .fill_null(0).alias(f"r{at}")
        for at in range(PUBLISHERS)
    ]  # fmt: skip
    # There is no order on structs: a key of two longs is packed into one before its running maximum is taken.
    heard = (pl.col("k_hi") * 8 + pl.col("k_lo")).cum_max().shift(1).over("node").alias("heard")
    first = pl.scan_parquet(file).group_by("pid").agg(pl.col("place").min().alias("first"))
    each = (
        rows.with_columns(*reach, heard).join(first, on="pid").filter(pl.col("place") >= pl.col("first"))
        .group_by("pid", "place")
        .agg(pl.len().alias("n"), *(pl.col(f"r{at}").min() for at in range(PUBLISHERS)), pl.col("heard").max())
    )  # fmt: skip
    row = each.select(
        pl.len().alias("count"), pl.col("n").sum(), *(pl.col(f"r{at}").sum() for at in range(PUBLISHERS)),
        (pl.col("heard").max() // 8).alias("heard"),
    ).collect()  # fmt: skip
    return perf_counter() - began, tuple(map(int, row.row(0)))


def main() -> None:
    """Measure, print and exit."""
    parser = arguments(__doc__)
    parser.add_argument("--candidates", action="store_true", help="compare DuckDB and Polars instead")
    parser.add_argument("--sizes", type=int, nargs="+", help="deliveries of traces that both engines judge instead")
    parser.add_argument("--swaps", type=int, default=0, help="with --sizes: deliveries that are out of order")
    parser.add_argument("--rows", type=int, default=1_000_000, help="deliveries of the pass")
    given = parser.parse_args()
    repeat = given.repeat or (1 if given.quick else 5)
    with TemporaryDirectory(prefix="whence-bench-") as scratch:
        if given.candidates:
            finish("engines-candidates", candidates(Path(scratch), given.rows, repeat), {}, quick=given.quick)
        if given.sizes:
            numbers = by_size(Path(scratch), given.sizes, given.swaps, given.repeat or 1)
            same = all(value for name, value in numbers.items() if name.startswith("same"))
            finish("engines-sizes", numbers, {"the same to the byte": same}, quick=given.quick)
        numbers = tiny_verify(Path(scratch) / "run", repeat)
    goals = {"the same to the byte": numbers["same"], "at most 0.1 of Spark": numbers["ratio"] <= RATIO_MAX}
    finish("engines", numbers, goals, quick=given.quick)


if __name__ == "__main__":
    main()
