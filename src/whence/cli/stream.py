"""whence stream: publishers' logs become one causal, deterministic order as they grow."""

from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.merge import Json, Logs, Mapping, Out, Strict, print_unread
from whence.cli.output import print_json, print_message, progress, stdout
from whence.cli.spark import need_spark, placed, starting
from whence.cli.verify import Conf, Master
from whence.errors import UsageError

if TYPE_CHECKING:
    from whence.pipeline.manifest import Manifest
    from whence.pipeline.storage import AnyPath


def stream(
    logs: Logs,
    out: Out,
    work: Annotated[
        str, typer.Option(help="Where the stream keeps what is pending, and how far it has read: a path or URI.")
    ],
    once: Annotated[
        bool, typer.Option("--once", help="Merge what is there and stop, rather than wait for more.")
    ] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="With --once: the logs are complete, release what is still pending.")
    ] = False,
    mode: Annotated[
        str, typer.Option(help="evidence (by clocks) or frontier (by how far each publisher is).")
    ] = "evidence",
    epsilon: Annotated[int, typer.Option(min=1, help="The clocks differ by fewer ticks than this.")] = 5,
    delta: Annotated[int, typer.Option(min=0, help="Ticks within which rows arrive.")] = 100,
    silent: Annotated[
        int, typer.Option(min=1, help="frontier: ignore a publisher after this many silent ticks.")
    ] = 60_000,
    files_per_batch: Annotated[int, typer.Option(min=1, help="Files merged in one step.")] = 8,
    mapping: Mapping = None,
    strict: Strict = False,
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Merge publishers' logs as they grow: exactly once and in order, even if this is killed at any moment.

    Released rows go to OUT/released, those that came after their place had passed to OUT/late, further rows of an
    event to OUT/twice, and rows without a valid place in the order to OUT/rejected, each with its file and the reason.
    Only steps with a manifest in OUT/manifests count.
    Started again, it goes on where it stopped. Writers must move whole files in; they are read in the order of their
    modification times. Exit code 0: all that was there is
    merged. 2: it cannot be read or written.
    """
    need_spark()
    from whence.pipeline import logs as reading
    from whence.pipeline import manifest as manifests
    from whence.pipeline import session as sessions
    from whence.pipeline.stream import run_stream
    from whence.pipeline.stream_step import Rules

    if mode not in ("evidence", "frontier"):
        raise UsageError(f"--mode must be evidence or frontier, not {mode!r}")
    if flush and not once:
        raise UsageError("--flush needs --once: the logs of a stream that goes on are never complete")
    start = starting(master, conf)
    named = reading.read_mapping(None if mapping is None else placed(mapping, start))
    source, target, pending = (placed(each, start) for each in (logs, out, work))
    print_unread(reading.unread_files(source))
    with progress(quiet=json) as bar:
        task = bar.add_task("merging on Spark", total=None)
        partitions = sessions.configure_for_size(start(), 0)
        rules = Rules(
            epsilon=epsilon, delta=delta, mode="frontier" if mode == "frontier" else "evidence", silent=silent,
            partitions=partitions,
        )  # fmt: skip
        late = 0

        def on_step(done: manifests.Manifest) -> None:
            nonlocal late
            late += done.rows["late"]
            bar.update(task, description=f"step {done.step}: {done.rows['released']:,} released")

        run_stream(
            start(), source, target, pending, rules, named, once=once, flush=flush, strict=strict,
            files_per_batch=files_per_batch, on_step=on_step,
        )  # fmt: skip
    if late:
        _tell_late(late, target)
    done = [manifests.read_manifest(target, step) for step in manifests.committed_steps(target)]
    facts = _counted(done)
    if json:
        print_json(0, steps=len(done), out=str(out), **facts)
    else:
        counts = ", ".join(f"{count:,} {name}" for name, count in facts.items())
        stdout().print(f"{len(done):,} steps: {counts}; {out}")
        if facts["rejected"]:
            print_message(f"{facts['rejected']:,} rows were rejected; {target / 'rejected'} says why of each")


def _counted(done: "list[Manifest]") -> dict[str, int]:
    """Return how many rows had which fate in all steps, and how many are pending."""
    fates = ("in", "released", "late", "twice", "rejected")
    facts = {name: sum(each.rows.get(name, 0) for each in done) for name in fates}
    return facts | {"pending": done[-1].rows.get("pending", 0) if done else 0}


def _tell_late(rows: int, out: "AnyPath") -> None:
    print_message(
        f"{rows:,} rows came after their place had passed, and lie in {out / 'late'}: their files were read after "
        "later ones, or clocks and landings differ by more than --epsilon and --delta say"
    )
