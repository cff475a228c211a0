"""whence merge and whence stream: publishers' logs become one causal, deterministic order."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import complain, parse_settings, print_json, progress, stdout
from whence.cli.verify import Conf, Master
from whence.errors import UsageError
from whence.places import local

if TYPE_CHECKING:
    from whence.pipeline.batch import Merged

Logs = Annotated[
    Path,
    typer.Argument(metavar="LOGS", help="A file or directory of publishers' logs (Parquet or NDJSON), or a trace."),
]
Out = Annotated[Path, typer.Option(help="Where the merged order goes.")]
Mapping = Annotated[
    Path | None, typer.Option(help='A TOML file that names the columns of foreign logs, such as l = "sent_ms".')
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a sentence.")]


Strict = Annotated[
    bool,
    typer.Option("--strict", help="Stop at the first row that has no place in the order, rather than set it aside."),
]


def merge(
    logs: Logs,
    out: Out,
    group: Annotated[list[str] | None, typer.Option(help="Only this group; may be given again.")] = None,
    one: Annotated[
        bool, typer.Option("--one/--by-group", help="One order over all rows, rather than one for each group.")
    ] = False,
    unique: Annotated[bool, typer.Option("--unique", hidden=True)] = False,
    mapping: Mapping = None,
    strict: Strict = False,
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Merge publishers' logs into one causal, deterministic order.

    The order is that of the keys: the same for any partitioning, any order of files and any machine. Each row gets its
    position `pos`. With --one, all groups together, or a group too large for one task, are one sequence. Rows without
    a place in the order go to OUT/_rejected with their file and the reason, further rows of an event that is there
    more than once to OUT/_twice; both are counted.
    """
    from whence.pipeline import batch
    from whence.pipeline import logs as reading
    from whence.pipeline import session as sessions

    local(out, "--out")
    named = reading.read_mapping(mapping)
    files = reading.log_files(logs)
    tell_unread(reading.unread_files(logs))
    with progress(quiet=json) as bar:
        bar.add_task("merging on Spark", total=None)
        spark = sessions.session(master, parse_settings(conf or [], "--conf"))
        partitions = sessions.suit(spark, sum(file.stat().st_size for file in files))
        done = batch.merge_logs(
            spark, logs, out, partitions, named, groups=group or None, by_group=not one, strict=strict
        )
    if json:
        print_json(
            0, read=done.read, rows=done.rows, twice=done.twice, rejected=done.rejected, heartbeats=done.heartbeats,
            elsewhere=done.elsewhere, out=str(out),
        )  # fmt: skip
        return
    stdout().print(f"merged {done.rows:,} events into {out}{_beside(done)}")
    if done.rejected:
        complain(f"{done.rejected:,} rows have no place in the order; {out / batch.REJECTED_TO} says why of each")


def tell_unread(files: list[Path]) -> None:
    """Say which files are not read, so that nobody takes them for merged."""
    if files:
        named = ", ".join(str(file) for file in files[:5]) + (", …" if len(files) > 5 else "")
        complain(f"{len(files):,} files are not read: logs are called .parquet, .ndjson, .jsonl or .json, not {named}")


def _beside(done: "Merged") -> str:
    """Say what became of the other rows."""
    other = {"there twice": done.twice, "rejected": done.rejected, "heartbeats": done.heartbeats,
             "of other groups": done.elsewhere}  # fmt: skip
    told = ", ".join(f"{count:,} {name}" for name, count in other.items() if count)
    return f" (besides: {told})" if told else ""


def stream(
    logs: Logs,
    out: Out,
    work: Annotated[Path, typer.Option(help="Where the stream keeps what is pending, and how far it has read.")],
    once: Annotated[
        bool, typer.Option("--once", help="Merge what is there and stop, rather than wait for more.")
    ] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="With --once: the logs are complete, release what is still pending.")
    ] = False,
    mode: Annotated[
        str, typer.Option(help="evidence (by clocks) or frontier (by how far each publisher is).")
    ] = "evidence",
    epsilon: Annotated[int, typer.Option(min=1, help="Clocks differ by less than so many ticks.")] = 5,
    delta: Annotated[int, typer.Option(min=0, help="Rows land within so many ticks.")] = 100,
    silent: Annotated[int, typer.Option(min=1, help="frontier: leave out who is silent for so many ticks.")] = 60_000,
    files_per_batch: Annotated[int, typer.Option(min=1, help="Files merged in one step.")] = 8,
    mapping: Mapping = None,
    strict: Strict = False,
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Merge publishers' logs as they grow: exactly once and in order, even if this is killed at any moment.

    Released rows go to OUT/released, those that came after their place had passed to OUT/late, further rows of an
    event to OUT/twice, and those that have no place in the order to OUT/rejected, each with its file and the reason.
    Only steps with a manifest in OUT/manifests count.
    Started again, it goes on where it stopped. Writers must move whole files in. Exit code 0: all that was there is
    merged. 2: it cannot be read or written.
    """
    from whence.pipeline import logs as reading
    from whence.pipeline import session as sessions
    from whence.pipeline import stream as streaming

    local(out, "--out")
    local(work, "--work")
    if mode not in ("evidence", "frontier"):
        raise UsageError(f"--mode must be evidence or frontier, not {mode!r}")
    if flush and not once:
        raise UsageError("--flush needs --once: a stream that goes on has nothing to be complete")
    named = reading.read_mapping(mapping)
    tell_unread(reading.unread_files(logs))
    with progress(quiet=json) as bar:
        task = bar.add_task("merging on Spark", total=None)
        spark = sessions.session(master, parse_settings(conf or [], "--conf"))
        partitions = sessions.suit(spark, 0)
        rules = streaming.Rules(
            epsilon=epsilon, delta=delta, mode="frontier" if mode == "frontier" else "evidence", silent=silent,
            partitions=partitions,
        )  # fmt: skip
        streaming.run_stream(
            spark, logs, out, work, rules, named, once=once, flush=flush, strict=strict,
            files_per_batch=files_per_batch,
            on_step=lambda done: bar.update(task, description=f"step {done.step}: {done.rows['released']:,} released"),
        )  # fmt: skip
    done = [streaming.read_manifest(out, step) for step in streaming.manifests(out)]
    counted = ("in", "released", "late", "twice", "rejected")
    facts = {name: sum(each.rows.get(name, 0) for each in done) for name in counted}
    facts["pending"] = done[-1].rows.get("pending", 0) if done else 0
    if json:
        print_json(0, steps=len(done), out=str(out), **facts)
    else:
        told = ", ".join(f"{count:,} {name}" for name, count in facts.items())
        stdout().print(f"{len(done):,} steps: {told}; {out}")
        if facts["rejected"]:
            complain(f"{facts['rejected']:,} rows have no place in the order; {out / 'rejected'} says why of each")
