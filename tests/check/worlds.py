"""Random executions for the oracles: one that keeps causal order by construction, one that keeps nothing."""

from random import Random

from tests.check.trace_builder import TraceBuilder
from whence.trace.memory import Row, Trace
from whence.trace.schema import COLUMNS_OF, Kind
from whence.types import EventId


def causal_world(seed: int, nodes: int, steps: int, partial: bool = False) -> Trace:
    """A dumb causal broadcast: a message carries its whole past, and waits until the receiver has it."""
    rng = Random(seed)
    builder = TraceBuilder(range(nodes), level="causal")
    past: dict[EventId, set[EventId]] = {}
    dests: dict[EventId, list[int]] = {}
    known: list[set[EventId]] = [set() for _ in range(nodes)]
    waiting: list[list[EventId]] = [[] for _ in range(nodes)]

    def deliver(node: int, event: EventId) -> None:
        builder.deliver(node, event)
        known[node] |= past[event] | {event}
        waiting[node].remove(event)

    def is_ready(node: int, event: EventId) -> bool:
        return not any(other in past[event] for other in waiting[node])

    for _ in range(steps):
        node = rng.randrange(nodes)
        if rng.random() < 0.3:
            targets = rng.sample(range(nodes), rng.randint(1, nodes)) if partial else list(range(nodes))
            event = builder.publish(node, dests=sorted(targets) if partial else None)
            past[event], dests[event] = set(known[node]), targets
            known[node].add(event)
            for target in targets:
                waiting[target].append(event)
            if node in targets:
                deliver(node, event)
        else:
            ready = [event for event in waiting[node] if is_ready(node, event)]
            if ready:
                deliver(node, rng.choice(ready))
    return builder.trace


def any_world(seed: int, nodes: int, steps: int) -> Trace:
    """Anything goes: any order, repeats, gaps true and false, partial destinations, one member that joins late."""
    rng = Random(seed)
    builder = TraceBuilder(range(nodes), founders=range(nodes - 1), level="causal")
    is_wild = rng.random() < 0.5
    events: list[EventId] = []
    dests: dict[EventId, list[int]] = {}
    got: list[list[EventId]] = [[] for _ in range(nodes)]
    late, has_joined = nodes - 1, False
    for _ in range(steps):
        node = rng.randrange(nodes)
        if node == late and not has_joined:
            if rng.random() < 0.3:
                builder.row(Kind.JOIN, node)
                has_joined = True
            continue
        open_events = [event for event in events if event not in got[node] and node in dests[event]]
        roll = rng.random()
        if roll < 0.3:
            targets = rng.sample(range(nodes), rng.randint(1, nodes)) if rng.random() < 0.3 else None
            event = builder.publish(node, dests=targets)
            events.append(event)
            dests[event] = targets or list(range(nodes))
        elif roll < 0.36 and open_events:
            builder.gap(node, rng.choice(open_events))
        elif roll < 0.38 and is_wild and got[node]:
            builder.deliver(node, rng.choice(got[node]))
        elif open_events:
            event = rng.choice(open_events) if is_wild else open_events[0]
            builder.deliver(node, event)
            got[node].append(event)
    return builder.trace


def swapped(trace: Trace, rng: Random) -> Trace:
    """Return the trace with two deliveries swapped that follow each other at once in one process, if there are any."""
    rows = trace.rows[Kind.DELIVER]
    place = {row[:3]: number for number, row in enumerate(rows)}
    pairs = [(number, place[after]) for (*who, ev), number in place.items() if (after := (*who, ev + 1)) in place]
    changed = copy(trace)
    if pairs:
        i, j = rng.choice(pairs)
        changed.rows[Kind.DELIVER][i] = rows[i][:5] + rows[j][5:]
        changed.rows[Kind.DELIVER][j] = rows[j][:5] + rows[i][5:]
    return changed


def copy(trace: Trace) -> Trace:
    """Return a trace with lists of its own."""
    other = Trace(trace.run)
    for kind, rows in trace.rows.items():
        other.rows[kind] = list(rows)
    return other


def with_columns(row: Row, kind: Kind, **columns: object) -> Row:
    """Return a row with some columns changed."""
    return tuple(columns.get(name, value) for name, value in zip(COLUMNS_OF[kind], row, strict=True))
