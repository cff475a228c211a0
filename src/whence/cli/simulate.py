"""whence simulate: one deterministic run."""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

from whence.check.judge import judge
from whence.cli.output import (
    directory,
    fact_table,
    parse_settings,
    print_json,
    progress,
    stdout,
    verdict_table,
    verdicts_by_name,
)
from whence.errors import UsageError
from whence.sim.lab import LIVING, RIVALS, spec_of
from whence.sim.run import run
from whence.sim.scenarios import simulation, usual_nodes
from whence.sim.summary import summarize
from whence.sim.workload import workload_from
from whence.trace.memory import digest_of


def simulate(
    level: Annotated[
        str,
        typer.Option(
            help=f"A level; or a kind of group on views: {', '.join(LIVING)}, as live groups are; or a rival: "
            f"{', '.join(RIVALS)}. canary is wrong on purpose."
        ),
    ],
    nodes: Annotated[
        int | None, typer.Option(help="Members the group is founded with. Default: 25, or 16 of a group on views.")
    ] = None,
    events: Annotated[
        int, typer.Option(help="Events published in all, one per gossip round unless --rate is given.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Same seed, same run, to the byte.")] = 1,
    faults: Annotated[
        str, typer.Option(help="none, swarm (drawn from the seed), or a TOML or JSON file of faults.")
    ] = "none",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as fanout=3.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Events a second, of the whole group.")] = None,
    payload: Annotated[int | None, typer.Option(help="Bytes of every event. Default: 16.")] = None,
    publishers: Annotated[int | None, typer.Option(help="How many members publish. Default: all that may.")] = None,
    coordinators: Annotated[
        int | None, typer.Option(help="How many members ask for a ticket, at level optimistic. Default: 8 at most.")
    ] = None,
    bandwidth: Annotated[int | None, typer.Option(help="Bits a second that each member can send.")] = None,
    latency_ms: Annotated[
        float | None, typer.Option(help="Milliseconds that every link takes. Default: drawn from 1 to 20 each time.")
    ] = None,
    loss: Annotated[float | None, typer.Option(help="The part of all copies that the network loses.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the trace below this directory, for whence check.")] = None,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="With --out: the trace has payloads too, not only their sizes.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Run one group in the simulated world, sum it up and judge its promises.

    Exit code 0: the run finished, whatever the verdicts; whence check judges by exit code. 2: wrong arguments.
    Example: whence simulate --level fifo --nodes 50 --events 200 --faults swarm --out out/run
    """
    if payloads and out is None:
        raise UsageError("--payloads: they are written into a trace; give --out DIR too")
    if out is not None:
        from whence.trace.writer import write_trace  # before the run, whose result would be lost without it

    spec = spec_of(level)
    workload = workload_from(
        {"rate": rate, "payload": payload, "publishers": publishers, "coordinators": coordinators,
         "bandwidth": bandwidth, "latency_ms": latency_ms, "loss": loss}
    )  # fmt: skip
    given = parse_settings(settings or [])
    nodes = usual_nodes(level, given) if nodes is None else nodes
    scenario = simulation(level, nodes, events, seed, faults, given, workload)
    with progress(quiet=json) as bar:
        task = bar.add_task("simulating", total=100)
        outcome = run(
            scenario, spec, on_slice=lambda _, done: bar.update(task, completed=round(100 * done)), payloads=payloads
        )
    trace = outcome.trace
    trace.run.digest = digest_of(trace)
    verdicts = judge(trace)
    summary = summarize(trace)
    facts = {
        "level": level, "nodes": nodes, "digest": trace.run.digest, **to_builtins(summary),
        "events": outcome.steps, "sim_seconds": scenario.end_at_ns / 1e9,
        "wall_seconds": round(outcome.wall_seconds, 3), "faults": dict(sorted(outcome.effective.items())),
    }  # fmt: skip
    if out is not None:
        facts["trace"] = str(write_trace(directory(out, "--out"), trace))
    if json:
        print_json(seed, **facts, verdicts=verdicts_by_name(verdicts))
        return
    console = stdout()
    console.print(fact_table({"seed": seed} | facts, f"{level}, {nodes} members"))
    console.print(verdict_table(verdicts))
    if out is None:
        console.print("Add --out DIR to keep the trace.", style="dim")
