"""whence sweep: many simulations as one Spark job."""

import json as text
from typing import Annotated, Any

import typer
from rich.table import Table

from whence.cli.output import Paced, print_json, print_message, progress, stdout
from whence.cli.spark import going_on, need_spark, placed, placed_directory, starting
from whence.cli.verify import Conf, Master

FAILED = 1


def sweep(
    plan: Annotated[
        str, typer.Argument(metavar="PLAN.toml", help="Levels, sizes and settings to combine: a path or URI.")
    ],
    out: Annotated[str, typer.Option(help="Where the results go, as Parquet: a path or URI.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is missing.")] = False,
    master: Master = None,
    conf: Conf = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Run simulations as a Spark job: one row per configuration and repetition, judged, with seeds derived.

    A plan: repeat = 20, faults = "swarm", and a table \\[grid] with lists, such as level = ["fifo"], nodes = [10, 20],
    events = [100], fanout = [3, 4]. A run that fails is a row with its error; a sweep that stops goes on with --resume,
    also with a plan that has grown. Exit code 0: every run has its result. 1: a run failed. 2: the plan or an argument
    is wrong, or a configuration of the plan cannot run.
    """
    need_spark()
    from whence.pipeline import session
    from whence.pipeline import sweep as sweeping

    start = starting(master, conf)
    runs = sweeping.read_plan(placed(plan, start))
    into = placed_directory(out, start, "--out")
    with progress(quiet=json) as bar:
        task, paced = bar.add_task("simulating on Spark", total=len(runs)), Paced("simulating on Spark")

        def tell(done: int, of: int) -> None:
            bar.update(task, completed=done)
            paced(done, of)

        with going_on(sweeping.AGAIN):
            spark = start()
            session.configure_for_size(spark, 0)
            done = sweeping.run_sweep(spark, runs, into, resume=resume, on_progress=tell, on_message=print_message)
            mine = sweeping.of_plan(done, runs)
            rows = [row.asDict() for row in sweeping.summary_table(mine).orderBy("config").collect()]
            others = done.count() - sum(row["runs"] + row["errors"] for row in rows)
    if json:
        print_json(0, runs=len(runs), configurations=rows, other_runs=others, results=str(into / "results"))
    else:
        _show(rows, others)
    if any(row["errors"] for row in rows):
        raise typer.Exit(FAILED)


def _show(rows: list[dict[str, Any]], others: int) -> None:
    table = Table("configuration", "runs", "broken", "errors", "p50 ms", "p99 ms", "metadata B")
    for row in rows:
        named = ", ".join(f"{name} {value}" for name, value in text.loads(row["config"]).items())
        numbers = (row["latency_ms_p50"], row["latency_ms_p99"], row["metadata_bytes_mean"])
        shown = ["" if number is None else f"{number:,.1f}" for number in numbers]
        table.add_row(named, f"{row['runs']:,}", f"{row['broken_runs']:,}", f"{row['errors']:,}", *shown)
    console = stdout()
    console.print(table)
    for error in dict.fromkeys(row["error"] for row in rows if row["error"]):
        console.print(f"a run failed: {error}", style="red", markup=False)
    if others:
        console.print(f"{others:,} runs of other plans lie there too, and are not in the table", style="dim")
