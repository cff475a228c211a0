"""J, section 4.4: is a ticket to be had while coordinators fail, how soon, and at how many messages.

J gives a condition, p_f < (1 - α) / 2, under which a request succeeds with high probability; α is the part of the
tickets in use, p_f the part of their owners that fail in a round. Here that part crashes at once, adjacent in the ring,
which is the worst way to fail.
"""

from whence.core.levels.optimistic.sizing import free_ticket
from whence_lab.experiments.ticket_failures import TicketFailures
from whence_lab.figures.bands import at_least, at_most, ends, weighed
from whence_lab.figures.data import Data
from whence_lab.figures.figure import PART, Check, Config, Figure, Finding, Line, Panel, Plan, grid
from whence_lab.figures.shapes import listed

TICKETS, K = 12, 2
IN_TIME_ROUNDS, ROUNDS = 16, 64
"""A repair takes some ten ticket rounds; a request that is not granted after 64 is refused."""


def measure(config: Config, seed: int) -> dict[str, float]:
    """Let owners crash and a newcomer ask."""
    used = round(config["used"] * TICKETS)
    down = round(config["down"] * used)
    came = TicketFailures(tickets=TICKETS, used=used, down=down, k=K, rounds=ROUNDS).run(seed)
    granted = came.after_rounds is not None
    in_time = came.after_rounds is not None and came.after_rounds <= IN_TIME_ROUNDS
    beyond = came.witnesses_lost > K
    measures = {
        "granted": float(granted), "granted_in_time": float(in_time),
        "beyond_k": float(beyond), "late_within_k": float(not beyond and not in_time),
        "items_per_round": came.items_per_round, "witnesses_lost": came.witnesses_lost,
    }  # fmt: skip
    return measures if came.after_rounds is None else measures | {"rounds_to_grant": came.after_rounds}


def _each(data: Data) -> list[tuple[float, float]]:
    return [(used, down) for used in data.values("used") for down in data.values("down", used=used)]


def _granted_within_condition(data: Data) -> Finding:
    inside = {(used, down): data.band("granted_in_time", used=used, down=down)
              for used, down in _each(data) if free_ticket(down, used)}  # fmt: skip
    seen = ", ".join(
        f"α {used:g}, p_f {down:g}: {band.mean:.0%} of {band.runs}" for (used, down), band in inside.items()
    )
    return weighed(at_least(map(ends, inside.values()), 0.95), seen)


def _refusals_explained(data: Data) -> Finding:
    late = {each: 1 - data.mean("granted_in_time", used=each[0], down=each[1]) for each in _each(data)}
    late_within, within = 0.0, 0.0
    for used, down in late:
        runs = data.band("late_within_k", used=used, down=down).runs
        late_within += runs * data.mean("late_within_k", used=used, down=down)
        within += runs * (1 - data.mean("beyond_k", used=used, down=down))
    if within <= 1:
        return weighed(None, "no such runs")
    share = late_within / within
    half = 1.96 * (share * (1 - share) / (within - 1)) ** 0.5
    seen = ", ".join(
        f"α {used:g}, p_f {down:g}: {part:.0%} not in time, {data.mean('granted', used=used, down=down):.0%} granted "
        f"at last, {data.mean('beyond_k', used=used, down=down):.0%} with such a loss"
        for (used, down), part in late.items()
        if part
    )
    told = at_most([(share - half, share + half)], 0.05)
    return weighed(
        told, f"{late_within:.0f} of {within:.0f} late without such a loss; {seen or 'nobody else was late'}"
    )


def _reclaim_time(data: Data) -> Finding:
    times = [
        (down, data.mean("rounds_to_grant", used=1.0, down=down)) for down in data.values("down", used=1.0) if down
    ]
    bands = [ends(data.band("rounds_to_grant", used=1.0, down=down)) for down, _ in times]
    return weighed(at_most(bands, 1.0), f"ticket rounds by p_f, α = 1: {listed(times)}")


def _messages(data: Data) -> Finding:
    most = max(data.band("items_per_round", used=used, down=down).most for used, down in _each(data))
    return Finding(most <= 2 * K + 1, f"{most:.2f} a coordinator and round, with k = {K}")


def _condition(data: Data) -> list[Line]:
    return [
        Line(f"p_f = (1 - α)/2, α = {used:g}", [((1 - used) / 2, 0.0), ((1 - used) / 2, 1.0)])
        for used in data.values("used")
        if used < 1
    ]


def _label(used: float) -> str:
    return f"α = {used:g}"


def _with_a_ticket_to_be_had(used: list[float], down: list[float]) -> list[Config]:
    """Return every combination but those in which all tickets are in use and nobody fails."""
    return [config for config in grid(used=used, down=down) if config["used"] < 1 or config["down"]]


FIGURE = Figure(
    name="cluster-tickets",
    title="Tickets while coordinators fail",
    source="J, section 4.4",
    settings=(
        "A request succeeds with high probability if p_f < (1 - α)/2. Chosen here: 12 tickets, k = 2, witness sets of "
        "5; the owners that fail are adjacent and fail at once; the newcomer asks in that moment. In time is within 16 "
        "ticket rounds, refused is not within 64."
    ),
    measure=measure,
    quick=Plan(_with_a_ticket_to_be_had([0.5, 0.75, 1.0], [0.0, 0.1, 0.2, 0.4, 0.5]), 10),
    full=Plan(_with_a_ticket_to_be_had([0.25, 0.5, 0.75, 1.0], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]), 40),
    panels=(
        Panel(
            "a) granted in time",
            "down",
            "granted_in_time",
            "part of the owners that fail (p_f)",
            "part of requests",
            "used",
            _label,
            within=PART,
            stated=_condition,
        ),
        Panel(
            "b) granted at last",
            "down",
            "granted",
            "part of the owners that fail (p_f)",
            "part of requests",
            "used",
            _label,
            within=PART,
        ),
        Panel(
            "c) until granted",
            "down",
            "rounds_to_grant",
            "part of the owners that fail (p_f)",
            "ticket rounds",
            "used",
            _label,
        ),
    ),
    checks=(
        Check(
            "A process that attempts to acquire a ticket succeeds with high probability if p_f < (1 - α)/2",
            "4.4",
            "wherever the condition holds at least 95 % of the requests are granted in time",
            _granted_within_condition,
        ),
        Check(
            "Beyond the condition requests may have to wait; where every coordinator kept k + 1 of its witnesses ours "
            "are granted with high probability",
            "4.4, optimistic 4.9",
            "of all requests of such runs at least 95 % are granted in time, as above",
            _refusals_explained,
        ),
        Check(
            "Reclaiming the tickets of a failed process takes at most 1/α rounds on average",
            "4.4",
            "with all tickets in use, α = 1, a newcomer has a failed owner's ticket after one round on average",
            _reclaim_time,
            known="Leases must have ended before a ticket can be given again (optimistic F32, 4.4): J has no leases.",
        ),
        Check(
            "In each round a process sends and receives at most 2k + 1 messages",
            "4.4",
            "a coordinator sends at most 2k + 1 ticket items a round",
            _messages,
            known="A lease needs an answer from each of 2k + 1 witnesses, and the ring two more (optimistic F36).",
        ),
    ),
)
