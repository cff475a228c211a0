"""whence metrics: tables of numbers about any number of runs."""

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.output import directory, parse_settings, print_json, progress, stdout
from whence.cli.verify import Conf, Master, Traces

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a sentence.")]


def metrics(
    traces: Traces,
    out: Annotated[Path, typer.Option(help="Where the tables go, one directory of Parquet each.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the tables of an earlier measurement.")
    ] = False,
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Measure traces: throughput, latency, hold time, loss, recovery and metadata per run, group and window of time."""
    from whence.pipeline import events, session
    from whence.pipeline import metrics as measuring

    with progress(quiet=json) as bar:
        bar.add_task("measuring on Spark", total=None)
        found = events.find_input(traces)
        into = measuring.check_free(directory(out, "--out"), overwrite=overwrite)
        spark = session.session(master, parse_settings(conf or [], "--conf"))
        with measuring.measures(spark, found) as tables:
            written = measuring.write_metrics(tables, into, overwrite=overwrite)
    if json:
        print_json(0, runs=len(found.runs), tables=[str(path) for path in written])
    else:
        stdout().print(f"{len(found.runs):,} runs measured: " + ", ".join(map(str, written)))
