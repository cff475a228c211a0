"""Ticket exclusivity: at most one process acts for a ticket at any instant, epochs only grow, only its owner uses it.

In true time, the intervals from ticket_acquire to ticket_release, ticket_suspend or crash of different processes never
overlap for one ticket; an epoch belongs to one process, and a later owner has a greater one (optimistic 4.4 and
4.12: the epoch is the fencing token). Who acts for a ticket owns it or may give it away: a ticket_acquire row says for
how many tickets its process acts from then on (`value`), its own and those below it (optimistic 4.10: intervals stay
disjoint). An event published under (ticket, epoch) is published, by its process's own program order, while that process
holds exactly this. The same owner may suspend and resume one epoch.

A process that slept through the end of its lease notices only when it wakes; it could not act meanwhile. Its
ticket_suspend row says how long ago the lease had ended, on its own clock (`late_ns`), and that is where the interval
ends; what it published later is a violation.

Where rows have no true time the owners' clocks are compared: two intervals overlap for certain when they do for longer
than clocks may differ and both have a known end; otherwise the overlap is possible, and the verdict unknown.
"""

from typing import NamedTuple, TypeAlias

from whence.check.history import AFTER_ALL, AT_GRP, AT_T_TRUE, KEY_OF, History
from whence.check.verdict import Findings, Verdict, counted, unknown, what, who
from whence.trace.memory import Row
from whence.trace.schema import COLUMNS_OF, EPOCH, LATE_NS, T_CLK, TICKET, VALUE, Kind
from whence.types import EventId

PROMISE = "ticket_exclusivity"

Ticket: TypeAlias = tuple[str, int]
"""(group, number)."""

_AT_TICKET, _AT_EPOCH = COLUMNS_OF[Kind.TICKET_ACQUIRE].index(TICKET), COLUMNS_OF[Kind.TICKET_ACQUIRE].index(EPOCH)
_AT_T_CLK = COLUMNS_OF[Kind.TICKET_ACQUIRE].index(T_CLK)
_AT_VALUE, _AT_LATE = COLUMNS_OF[Kind.TICKET_ACQUIRE].index(VALUE), COLUMNS_OF[Kind.TICKET_SUSPEND].index(LATE_NS)
_PUBLISH_TICKET, _PUBLISH_EPOCH = COLUMNS_OF[Kind.PUBLISH].index(TICKET), COLUMNS_OF[Kind.PUBLISH].index(EPOCH)


DRIFT_MAX = 0.02
"""How fast a clock may run unless the run says otherwise: a time on one is at most so much longer in true time."""


class Hold(NamedTuple):
    """One interval of acting for a ticket."""

    since: int | None
    until: int | None
    row: Row
    until_clk: int
    """On its owner's clock; AFTER_ALL where nothing tells of an end."""

    @property
    def since_clk(self) -> int:
        return int(self.row[_AT_T_CLK])

    @property
    def place(self) -> tuple[int, int, int]:
        """A tie-breaker between intervals that began at the same time."""
        return self.row[2], self.row[0], self.row[1]

    @property
    def owner(self) -> tuple[int, int]:
        return self.row[0], self.row[1]

    @property
    def epoch(self) -> int:
        return int(self.row[_AT_EPOCH])


def judge(history: History) -> Verdict:
    """Judge whether tickets had one owner and one granter at a time, and only the owner used them."""
    findings = Findings(PROMISE, history.incomplete)
    holds = holds_of(history, findings)
    timed = all(hold.since is not None and hold.until is not None for interval in holds.values() for hold in interval)
    if timed:
        for ticket, interval in covers_of(history, holds).items():
            _judge_overlaps(ticket, sorted(interval, key=lambda hold: (hold.since, *hold.place)), findings)
    possible = 0 if timed else _judge_by_clocks(history, holds, findings)
    for ticket, interval in holds.items():
        _judge_epochs(ticket, interval, findings)
    if possible and not findings.count:
        why = "the rows have no true time, and by the owners' clocks a ticket may have had two owners at once in "
        return unknown(PROMISE, why + counted(possible, "case"))
    if not timed and not findings.count:
        return unknown(PROMISE, "the rows have no true time, so who held a ticket when cannot be compared")
    return findings.verdict(
        "every ticket had at most one owner at a time, and only its owner used it",
        at_stake=len(holds), nothing="no ticket was ever held in this run",
    )  # fmt: skip


def holds_of(history: History, findings: Findings) -> dict[Ticket, list[Hold]]:
    """Return every interval in which a process held a ticket of its own; judge what it published meanwhile."""
    holds: dict[Ticket, list[Hold]] = {}
    drift = float(history.run.parameters.get("drift_max", DRIFT_MAX))
    for line in history.lines.values():
        _walk([(kind, row) for _, _, kind, _, row in line], holds, findings, drift)
    return holds


def covers_of(history: History, holds: dict[Ticket, list[Hold]]) -> dict[Ticket, list[Hold]]:
    """Return every interval in which a process acted for a ticket, its own or one that it coordinated."""
    tickets = history.run.parameters.get("tickets")
    covers: dict[Ticket, list[Hold]] = {}
    for (grp, own), interval in holds.items():
        for hold in interval:
            for at in range(hold.row[_AT_VALUE] or 1):
                ticket = (own - at) % tickets if isinstance(tickets, int) else own - at
                covers.setdefault((grp, ticket), []).append(hold)
    return covers


def _walk(steps: list[tuple[Kind, Row]], holds: dict[Ticket, list[Hold]], findings: Findings, drift: float) -> None:
    """Collect one process's intervals of ownership, and judge what it published under a ticket."""
    held: dict[Ticket, Row] = {}
    used: dict[Ticket, Row] = {}

    def end(ticket: Ticket, by: Row | None, late_ns: int = 0) -> None:
        """End an interval as early as the process's clock allows, and report what it published later."""
        row, use = held.pop(ticket, None), used.pop(ticket, None)
        if row is not None:
            at, clock = (AFTER_ALL, AFTER_ALL) if by is None else (by[AT_T_TRUE], by[_AT_T_CLK] - late_ns)
            until = None if at is None else at - int(late_ns / (1 - drift))
            holds.setdefault(ticket, []).append(Hold(row[AT_T_TRUE], until, row, clock))
            if use is not None and at is not None and _before(at - int(late_ns / (1 + drift)), use[AT_T_TRUE]):
                _report_use(use, "whose lease had run out", findings)

    for kind, row in steps:
        if kind is Kind.PUBLISH:
            if row[_PUBLISH_TICKET] is not None:
                ticket = (row[AT_GRP], row[_PUBLISH_TICKET])
                _judge_use(row, held.get(ticket), findings)
                used[ticket] = row
        elif kind is Kind.TICKET_ACQUIRE:
            end((row[AT_GRP], row[_AT_TICKET]), row)
            held[row[AT_GRP], row[_AT_TICKET]] = row
        elif kind is Kind.TICKET_RELEASE or kind is Kind.TICKET_SUSPEND:
            end((row[AT_GRP], row[_AT_TICKET]), row, row[_AT_LATE] or 0)
        elif kind is Kind.CRASH:
            for ticket in list(held):
                end(ticket, row)
    for ticket in list(held):
        end(ticket, None)


def _judge_use(row: Row, held: Row | None, findings: Findings) -> None:
    if held is not None and held[_AT_EPOCH] == row[_PUBLISH_EPOCH]:
        return
    _report_use(row, "which it did not hold", findings)


def _report_use(row: Row, why: str, findings: Findings) -> None:
    event = EventId(*row[KEY_OF][1:])
    sentence = (
        f"{who(row[0], row[1])} published {what(event)} under ticket {row[_PUBLISH_TICKET]} "
        f"epoch {row[_PUBLISH_EPOCH]}, {why}"
    )
    findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[event], evs=[row[2]], rests_on_absence=True)


def _judge_overlaps(ticket: Ticket, interval: list[Hold], findings: Findings) -> None:
    """Judge intervals sorted by their start: each begins after all earlier ones of other owners have ended."""
    longest: Hold | None = None
    for hold in interval:
        if longest is not None and longest.owner != hold.owner and _before(hold.since, longest.until):
            _report_overlap(ticket, hold, longest, findings)
        if longest is None or _before(longest.until, hold.until):
            longest = hold


def _judge_by_clocks(history: History, holds: dict[Ticket, list[Hold]], findings: Findings) -> int:
    """Judge intervals by their owners' clocks; return how many overlaps are possible and not certain."""
    run, possible = history.run, 0
    skew_ns = run.epsilon * run.tick_ns if run.epsilon is not None and run.tick_ns is not None else AFTER_ALL
    for ticket, interval in covers_of(history, holds).items():
        longest: Hold | None = None
        for hold in sorted(interval, key=lambda hold: (hold.since_clk, *hold.place)):
            both = min(hold.until_clk, longest.until_clk) - hold.since_clk if longest is not None else 0
            if longest is not None and longest.owner != hold.owner and both > 0:
                if both > skew_ns and max(hold.until_clk, longest.until_clk) < AFTER_ALL:
                    _report_overlap(ticket, hold, longest, findings)
                else:
                    possible += 1
            if longest is None or longest.until_clk < hold.until_clk:
                longest = hold
    return possible


def _report_overlap(ticket: Ticket, hold: Hold, longest: Hold, findings: Findings) -> None:
    sentence = (
        f"{who(*hold.owner)} acquired ticket {ticket[1]} with epoch {hold.epoch} while "
        f"{who(*longest.owner)} still held it with epoch {longest.epoch}"
    )
    if hold.row[_AT_TICKET] != ticket[1] or longest.row[_AT_TICKET] != ticket[1]:
        sentence = (
            f"{who(*hold.owner)} as ticket {hold.row[_AT_TICKET]} epoch {hold.epoch} acted for ticket "
            f"{ticket[1]} while {who(*longest.owner)} as ticket {longest.row[_AT_TICKET]} epoch "
            f"{longest.epoch} still did"
        )
    findings.add(hold.owner, sentence, grp=ticket[0], evs=[hold.row[2]], rests_on_absence=True)


def _before(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def _judge_epochs(ticket: Ticket, interval: list[Hold], findings: Findings) -> None:
    """Judge that an epoch has one owner and, where time is known, that later owners have greater ones."""
    owners: dict[int, tuple[int, int]] = {}
    for hold in interval:
        owner = owners.setdefault(hold.epoch, hold.owner)
        if owner != hold.owner:
            sentence = f"{who(*hold.owner)} and {who(*owner)} both held ticket {ticket[1]} with epoch {hold.epoch}"
            findings.add(hold.owner, sentence, grp=ticket[0], evs=[hold.row[2]])
    if any(hold.since is None for hold in interval):
        return
    greatest: Hold | None = None
    for hold in sorted(interval, key=lambda hold: (hold.since, *hold.place)):
        if greatest is not None and (hold.epoch < greatest.epoch):
            sentence = (
                f"{who(*hold.owner)} acquired ticket {ticket[1]} with epoch {hold.epoch} after epoch "
                f"{greatest.epoch} had been given to {who(*greatest.owner)}"
            )
            findings.add(hold.owner, sentence, grp=ticket[0], evs=[hold.row[2]])
        else:
            greatest = hold
