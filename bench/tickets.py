"""Tickets and two-layer delivery in numbers: reuse after a crash, cost per round, availability, size of stamps.

Prints one JSON line. Rounds are ticket rounds, settings are the defaults. `--quick` takes fewer runs.
"""

import argparse
import json
from statistics import median, quantiles
from typing import Any

from msgspec import structs

from whence.check.history import History
from whence.check.ticket_exclusivity import PROMISE, covers_of, holds_of
from whence.check.verdict import Findings
from whence.core.clocks.cct import entry_of, packed
from whence.core.levels.optimistic.level import OptimisticLevel
from whence.core.registry import LEVELS
from whence.sim.run import run
from whence.sim.scenario import Fault
from whence.sim.scenarios import simulation
from whence.sim.scenarios.tickets import warm_up_rounds
from whence.sim.workload import Workload
from whence.trace.memory import Trace
from whence.trace.schema import COLUMNS_OF, STAMP_BYTES, Kind
from whence_lab.experiments.ticket_failures import TicketFailures

ROUNDS = {"rounds": OptimisticLevel().settings_from({}).gossip.rounds}


def first_cover_after(trace: Trace, ticket: int, crashed_at: int) -> int | None:
    """Return when somebody acted for a ticket again after its owner crashed."""
    history = History(trace)
    covers = covers_of(history, holds_of(history, Findings(PROMISE)))
    starts = [hold.since for hold in covers.get(("alps", ticket), []) if hold.since and hold.since > crashed_at]
    return min(starts, default=None)


def reuse(runs: int) -> dict[str, float]:
    """Measure the rounds from a coordinator's crash until its ticket can be given away again."""
    settings = OptimisticLevel().settings_from({})
    ticket_round = settings.tickets.ticket_round_ns
    took = []
    for seed in range(runs):
        calm = simulation("optimistic", 10, 1, seed, "none", ROUNDS, workload=Workload(coordinators=7))
        at = warm_up_rounds(7) * ticket_round + seed * 37_000_000 % ticket_round
        crash = Fault(kind="crash", at_ns=at, nodes=[1 + seed % 6])
        scenario = structs.replace(
            calm, faults=[crash], heal_at_ns=0, live_until_ns=0, end_at_ns=at + 20 * ticket_round
        )
        trace = run(scenario).trace
        mine = [row for row in trace.rows[Kind.TICKET_ACQUIRE] if row[0] == crash.nodes[0] and row[4] < at]
        if mine:
            ticket = mine[-1][COLUMNS_OF[Kind.TICKET_ACQUIRE].index("ticket")]
            again = first_cover_after(trace, ticket, at)
            if again is not None:
                took.append((again - at) / ticket_round)
    return {"runs": len(took), "median": round(median(took), 2), "p95": round(quantiles(took, n=20)[-1], 2),
            "max": round(max(took), 2)}  # fmt: skip


def cost(coordinators: int) -> float:
    """Measure ticket items per coordinator and round, once all tickets are given."""
    calm = TicketFailures(tickets=coordinators + 1, used=coordinators, down=0, k=1, rounds=1)
    return round(calm.run(0).items_per_round, 2)


def availability(part_down: float, part_used: float, runs: int, tickets: int = 12) -> float:
    """Measure the part of requests granted when some coordinators have just failed and some tickets are in use."""
    used = round(part_used * tickets)
    failing = TicketFailures(tickets=tickets, used=used, down=round(part_down * used), k=2, rounds=16)
    granted = sum(failing.run(seed).after_rounds is not None for seed in range(runs))
    return round(granted / runs, 2)


def stamp_sizes() -> dict[str, dict[str, int]]:
    """Return a stamp's bytes for 5, 25 and N coordinators: the number of members does not matter."""
    sizes: dict[str, dict[str, int]] = {}
    for members in (25, 50, 125, 250, 500, 1000):
        sizes[str(members)] = {}
        for owners in (5, 25, members):
            clock = [entry_of(1 + ticket, 200 + ticket % 50) for ticket in range(owners)]
            sizes[str(members)]["all" if owners == members and owners > 25 else str(owners)] = len(
                packed(0, clock[0], 0, clock)
            )
    return sizes


def measured_stamps(members: int, owners: int) -> float:
    """Measure the mean stamp of a simulated cluster, all tickets in use."""
    outcome = run(
        simulation(
            "optimistic", members, 60, 1, "none", {"tickets": owners, "rounds": 6}, Workload(coordinators=owners)
        )
    )
    at = COLUMNS_OF[Kind.PUBLISH].index(STAMP_BYTES)
    sizes = [row[at] for row in outcome.trace.rows[Kind.PUBLISH]]
    return round(float(sum(sizes) / len(sizes)), 1)


def main() -> None:
    """Measure everything and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    assert "optimistic" in LEVELS
    figures: dict[str, Any] = {
        "reuse_rounds": reuse(12 if quick else 60),
        "items_per_coordinator_and_round": {"measured": cost(6), "allowed": 2 * 3 + 2},
        "cjoins_granted": {
            f"p_f={down} α={used}": {
                "granted": availability(down, used, 3 if quick else 20), "condition": down < (1 - used) / 2,
            }
            for used in (0.5, 0.75) for down in ((0.0, 0.2) if quick else (0.0, 0.1, 0.2, 0.3, 0.4))
        },
        "stamp_bytes": stamp_sizes(),
        "stamp_bytes_measured": {
            f"{members} members, {owners} coordinators": measured_stamps(members, owners)
            for members, owners in ((25, 5), (25, 25), *(() if quick else ((125, 25), (250, 5), (1000, 5))))
        },
    }  # fmt: skip
    print(json.dumps({"bench": "tickets", **figures}, ensure_ascii=False))


if __name__ == "__main__":
    main()
