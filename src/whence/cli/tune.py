"""whence tune: from observed delays and clock offsets to the tick, ε and δ of level total."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from whence.check.delays import Observed, Proposal, observe, propose, trade_off
from whence.cli.delta import delta_sentence
from whence.cli.live import NodeName
from whence.cli.output import print_json, stdout
from whence.errors import UsageError, printable
from whence.net.status_client import ask, the_node


def tune(
    trace: Annotated[
        Path | None, typer.Argument(help="A trace, as simulate --out or a live node leaves it; or none: ask a node.")
    ] = None,
    on_time: Annotated[float, typer.Option(help="The part of what was observed that δ must cover.")] = 0.9999,
    tick_ns: Annotated[int | None, typer.Option(min=1000, help="The tick; a millisecond if not given.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the trade-off into this SVG file.")] = None,
    name: NodeName = None,
    pid: Annotated[int | None, typer.Option(help="Without a trace: the node to ask, if it has no name.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Propose tick, ε and δ for level total from a trace, and show what a shorter wait would cost.

    A delay is the receiver's clock at arrival minus the publisher's at publication, from publish, deliver and late
    rows; at level total, from the mergers' rows. Without a trace, a running node that merges is asked for the δ that it
    proposes. Example: whence tune out/run --plot out/tuning.svg
    """
    if trace is None:
        _tune_live(the_node(pid, socket, name), json=json)
        return
    from whence.trace.reader import read_trace

    if not 0 < on_time <= 1:
        raise UsageError(f"--on-time must be above 0 and at most 1, not {on_time}")
    read = read_trace(trace)
    observed = observe(read)
    proposal = propose(observed, on_time, tick_ns)
    if plot is not None:
        try:
            plot.parent.mkdir(parents=True, exist_ok=True)
            plot.write_text(trade_off(proposal), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--plot: cannot write {plot}: {error.strerror}") from None
    if json:
        print_json(
            read.run.seed, trace=str(trace), observations=len(observed.delays_ns), offset_ns=observed.offset_ns,
            offset_exact=observed.exact, events_per_second=round(observed.events_per_second, 3),
            plot=None if plot is None else str(plot), **msgspec.to_builtins(proposal),
        )  # fmt: skip
        return
    _show(observed, proposal, plot)


def _tune_live(path: Path, *, json: bool) -> None:
    """Show what a running node measured of the delays to it, and the δ that follows for each of its groups."""
    status = asyncio.run(ask(path))
    found = {group["name"]: group["metrics"] for group in status["groups"] if "delta_ticks" in group["metrics"]}
    if not found:
        raise UsageError(
            "this node merges no group at level total with order=timed, and only mergers measure delays: ask another, "
            "or give a trace"
        )
    if json:
        print_json(0, groups={name: _proposed(metrics) for name, metrics in found.items()})
        return
    for name, metrics in found.items():
        stdout().print(f"{escape(printable(name))}: {delta_sentence(metrics)}")


def _proposed(metrics: dict[str, Any]) -> dict[str, Any]:
    names = ("delta_ticks", "delays_observed_total", "epsilon_seen_ticks", "delta_proposed_ticks", "delta_proposed_ns",
             "buffering_proposed_ns")  # fmt: skip
    return {name: metrics.get(name) for name in names}


def _show(observed: Observed, proposal: Proposal, plot: Path | None) -> None:
    console = stdout()
    table = Table("covers", "δ ticks", "beyond δ", "late at most", "latency at most", "buffer", title_justify="left",
                  title=f"{len(observed.delays_ns):,} observed delays")  # fmt: skip
    for choice in proposal.choices:
        mark = "bold green" if choice.delta == proposal.delta else ""
        table.add_row(
            f"{choice.quantile:.2%}", f"{choice.delta:,}", f"{choice.beyond_delta:.3%}", f"{choice.late_at_most:.3%}",
            f"{choice.latency_ms:,.1f} ms", f"{choice.buffer_bytes / 1024:,.1f} KiB", style=mark,
        )  # fmt: skip
    console.print(table)
    sure = "known from true time" if observed.exact else "estimated from delays both ways"
    console.print(f"clocks differ by {observed.offset_ns / 1e6:,.3f} ms at most ({sure})")
    console.print(
        f"proposed: --set tick_ns={proposal.tick_ns} --set epsilon={proposal.epsilon} --set delta={proposal.delta}"
    )
    if plot is not None:
        console.print(f"plot: {plot}")
