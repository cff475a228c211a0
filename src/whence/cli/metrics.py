"""whence metrics: tables of numbers about any number of runs."""

from typing import Annotated

import typer

from whence.cli.check import UNREADABLE
from whence.cli.output import print_json, print_message, progress, stdout
from whence.cli.spark import need_engine, placed, placed_directory, starting
from whence.cli.verify import Conf, EngineName, Master, Traces, set_aside_as_json

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a sentence.")]


def metrics(
    traces: Traces,
    out: Annotated[str, typer.Option(help="Where the tables go, one directory of Parquet each: a path or URI.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the tables of an earlier measurement.")
    ] = False,
    engine: EngineName = "auto",
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Measure traces: throughput, latency, hold time, loss, recovery and metadata per run, group and window of time.

    Exit code 0: measured. 2: something could not be read, or rows that were written are not there; it is named on
    standard error, and the tables are those of the rest.
    """
    need_engine(engine, master, conf)
    from whence.pipeline import events
    from whence.pipeline import metrics as measuring

    with progress(quiet=json) as bar:
        task = bar.add_task("measuring", total=None)
        start = starting(master, conf, engine)
        places = [placed(trace, start) for trace in traces]
        found = events.find_input(places)
        into = measuring.check_free(placed_directory(out, start, "--out"), overwrite=overwrite)
        done = start.run(
            lambda session: measuring.measure(session, found, into, overwrite=overwrite),
            found.bytes, [*places, into], bar, task,
        )  # fmt: skip
    for sentence in done.unusable.sentences():
        print_message(sentence)
    if json:
        print_json(
            0, runs=len(found.runs), tables=[str(path) for path in done.tables],
            set_aside=set_aside_as_json(done.unusable.set_aside), incomplete=done.unusable.incomplete,
        )  # fmt: skip
    else:
        stdout().print(f"{len(found.runs):,} runs measured: " + ", ".join(map(str, done.tables)))
    if done.unusable.is_unreadable:
        raise typer.Exit(UNREADABLE)
