"""Ticket coverage: after healing every ticket has an owner or a coordinator, keeps it, and is granted to who asks.

Tickets whose owners failed come back (optimistic 4.1, invariants 1 and 2; 4.8, 4.9): in the liveness phase each ticket
of the cluster is acted for at some time; nobody loses one that it did not give back; and who asked long before, and did
not give up, has one, unless all are taken. Promised only while no more processes ended, by crash or leave, within one
repair than the cluster plans for (its `k`): beyond that the protocol stays safe and may wait for an operator. A process
that came back ended too if its disk was wiped, because nobody knows any more what it promised; with its journal it did
not, however many stopped together (optimistic X6).
"""

from whence.check.history import AT_REASON, AT_T_TRUE, History
from whence.check.ticket_exclusivity import Hold, Ticket, covers_of, holds_of
from whence.check.verdict import Findings, Verdict, unknown, vacuous, who
from whence.trace.memory import Row
from whence.trace.schema import COLUMNS_OF, GRP, TICKET, Kind

PROMISE = "ticket_coverage"

REPAIR_ROUNDS = 15
"""Ticket rounds in which losses count together: detection, fences, leases draining, and sets of witnesses renewed.
A request is served within as many: one whose answer was lost needs a repair."""

ASKED, GIVEN_BACK = "ticket_asked", "ticket_given_back"
"""Notes of a process that asks for a ticket, and that gives one back or cancels its request."""

WIPED = "wiped"
"""The reason of a crash in which the disk was lost as well."""

_AT_TICKET, _AT_GRP = COLUMNS_OF[Kind.NOTE].index(TICKET), COLUMNS_OF[Kind.NOTE].index(GRP)


def judge(history: History) -> Verdict:
    """Judge whether every ticket was acted for in the liveness phase, and whether those who should have one do."""
    phases, parameters = history.run.phases, history.run.parameters
    tickets, k = parameters.get("tickets"), parameters.get("k")
    if phases is None or not isinstance(tickets, int) or not isinstance(k, int):
        return unknown(PROMISE, "the run does not say when its faults stopped, or how many tickets it has")
    repair_ns = REPAIR_ROUNDS * int(parameters.get("ticket_round_ns", 0))
    if _most_ends_within(history, repair_ns) > k:
        sentence = f"more than k = {k} processes ended within one repair, and then nothing is promised"
        return vacuous(PROMISE, sentence)
    findings = Findings(PROMISE, history.incomplete)
    holds = holds_of(history, Findings(PROMISE))
    covers = covers_of(history, holds)
    for grp in history.run.groups:
        for ticket in range(tickets):
            if not any(_lasts(hold, phases.live_from) for hold in covers.get((grp, ticket), [])):
                sentence = f"nobody acted for ticket {ticket} in the liveness phase"
                nobody = (history.run.groups[grp] or [0])[0]  # a live run need not name its members
                findings.add((nobody, 1), sentence, grp=grp, rests_on_absence=True)
    _judge_kept(history, phases.live_from, phases.live_until, findings)
    _judge_served(history, holds, phases.live_from, phases.live_until - repair_ns, tickets, findings)
    return findings.verdict(
        f"all {tickets} tickets were acted for after healing",
        at_stake=tickets * len(history.run.groups), nothing="the run has no tickets",
    )  # fmt: skip


def _judge_kept(history: History, since: int, until: int, findings: Findings) -> None:
    """Judge that in the liveness phase nobody loses a ticket that it has not given back."""
    for row in history.trace.rows[Kind.TICKET_RELEASE]:
        request = _last_request(history, row[:2], row[_AT_GRP], row[2])
        if since < (row[AT_T_TRUE] or 0) <= until and (request is None or request[AT_REASON] != GIVEN_BACK):
            sentence = f"{who(*row[:2])} lost ticket {row[_AT_TICKET]} in the liveness phase, and had not given it back"
            findings.add(row[:2], sentence, grp=row[_AT_GRP], evs=[row[2]], rests_on_absence=True)


def _judge_served(
    history: History, holds: dict[Ticket, list[Hold]], live_from: int, asked_by: int, tickets: int, findings: Findings
) -> None:
    """Judge that who asked in time has a ticket in the liveness phase, unless others have all of them."""
    for grp in history.run.groups:
        lasting = [(ticket, hold) for (of, ticket), interval in holds.items() if of == grp for hold in interval]
        lasting = [(ticket, hold) for ticket, hold in lasting if _lasts(hold, live_from)]
        if len({ticket for ticket, _ in lasting}) >= tickets:
            continue
        owners = {hold.owner for _, hold in lasting}
        for process in dict.fromkeys(row[:2] for row in history.trace.rows[Kind.NOTE] if row[AT_REASON] == ASKED):
            request = _last_request(history, process, grp, None)
            asked_at = request[AT_T_TRUE] if request is not None and request[AT_REASON] == ASKED else None
            waits = asked_at is not None and asked_at <= asked_by
            if request is not None and waits and process not in owners and not _ended(history, process):
                sentence = (
                    f"{who(*process)} asked for a ticket and had none in the liveness phase, though some were free"
                )
                findings.add(process, sentence, grp=grp, evs=[request[2]], rests_on_absence=True)


def _last_request(history: History, process: tuple[int, int], grp: str, before: int | None) -> Row | None:
    """Return the last row, before a row number if given, in which a process asked for a ticket or gave it back."""
    requests = [
        row
        for row in history.trace.rows[Kind.NOTE]
        if row[:2] == process and row[_AT_GRP] == grp and row[AT_REASON] in (ASKED, GIVEN_BACK)
    ]
    return max((row for row in requests if before is None or row[2] < before), key=lambda row: row[2], default=None)


def _ended(history: History, process: tuple[int, int]) -> bool:
    return any(row[:2] == process for kind in (Kind.CRASH, Kind.LEAVE) for row in history.trace.rows[kind])


def _lasts(hold: Hold, since: int) -> bool:
    """Return whether an interval reaches into the liveness phase."""
    return hold.until is not None and hold.until > since


def _most_ends_within(history: History, window_ns: int) -> int:
    """Return how many processes ended within one window at most."""
    rows = history.trace.rows
    back = {(row[0], row[1] - 1) for row in rows[Kind.RESTART]}
    crashes = [row for row in rows[Kind.CRASH] if row[:2] not in back or row[AT_REASON] == WIPED]
    times = (row[AT_T_TRUE] for row in (*crashes, *rows[Kind.LEAVE]))
    ends = sorted(time for time in times if time is not None)
    return max((sum(start <= other <= start + window_ns for other in ends) for start in ends), default=0)
