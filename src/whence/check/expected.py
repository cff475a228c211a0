"""Expected deliveries: which process must deliver which events.

After healing (`run.phases`): an event published from live_from to live_until must reach every process that is a member
from live_from on, until the deadline of the event has passed or the run ends, and is up at the end: whoever leaves in
order later than that had its time. Where the run promises everything (durable, or the parameter agreement = "all"),
every event of the run must reach every process that was a member when it was published and is up at the end.
"""

from typing import TypeAlias

from whence.check.closure import Process
from whence.check.history import AFTER_ALL, AT_DESTS, AT_GRP, AT_T_TRUE, History

ExpectedDeliveries: TypeAlias = dict[Process, list[int]]
"""The events that each process must deliver."""

NO_PHASES = "the run does not say when its faults stopped, or its rows have no true time"
NOTHING_EXPECTED = "nothing was checked: no delivery was expected of any member"
NO_MEMBERSHIP = "the rows have no true time, so it is unknown who was a member when an event was published"


def expected_after_healing(history: History) -> ExpectedDeliveries | None:
    """Return the deliveries expected in the liveness phase; None where the trace cannot tell."""
    phases = history.run.phases
    if phases is None or any(row[AT_T_TRUE] is None for row in history.published):
        return None
    window: dict[str, list[int]] = {}
    for event, row in enumerate(history.published):
        if phases.live_from <= row[AT_T_TRUE] <= phases.live_until:
            window.setdefault(row[AT_GRP], []).append(event)
    expected: ExpectedDeliveries = {}
    for process, stays in history.stays.items():
        if history.up[process]:
            expected[process] = [
                event
                for stay in stays if stay.since <= phases.live_from
                for event in addressed(history, process, window.get(stay.grp, []))
                if stay.until == AFTER_ALL or history.published[event][AT_T_TRUE] + phases.deadline_ns <= stay.until
            ]  # fmt: skip
    return expected


def expected_in_whole_run(history: History) -> ExpectedDeliveries:
    """Return the deliveries expected where the run promises everything."""
    every = range(len(history.published))
    return {
        process: [event for event in every if history.is_expected(event, process)]
        for process, is_up in history.up.items()
        if is_up
    }


def possibly_expected(history: History) -> int:
    """Return how many missing deliveries may be expected, where the trace does not tell who was a member when."""
    if history.is_timed:
        return 0
    return sum(
        history.may_be_expected(event, process)
        for process, is_up in history.up.items()
        if is_up
        for event in range(len(history.published))
        if event not in history.delivered[process]
    )


def expects_all(history: History) -> bool:
    """Return whether every event of the run must be delivered, not only those of the liveness phase."""
    return history.run.durable or history.run.parameters.get("agreement") == "all"


def addressed(history: History, process: Process, events: list[int]) -> list[int]:
    """Return the events among these that name the process, or name nobody and so mean everybody."""
    node, published = process[0], history.published
    return [event for event in events if (dests := published[event][AT_DESTS]) is None or node in dests]
