"""Traces damaged by hand, one way each: what a broken protocol, disk, clock or shipment might leave.

Each way takes a trace and dice, changes a copy and returns it, or None where the trace has nothing to damage so.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from tests.check.worlds import copy, with_columns
from whence.trace.memory import Row, Trace
from whence.trace.schema import COLUMNS_OF, Kind

Way = Callable[[Trace, Random], Trace | None]
KEY: Final = ("k_hi", "k_mid", "k_lo")
NAME: Final = ("grp", "m_pid", "m_inc", "m_seq")
TICKETS: Final = (Kind.TICKET_ACQUIRE, Kind.TICKET_RELEASE, Kind.TICKET_SUSPEND)


def at(kind: Kind, name: str) -> int:
    return COLUMNS_OF[kind].index(name)


def value(kind: Kind, row: Row, name: str) -> Any:
    return row[at(kind, name)]


def values(kind: Kind, row: Row, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value(kind, row, name) for name in names}


def pick(trace: Trace, rng: Random, *kinds: Kind) -> tuple[Kind, int] | None:
    """Choose any row of some kinds."""
    places = [(kind, place) for kind in kinds for place in range(len(trace.rows[kind]))]
    return rng.choice(places) if places else None


def change(trace: Trace, kind: Kind, place: int, **columns: Any) -> None:
    trace.rows[kind][place] = with_columns(trace.rows[kind][place], kind, **columns)


def renumber(trace: Trace) -> None:
    """Number every life's rows from 0 without gaps again, in the order they have."""
    rows = [(row[:3], kind, place) for kind, of_kind in trace.rows.items() for place, row in enumerate(of_kind)]
    numbers: dict[tuple[int, int], int] = {}
    for (node, inc, _), kind, place in sorted(rows, key=lambda each: each[0]):
        number = numbers.get((node, inc), 0)
        numbers[node, inc] = number + 1
        change(trace, kind, place, ev=number)


def without_traffic(trace: Trace) -> Trace:
    """Leave out the copies that went to and fro: no promise is about them, and most rows are theirs."""
    trace.rows[Kind.SEND], trace.rows[Kind.RECV] = [], []
    renumber(trace)
    return trace


def without(trace: Trace, rng: Random, *kinds: Kind) -> Trace | None:
    """Leave a row out as if it had never been."""
    chosen = pick(trace, rng, *kinds)
    if chosen is None:
        return None
    del trace.rows[chosen[0]][chosen[1]]
    renumber(trace)
    return trace


def exchange(trace: Trace, kind: Kind, one: int, other: int, names: tuple[str, ...]) -> None:
    """Let two rows take each other's values."""
    first, second = (values(kind, trace.rows[kind][place], names) for place in (one, other))
    change(trace, kind, one, **second)
    change(trace, kind, other, **first)


def two_of_one_process(trace: Trace, rng: Random, kind: Kind) -> tuple[int, int] | None:
    rows = trace.rows[kind]
    pairs = [
        (a, b) for a in range(len(rows)) for b in range(a + 1, min(len(rows), a + 40)) if rows[a][:2] == rows[b][:2]
    ]
    return rng.choice(pairs) if pairs else None


# --- rows swapped, dropped, doubled ---


def deliveries_swapped(trace: Trace, rng: Random) -> Trace | None:
    pair = two_of_one_process(trace, rng, Kind.DELIVER)
    if pair is None:
        return None
    exchange(trace, Kind.DELIVER, *pair, (*NAME, *KEY, "payload_bytes", "payload_crc"))
    return trace


def many_deliveries_swapped(trace: Trace, rng: Random) -> Trace | None:
    swapped = [deliveries_swapped(trace, rng) for _ in range(6)]
    return None if None in swapped else trace


def steps_swapped(trace: Trace, rng: Random) -> Trace | None:
    """A delivery and a publication of one process change places: an effect may come before its cause."""
    published, delivered = trace.rows[Kind.PUBLISH], trace.rows[Kind.DELIVER]
    pairs = [(p, d) for p, one in enumerate(published) for d, two in enumerate(delivered) if one[:2] == two[:2]]
    if not pairs:
        return None
    p, d = rng.choice(pairs)
    one, two = published[p][2], delivered[d][2]
    change(trace, Kind.PUBLISH, p, ev=two)
    change(trace, Kind.DELIVER, d, ev=one)
    return trace


def publications_swapped(trace: Trace, rng: Random) -> Trace | None:
    pair = two_of_one_process(trace, rng, Kind.PUBLISH)
    if pair is None:
        return None
    exchange(trace, Kind.PUBLISH, *pair, ("ev", "t_true", "t_clk"))
    return trace


def delivery_lost_on_disk(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.DELIVER)
    if chosen is None:
        return None
    del trace.rows[Kind.DELIVER][chosen[1]]
    return trace


def publication_lost_on_disk(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.PUBLISH)
    if chosen is None:
        return None
    del trace.rows[Kind.PUBLISH][chosen[1]]
    return trace


def delivery_never_made(trace: Trace, rng: Random) -> Trace | None:
    return without(trace, rng, Kind.DELIVER)


def publication_never_told(trace: Trace, rng: Random) -> Trace | None:
    return without(trace, rng, Kind.PUBLISH)


def gap_never_told(trace: Trace, rng: Random) -> Trace | None:
    return without(trace, rng, Kind.GAP)


def join_never_told(trace: Trace, rng: Random) -> Trace | None:
    return without(trace, rng, Kind.JOIN, Kind.RESTART)


def rows_shipped_twice(trace: Trace, rng: Random) -> Trace | None:
    for kind in (Kind.PUBLISH, Kind.DELIVER, Kind.NOTE):
        trace.rows[kind] += trace.rows[kind][: rng.randint(1, 9)]
    return trace


def row_told_twice_differently(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.DELIVER)
    if chosen is None:
        return None
    trace.rows[Kind.DELIVER].append(with_columns(trace.rows[Kind.DELIVER][chosen[1]], Kind.DELIVER, hold_ns=12_345))
    return trace


def number_claimed_twice(trace: Trace, rng: Random) -> Trace | None:
    """A row of another kind or of another event has the number of one that is there: which is true?"""
    one, other = pick(trace, rng, Kind.DELIVER, Kind.PUBLISH), pick(trace, rng, Kind.DELIVER, Kind.PUBLISH)
    if one is None or other is None or one == other:
        return None
    place = trace.rows[one[0]][one[1]][:3]
    row = trace.rows[other[0]][other[1]]
    trace.rows[other[0]].append(with_columns(row, other[0], node=place[0], inc=place[1], ev=place[2]))
    return trace


def last_number_claimed_twice(trace: Trace, rng: Random) -> Trace | None:
    """Without both rows nothing seems to be missing."""
    chosen = pick(trace, rng, Kind.DELIVER)
    if chosen is None:
        return None
    who = trace.rows[Kind.DELIVER][chosen[1]][:2]
    last = max(each[2] for rows in trace.rows.values() for each in rows if each[:2] == who)
    for hold_ns in (1, 2):
        trace.rows[Kind.DELIVER].append(
            with_columns(trace.rows[Kind.DELIVER][chosen[1]], Kind.DELIVER, ev=last + 1, hold_ns=hold_ns)
        )
    return trace


def delivered_again(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.DELIVER)
    if chosen is None:
        return None
    row = trace.rows[Kind.DELIVER][chosen[1]]
    last = max(each[2] for rows in trace.rows.values() for each in rows if each[:2] == row[:2])
    trace.rows[Kind.DELIVER].append(with_columns(row, Kind.DELIVER, ev=last + 1))
    return trace


def published_again(trace: Trace, rng: Random) -> Trace | None:
    """Somebody else publishes under a name that is taken."""
    chosen, other = pick(trace, rng, Kind.PUBLISH), pick(trace, rng, Kind.DELIVER)
    if chosen is None or other is None:
        return None
    row, who = trace.rows[Kind.PUBLISH][chosen[1]], trace.rows[Kind.DELIVER][other[1]]
    last = max(each[2] for rows in trace.rows.values() for each in rows if each[:2] == who[:2])
    trace.rows[Kind.PUBLISH].append(with_columns(row, Kind.PUBLISH, node=who[0], inc=who[1], ev=last + 1))
    return trace


def shuffled(trace: Trace, rng: Random) -> Trace | None:
    for rows in trace.rows.values():
        rng.shuffle(rows)
    return trace


# --- columns altered ---


def checksum_altered(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.DELIVER)
    if chosen is None:
        return None
    change(trace, *chosen, payload_crc=1, payload_bytes=rng.choice([None, 3]))
    return trace


def checksums_lost(trace: Trace, rng: Random) -> Trace | None:
    """Of one delivery, of all, or of everything."""
    rows = trace.rows[Kind.DELIVER]
    one = pick(trace, rng, Kind.DELIVER)
    if one is None:
        return None
    way = rng.randint(0, 2)
    for place in [one[1]] if way == 0 else range(len(rows)):
        change(trace, Kind.DELIVER, place, payload_crc=None)
    for place in range(len(trace.rows[Kind.PUBLISH])) if way == 2 else ():
        change(trace, Kind.PUBLISH, place, payload_crc=None)
    return trace


def delivered_what_nobody_published(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.DELIVER)
    if chosen is None:
        return None
    change(trace, *chosen, m_seq=987_654)
    return trace


def published_in_anothers_name(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.PUBLISH)
    if chosen is None:
        return None
    change(trace, *chosen, m_pid=77)
    return trace


def addressed_to_few(trace: Trace, rng: Random) -> Trace | None:
    for place in range(0, len(trace.rows[Kind.PUBLISH]), rng.randint(1, 3)):
        change(trace, Kind.PUBLISH, place, dests=tuple(rng.sample(trace.run.nodes, len(trace.run.nodes) // 2 + 1)))
    return trace


def over_its_bound(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.NOTE)
    if chosen is None:
        return None
    change(trace, *chosen, value=9, bound=rng.choice([8, None]))
    return trace


def view_altered(trace: Trace, rng: Random) -> Trace | None:
    rows = trace.rows[Kind.VIEW]
    if not rows:
        return None
    for place in range(rng.randrange(len(rows)), len(rows)):
        node, view = rows[place][0], value(Kind.VIEW, rows[place], "dests") or ()
        change(trace, Kind.VIEW, place, dests=rng.choice([(*view, node), (), view[:1], tuple(trace.run.nodes)]))
    return trace


# --- clocks ---


def clock_of_one_shifted(trace: Trace, rng: Random) -> Trace | None:
    """One process's true time and clock are off by up to a second."""
    node, by = rng.choice(trace.run.nodes), rng.randint(-(10**9), 10**9)
    for kind, rows in trace.rows.items():
        for place, row in enumerate(rows):
            if row[0] == node and row[4] is not None:
                change(trace, kind, place, t_true=max(0, row[4] + by), t_clk=row[3] + by)
    return trace


def without_true_time(trace: Trace, rng: Random) -> Trace | None:
    for kind, rows in trace.rows.items():
        for place in range(len(rows)):
            change(trace, kind, place, t_true=None)
    return trace


def some_without_true_time(trace: Trace, rng: Random) -> Trace | None:
    for kind in rng.sample(list(Kind), 6):
        for place in range(len(trace.rows[kind])):
            if rng.random() < 0.5:
                change(trace, kind, place, t_true=None)
    return trace


def live_and_nobody_founded(trace: Trace, rng: Random) -> Trace | None:
    """As gathered from several machines: no true time, and every member known by its join row alone."""
    founders = trace.run.groups
    trace.run.groups = {grp: [] for grp in founders}
    for kind, rows in trace.rows.items():
        for place, row in enumerate(rows):
            change(trace, kind, place, t_true=None, ev=row[2] + 1)
    for grp, nodes in founders.items():
        for node in nodes:
            given: dict[str, Any] = {"node": node, "inc": 1, "ev": 0, "t_clk": 0, "grp": grp}
            trace.rows[Kind.JOIN].append(tuple(given.get(name) for name in COLUMNS_OF[Kind.JOIN]))
    renumber(trace)
    trace.run.phases = None
    return trace


# --- keys ---


def keyed(trace: Trace, kind: Kind) -> list[int]:
    return [place for place, row in enumerate(trace.rows[kind]) if value(kind, row, "k_hi") is not None]


def keys_lost(trace: Trace, rng: Random) -> Trace | None:
    """Of one row, of half the deliveries, of all of them, of everything, or a part of some."""
    deliveries, publications = keyed(trace, Kind.DELIVER), keyed(trace, Kind.PUBLISH)
    if not deliveries:
        return None
    way = rng.randint(0, 4)
    nothing: dict[str, Any] = dict.fromkeys(KEY[2:] if way == 4 else KEY)
    for place in (deliveries[:1], deliveries[::2], deliveries, deliveries, deliveries[::3])[way]:
        change(trace, Kind.DELIVER, place, **nothing)
    for place in publications if way == 3 else ():
        change(trace, Kind.PUBLISH, place, **nothing)
    return trace


def published_keys_swapped(trace: Trace, rng: Random) -> Trace | None:
    places = keyed(trace, Kind.PUBLISH)
    if len(places) < 2:
        return None
    one, other = rng.sample(places, 2)
    exchange(trace, Kind.PUBLISH, one, other, KEY)
    return trace


def keys_swapped_everywhere(trace: Trace, rng: Random) -> Trace | None:
    places = keyed(trace, Kind.PUBLISH)
    if len(places) < 2:
        return None
    rows = [trace.rows[Kind.PUBLISH][place] for place in rng.sample(places, 2)]
    names, keys = zip(*((values(Kind.PUBLISH, row, NAME), values(Kind.PUBLISH, row, KEY)) for row in rows), strict=True)
    for kind in (Kind.PUBLISH, Kind.DELIVER):
        for place, row in enumerate(trace.rows[kind]):
            if values(kind, row, NAME) in names:
                change(trace, kind, place, **keys[1 - names.index(values(kind, row, NAME))])
    return trace


def delivered_keys_swapped(trace: Trace, rng: Random) -> Trace | None:
    places = keyed(trace, Kind.DELIVER)
    if len(places) < 2:
        return None
    one, other = rng.sample(places, 2)
    exchange(trace, Kind.DELIVER, one, other, KEY)
    return trace


def one_key_for_two(trace: Trace, rng: Random) -> Trace | None:
    places = keyed(trace, Kind.PUBLISH)
    if len(places) < 2:
        return None
    one, other = rng.sample(places, 2)
    change(trace, Kind.PUBLISH, other, **values(Kind.PUBLISH, trace.rows[Kind.PUBLISH][one], KEY))
    return trace


# --- tickets ---


def tenure_never_ended(trace: Trace, rng: Random) -> Trace | None:
    return without(trace, rng, Kind.TICKET_RELEASE, Kind.TICKET_SUSPEND, Kind.CRASH)


def tenure_begun_earlier(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.TICKET_ACQUIRE)
    if chosen is None:
        return None
    row, by = trace.rows[chosen[0]][chosen[1]], rng.randint(1, 10**9)
    change(trace, *chosen, t_true=None if row[4] is None else max(0, row[4] - by), t_clk=row[3] - by)
    return trace


def lease_ended_earlier(trace: Trace, rng: Random) -> Trace | None:
    """Near the end of a lease a use is wrong only where no drift explains it."""
    rows = trace.rows[Kind.TICKET_SUSPEND]
    for place, row in enumerate(rows):
        uses = [u[4] for u in trace.rows[Kind.PUBLISH] if u[:2] == row[:2] and u[4] is not None and u[2] < row[2]]
        if uses and row[4] is not None:
            since = row[4] - uses[-1]
            change(trace, Kind.TICKET_SUSPEND, place, late_ns=int(since * rng.uniform(0.95, 1.05)))
    return trace if rows else None


def epoch_altered(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, *TICKETS)
    if chosen is None:
        return None
    change(trace, *chosen, epoch=rng.randint(0, 3), value=rng.choice([None, 1, 2]))
    return trace


def published_under_another_ticket(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.PUBLISH)
    if chosen is None:
        return None
    change(trace, *chosen, ticket=rng.randint(0, 3), epoch=rng.randint(0, 3))
    return trace


# --- what the run says of itself ---


def run_remembers_or_forgets(trace: Trace, rng: Random) -> Trace | None:
    trace.run.durable = not trace.run.durable
    return trace


def nothing_may_be_lost(trace: Trace, rng: Random) -> Trace | None:
    trace.run.reach_min = 1.0
    trace.run.parameters = trace.run.parameters | {"agreement": rng.choice(["all", "most"])}
    if trace.run.phases is not None:
        trace.run.phases = msgspec.structs.replace(trace.run.phases, deadline_ns=rng.randint(0, 10**8))
    return trace


def nobody_founded(trace: Trace, rng: Random) -> Trace | None:
    trace.run.groups = {grp: nodes[: rng.randint(0, 1)] for grp, nodes in trace.run.groups.items()}
    return trace


def nothing_happened(trace: Trace, rng: Random) -> Trace | None:
    for kind in (Kind.PUBLISH, Kind.DELIVER, *TICKETS, Kind.NOTE)[rng.randint(0, 2) :]:
        trace.rows[kind].clear()
    renumber(trace)
    return trace


WAYS: Final[tuple[Way, ...]] = (
    deliveries_swapped, many_deliveries_swapped, steps_swapped, publications_swapped, delivery_lost_on_disk,
    publication_lost_on_disk, delivery_never_made, publication_never_told, gap_never_told, join_never_told,
    rows_shipped_twice, row_told_twice_differently, number_claimed_twice, last_number_claimed_twice, checksums_lost,
    keys_lost, delivered_again, published_again, shuffled, checksum_altered,
    delivered_what_nobody_published, published_in_anothers_name, addressed_to_few, over_its_bound, view_altered,
    clock_of_one_shifted, without_true_time, some_without_true_time, live_and_nobody_founded, published_keys_swapped,
    keys_swapped_everywhere, delivered_keys_swapped, one_key_for_two, tenure_never_ended, tenure_begun_earlier,
    lease_ended_earlier, epoch_altered, published_under_another_ticket, run_remembers_or_forgets, nothing_may_be_lost,
    nobody_founded, nothing_happened,
)  # fmt: skip


def damaged(trace: Trace, way: Way, seed: int) -> Trace | None:
    """Return a damaged copy."""
    other = copy(trace)
    other.run = msgspec.structs.replace(trace.run, digest=None)
    return way(other, Random(seed))


def damaged_in_turn(trace: Trace, seed: int, *ways: Way) -> Trace | None:
    """Return a copy damaged in several ways, one after the other."""
    other: Trace | None = trace
    for way in ways:
        other = None if other is None else damaged(other, way, seed)
    return other
