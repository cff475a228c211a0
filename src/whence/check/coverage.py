"""Ticket coverage: after healing, every ticket has somebody who owns it or may give it away.

Tickets whose owners failed come back (tickets, 4.2 invariant 2 and 4.9): in the liveness phase each ticket of the
cluster is acted for at some time. Owed only while no more processes ended, by crash or leave, within one repair than
the cluster plans for (its `k`): beyond that the protocol stays safe and may wait for an operator. A process that
restarts ended too, because what it promised was in its memory.
"""

from whence.check.history import AT_T_TRUE, History
from whence.check.tickets import Hold, covers_of, holds_of
from whence.check.verdict import Findings, Verdict, unknown, vacuous
from whence.trace.schema import Kind

PROMISE = "ticket_coverage"

REPAIR_ROUNDS = 15
"""Ticket rounds in which losses count together: detection, fences, leases draining, and sets of witnesses renewed."""


def judge(history: History) -> Verdict:
    """Judge whether every ticket was acted for in the liveness phase."""
    phases, parameters = history.run.phases, history.run.parameters
    tickets, k = parameters.get("tickets"), parameters.get("k")
    if phases is None or not isinstance(tickets, int) or not isinstance(k, int):
        return unknown(PROMISE, "the run does not say when its faults stopped, or how many tickets it has")
    repair_ns = REPAIR_ROUNDS * int(parameters.get("ticket_round_ns", 0))
    if _most_ends_within(history, repair_ns) > k:
        sentence = f"more than k = {k} processes ended within one repair, and then nothing is promised"
        return vacuous(PROMISE, sentence)
    findings = Findings(PROMISE, history.incomplete)
    covers = covers_of(history, holds_of(history, Findings(PROMISE)))
    for grp in history.run.groups:
        for ticket in range(tickets):
            if not any(_lasts(hold, phases.live_from) for hold in covers.get((grp, ticket), [])):
                sentence = f"nobody acted for ticket {ticket} in the liveness phase"
                nobody = (history.run.groups[grp] or [0])[0]  # a live run need not name its members
                findings.add((nobody, 1), sentence, grp=grp, rests_on_absence=True)
    return findings.verdict(
        f"all {tickets} tickets were acted for after healing",
        at_stake=tickets * len(history.run.groups), nothing="the run has no tickets",
    )  # fmt: skip


def _lasts(hold: Hold, since: int) -> bool:
    """Tell whether a stretch reaches into the liveness phase."""
    return hold.until is not None and hold.until > since


def _most_ends_within(history: History, window_ns: int) -> int:
    """Return how many processes ended within one window at most."""
    rows = history.trace.rows
    told = (row[AT_T_TRUE] for kind in (Kind.CRASH, Kind.LEAVE) for row in rows[kind])
    ends = sorted(time for time in told if time is not None)
    return max((sum(start <= other <= start + window_ns for other in ends) for start in ends), default=0)
