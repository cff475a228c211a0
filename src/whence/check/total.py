"""Uniform total order: in each group, the delivery sequences of all processes, crashed ones too, fit into one order.

Equivalently, the union of all sequences has no cycle. Most runs are settled by a look: every sequence is the beginning
of the longest. Otherwise a topological sort of consecutive deliveries decides, in time linear in the deliveries. What
remains in it lies on or between cycles. A violation is a process that delivers two events in the opposite order of one
before it, so that there are never more than processes; where no two disagree, it is the shortest cycle. Only first
deliveries count.
"""

from collections import deque
from itertools import pairwise
from typing import TypeAlias

from whence.check.closure import Process
from whence.check.history import AT_GRP, History
from whence.check.verdict import Findings, Verdict, what, who

PROMISE = "total_order"

Sequences: TypeAlias = dict[Process, list[int]]


def judge(history: History) -> Verdict:
    """Judge whether all delivery sequences of a group fit into one order."""
    findings = Findings(PROMISE, history.incomplete)
    comparable = judge_sequences(history, findings)
    return findings.verdict(
        "all processes delivered in one order", at_stake=comparable,
        nothing="no two processes delivered two events each in one group",
    )  # fmt: skip


def judge_sequences(history: History, findings: Findings) -> int:
    """Find sequences that fit into no order; return in how many groups there were any to compare."""
    comparable = 0
    for grp, sequences in _by_group(history).items():
        comparable += sum(len(line) > 1 for line in sequences.values()) > 1
        if _all_begin_the_longest(sequences):
            continue
        tangled = _tangled(sequences)
        if tangled:
            left = {process: [event for event in line if event in tangled] for process, line in sequences.items()}
            if not _report_inversions(history, findings, grp, left):
                _report_cycle(history, findings, grp, left)
    return comparable


def _by_group(history: History) -> dict[str, Sequences]:
    groups: dict[str, Sequences] = {}
    for process, delivered in history.delivered.items():
        for event, row in delivered.items():
            groups.setdefault(row[AT_GRP], {}).setdefault(process, []).append(event)
    return groups


def _all_begin_the_longest(sequences: Sequences) -> bool:
    longest = max(sequences.values(), key=len)
    return all(line == longest[: len(line)] for line in sequences.values())


def _tangled(sequences: Sequences) -> dict[int, bool]:
    """Return the events that no order can place: peel off what has nothing before it, then what has nothing after."""
    edges = {edge: True for line in sequences.values() for edge in pairwise(line)}
    events = {event: True for line in sequences.values() for event in line}
    after_peeling = _peel(events, list(edges))
    if not after_peeling:
        return after_peeling
    return _peel(after_peeling, [(b, a) for a, b in edges if a in after_peeling and b in after_peeling])


def _peel(events: dict[int, bool], edges: list[tuple[int, int]]) -> dict[int, bool]:
    follows: dict[int, list[int]] = {event: [] for event in events}
    waits_for = dict.fromkeys(events, 0)
    for before, after in edges:
        follows[before].append(after)
        waits_for[after] += 1
    free = [event for event, count in waits_for.items() if not count]
    for event in free:  # grows while we walk it
        for after in follows[event]:
            waits_for[after] -= 1
            if not waits_for[after]:
                free.append(after)
    return {event: True for event, count in waits_for.items() if count}


def _report_inversions(history: History, findings: Findings, grp: str, sequences: Sequences) -> bool:
    """Report, for each process that disagrees with one before it, the two closest events it delivers in the opposite
    order of the first such."""
    places = {process: {event: place for place, event in enumerate(line)} for process, line in sequences.items()}
    found = False
    for one in sorted(sequences):
        for other in sorted(process for process in sequences if process < one):
            common = [event for event in sequences[one] if event in places[other]]
            inverted = [(a, b) for a, b in pairwise(common) if places[other][a] > places[other][b]]
            if inverted:
                found = True
                a, b = min(inverted, key=lambda pair: places[one][pair[1]] - places[one][pair[0]])
                _report_pair(history, findings, grp, one, other, a, b)
                break
    return found


def _report_pair(history: History, findings: Findings, grp: str, one: Process, other: Process, a: int, b: int) -> None:
    here, there = history.delivered[one], history.delivered[other]
    first, second = history.id_of(a), history.id_of(b)
    sentence = (
        f"{who(*here[b][:2])} delivered {what(first)} before {what(second)}, and {who(*there[a][:2])} "
        "delivered them the other way round"
    )
    findings.add(here[b][:2], sentence, grp=grp, ids=[first, second], evs=[here[a][2], here[b][2]])


def _report_cycle(history: History, findings: Findings, grp: str, sequences: Sequences) -> None:
    """Report the shortest cycle: no two processes disagree, but several together leave no order."""
    edges: dict[int, dict[int, Process]] = {}
    for process, line in sequences.items():
        for before, after in pairwise(line):
            edges.setdefault(before, {}).setdefault(after, process)
    cycle = min((_cycle_through(event, edges) for event in edges), key=lambda found: len(found) or len(edges) + 1)
    ids = [history.id_of(event) for event in cycle]
    process = edges[cycle[0]][cycle[1]]
    row = history.delivered[process][cycle[1]]
    chain = ", ".join(
        f"{what(history.id_of(a))} before {what(history.id_of(b))} at process {edges[a][b][0]}"
        for a, b in pairwise([*cycle, cycle[0]])
    )
    sentence = f"no single order explains the deliveries: {chain}"
    findings.add(row[:2], sentence, grp=grp, ids=ids, evs=[history.delivered[process][cycle[0]][2], row[2]])


def _cycle_through(start: int, edges: dict[int, dict[int, Process]]) -> list[int]:
    """Return a shortest cycle through an event; empty when there is none."""
    came_from: dict[int, int] = {}
    queue = deque([start])
    while queue:
        event = queue.popleft()
        for after in edges.get(event, ()):
            if after == start:
                path = [event]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if after not in came_from:
                came_from[after] = event
                queue.append(after)
    return []
