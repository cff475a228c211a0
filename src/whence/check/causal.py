"""Causal order: when a process delivers an event, it has delivered everything that event follows and that is meant
for it.

m1 -> m2 by Lamport over publications and deliveries, both addressed to p: p delivers m1 before m2, across groups
(LoCaMu, section 1.1, *causal order*). Addressed means: p is among the destinations and certainly was a member when m1
was published; its membership begins with its join row. What p published itself it has.

To deliver m2 and m1 later is wrong whatever the memberships were. Where rows have no true time, only founders that
stay are certainly members: a missing delivery that may be expected of others makes the verdict unknown. One
mask operation per delivery.
"""

from whence.check.closure import NO_EVENT, Process, bits
from whence.check.expected import NO_MEMBERSHIP
from whence.check.history import AT_DESTS, AT_GRP, AT_T_TRUE, History, Step
from whence.check.optimistic import NOTHING_FOLLOWS, followers_delivered
from whence.check.verdict import Findings, Verdict, counted, what, who
from whence.trace.memory import Row
from whence.trace.schema import Kind

PROMISE = "causal"


def judge(history: History) -> Verdict:
    """Judge whether every delivery came after all it follows."""
    findings = Findings(PROMISE, history.incomplete)
    expected, doubtful = _expected_masks(history), 0
    for process, line in history.lines.items():
        delivered = history.delivered[process]
        lacking = expected[process] | sum(1 << event for event in delivered)
        doubtful += judge_line(history, findings, process, line, lacking, _unsure_mask(history, process) & ~lacking)
    doubts = f"{NO_MEMBERSHIP}, and {counted(doubtful, 'cause')} may have been expected and never came"
    return findings.verdict(
        "every event was delivered after everything it follows", at_stake=followers_delivered(history),
        nothing=NOTHING_FOLLOWS, doubts=doubts if doubtful else None,
    )  # fmt: skip


def judge_line(
    history: History, findings: Findings, process: Process, line: list[Step], lacking: int, unsure: int
) -> int:
    """Report the causes that a process lacked when it delivered their effects; return how many it may have lacked."""
    past, delivered, doubtful = history.past, history.delivered[process], 0
    for _, _, kind, event, row in line:
        if event == NO_EVENT:
            continue
        if kind is Kind.DELIVER and delivered[event] is row:
            missing, maybe = past[event] & lacking, past[event] & unsure
            for cause in bits(missing):
                _report(history, findings, process, row, event, cause)
            lacking &= ~missing
            unsure &= ~maybe
            doubtful += maybe.bit_count()
        lacking &= ~(1 << event)
        unsure &= ~(1 << event)
    return doubtful


def _unsure_mask(history: History, process: Process) -> int:
    """Return the events that may be meant for a process, where the trace leaves it open, as bits."""
    if history.is_timed:
        return 0
    every = range(len(history.published))
    return sum(1 << event for event in every if history.may_be_expected(event, process))


def _report(history: History, findings: Findings, process: Process, row: Row, event: int, cause: int) -> None:
    """Report one cause that was not there when its effect was delivered."""
    effect, missing = history.id_of(event), history.id_of(cause)
    later = history.delivered[process].get(cause)
    fate = "came only later" if later else "never came"
    sentence = (
        f"{who(row[0], row[1])} delivered {what(effect)} although it had not delivered {what(missing)}, "
        f"which comes before it and {fate}"
    )
    evs = [row[2], later[2]] if later else [row[2]]
    findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[missing, effect], evs=evs, rests_on_absence=later is None)


def _expected_masks(history: History) -> dict[Process, int]:
    """Return, per process, the events that are meant for it, as bits."""
    to_all: dict[str, int] = {}
    timed: dict[str, list[int]] = {}
    named: dict[int, list[int]] = {}
    for event, row in enumerate(history.published):
        if row[AT_DESTS] is None:
            to_all[row[AT_GRP]] = to_all.get(row[AT_GRP], 0) | 1 << event
            timed.setdefault(row[AT_GRP], []).append(event)
        else:
            for node in row[AT_DESTS]:
                named.setdefault(node, []).append(event)
    masks: dict[Process, int] = {}
    for process, stays in history.stays.items():
        mask = 0
        for stay in stays:
            if stay.covers(None):
                mask |= to_all.get(stay.grp, 0)
            else:
                for event in timed.get(stay.grp, ()):
                    if stay.covers(history.published[event][AT_T_TRUE]):
                        mask |= 1 << event
        for event in named.get(process[0], ()):
            if history.is_expected(event, process):
                mask |= 1 << event
        masks[process] = mask
    return masks
