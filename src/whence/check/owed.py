"""Who is owed which events once the faults have stopped.

After healing (`run.phases`): an event published from live_from to live_until is owed to every process that is a member
from live_from to the end of the run and up at the end. Where the run promises everything (durable, or the parameter
agreement = "all"), every event of the run is owed to every process that was a member when it was published and is up
at the end.
"""

from typing import TypeAlias

from whence.check.closure import Process
from whence.check.history import AFTER_ALL, AT_DESTS, AT_GRP, AT_T_TRUE, History

Debts: TypeAlias = dict[Process, list[int]]
"""The events each process is owed."""

NO_PHASES = "the run does not say when its faults stopped, or its rows have no true time"
NO_MEMBERSHIP = "the rows have no true time, so nobody can tell who was a member when an event was published"


def owed_after_healing(history: History) -> Debts | None:
    """Return what is owed in the liveness phase; None where the trace cannot tell."""
    phases = history.run.phases
    if phases is None or any(row[AT_T_TRUE] is None for row in history.published):
        return None
    window: dict[str, list[int]] = {}
    for event, row in enumerate(history.published):
        if phases.live_from <= row[AT_T_TRUE] <= phases.live_until:
            window.setdefault(row[AT_GRP], []).append(event)
    debts: Debts = {}
    for process, stays in history.stays.items():
        if history.up[process]:
            steady = [stay.grp for stay in stays if stay.since <= phases.live_from and stay.until == AFTER_ALL]
            debts[process] = [event for grp in steady for event in addressed(history, process, window.get(grp, []))]
    return debts


def owed_in_all(history: History) -> Debts:
    """Return what is owed where the run promises everything."""
    every = range(len(history.published))
    return {
        process: [event for event in every if history.is_owed(event, process)]
        for process, is_up in history.up.items()
        if is_up
    }


def unsure_in_all(history: History) -> int:
    """Return how many deliveries are missing that may be owed, where nobody can tell who was a member when."""
    if history.is_timed:
        return 0
    return sum(
        history.may_be_owed(event, process)
        for process, is_up in history.up.items()
        if is_up
        for event in range(len(history.published))
        if event not in history.delivered[process]
    )


def promises_all(history: History) -> bool:
    """Tell whether the run owes every event of its whole length."""
    return history.run.durable or history.run.parameters.get("agreement") == "all"


def addressed(history: History, process: Process, events: list[int]) -> list[int]:
    """Return the events among these that name the process, or name nobody and so mean everybody."""
    node, published = process[0], history.published
    return [event for event in events if (dests := published[event][AT_DESTS]) is None or node in dests]
