"""whence size: what recovery buffer, fan-out and share of tickets suit a cluster's load and failure rate."""

from typing import Annotated

import typer
from msgspec import to_builtins

from whence.cli.output import fact_table, print_json, stdout
from whence.core.levels.optimistic.sizing import sizes_for


def size(
    members: Annotated[int, typer.Option(min=1, help="Members of the cluster.")] = 25,
    events_per_round: Annotated[float, typer.Option(min=0.0, help="Events published in a gossip round.")] = 6.0,
    down: Annotated[float, typer.Option(min=0.0, max=1.0, help="Part of the processes that are down (p_f).")] = 0.08,
    loss: Annotated[float, typer.Option(min=0.0, max=1.0, help="Part of the messages that are lost.")] = 0.01,
    used: Annotated[float, typer.Option(min=0.0, max=1.0, help="Part of the tickets in use (α).")] = 0.5,
    tickets: Annotated[int, typer.Option(min=1, help="Tickets of the cluster.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds an event is spread for; both waits last as long.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Size a cluster at level optimistic by Theorems 5.1 and 5.2 and J section 4.4 (docs/papers).

    Example: whence size --members 25 --events-per-round 6 --down 0.08
    """
    sizes = sizes_for(
        members=members, events_per_round=events_per_round, down=down, loss=loss, used=used, tickets=tickets,
        spread_rounds=rounds, hold_rounds=rounds, recover_rounds=rounds,
    )  # fmt: skip
    facts = to_builtins(sizes)
    if json:
        print_json(0, **facts)
    else:
        stdout().print(fact_table(facts, f"{members} members, {events_per_round:g} events a round"))
