"""Traces of living groups damaged by hand, one way each: what a broken protocol of views might leave."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.check.worlds import copy
from tests.pipeline.damage import WAYS, Way, change, pick, renumber, value, without
from whence.epochs import BIRTH_BITS, FORK_BITS, NUMBER_BITS
from whence.trace.memory import Trace
from whence.trace.schema import CLOSED, COLUMNS_OF, Kind

GENERATION_AT: Final = NUMBER_BITS + FORK_BITS + BIRTH_BITS
RECEIPTS: Final = ("stored", "majority", "settled")


def published_in_another_view(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.PUBLISH)
    if chosen is None:
        return None
    change(trace, *chosen, epoch=rng.choice([None, *(_near(trace, number) for number in (0, 1, 2, 99))]))
    return trace


def delivered_as_of_another_view(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.DELIVER)
    if chosen is None:
        return None
    change(trace, *chosen, epoch=rng.choice([None, *(_near(trace, number) for number in (0, 1, 2, 99))]))
    return trace


def event_moved_to_another_view(trace: Trace, rng: Random) -> Trace | None:
    """All rows of an event name another view."""
    chosen = pick(trace, rng, Kind.PUBLISH)
    if chosen is None:
        return None
    name = trace.rows[Kind.PUBLISH][chosen[1]][5:9]
    epoch = _near(trace, rng.randint(0, 4))
    for kind in (Kind.PUBLISH, Kind.DELIVER):
        for place, row in enumerate(trace.rows[kind]):
            if row[5:9] == name:
                change(trace, kind, place, epoch=epoch)
    return trace


def view_of_others_altered(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.VIEW)
    if chosen is None:
        return None
    members = [list(member) for member in value(Kind.VIEW, trace.rows[Kind.VIEW][chosen[1]], "ids") or ()]
    if not members:
        return None
    which, how = rng.randrange(len(members)), rng.randint(0, 4)
    if how == 0:
        members.pop(which)
    elif how == 1:
        members[which][2] += 1
    elif how == 2:
        members[which][1] += 1
    elif how == 3:
        members.reverse()
    else:
        members.append(members[which])
    pids = tuple(member[0] for member in members) if rng.random() < 0.7 else None
    change(trace, *chosen, ids=tuple(map(tuple, members)), dests=pids)
    return trace


def view_altered_everywhere(trace: Trace, rng: Random) -> Trace | None:
    """Whoever entered a view entered one that lacks a member, or in which one is there since another epoch."""
    chosen = pick(trace, rng, Kind.VIEW)
    if chosen is None:
        return None
    row = trace.rows[Kind.VIEW][chosen[1]]
    epoch, members = value(Kind.VIEW, row, "epoch"), list(value(Kind.VIEW, row, "ids") or ())
    if not members:
        return None
    which = rng.randrange(len(members))
    if rng.random() < 0.5:
        members.pop(which)
    else:
        members[which] = (members[which][0], members[which][1], _near(trace, rng.randint(0, 3)))
    for place, other in enumerate(trace.rows[Kind.VIEW]):
        if value(Kind.VIEW, other, "epoch") == epoch:
            change(trace, Kind.VIEW, place, ids=tuple(members), dests=tuple(member[0] for member in members))
    return trace


def view_never_told(trace: Trace, rng: Random) -> Trace | None:
    return without(trace, rng, Kind.VIEW)


def views_of_an_epoch_never_told(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.VIEW)
    if chosen is None:
        return None
    epoch = value(Kind.VIEW, trace.rows[Kind.VIEW][chosen[1]], "epoch")
    trace.rows[Kind.VIEW] = [row for row in trace.rows[Kind.VIEW] if value(Kind.VIEW, row, "epoch") != epoch]
    renumber(trace)
    return trace


def view_of_another_epoch(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.VIEW)
    if chosen is None:
        return None
    change(trace, *chosen, epoch=_near(trace, rng.randint(0, 6)))
    return trace


def voters_altered(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.VIEW)
    if chosen is None:
        return None
    change(trace, *chosen, value=rng.choice([None, 0, 1, 2, 3, 7]))
    return trace


def join_of_another_member(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.JOIN)
    if chosen is None:
        return None
    change(
        trace,
        *chosen,
        epoch=rng.choice([None, *(_near(trace, number) for number in range(3))]),
        value=rng.choice([None, 1, 2]),
    )
    return trace


def leave_never_told(trace: Trace, rng: Random) -> Trace | None:
    return without(trace, rng, Kind.LEAVE)


def leave_altered(trace: Trace, rng: Random) -> Trace | None:
    """A verdict names another view, another event, or nothing; half the time one is made up."""
    other = pick(trace, rng, Kind.PUBLISH)
    if other is None:
        return None
    source = trace.rows[Kind.PUBLISH][other[1]]
    named = dict(zip(("m_pid", "m_inc", "m_seq"), rng.choice([source[6:9], (None, None, None)]), strict=True))
    told = named | {
        "epoch": rng.choice([None, 0, 1, 2, 3]),
        "reason": rng.choice(["left", "removed", "removed_unknown"]),
    }
    chosen = pick(trace, rng, Kind.LEAVE)
    if chosen is not None and rng.random() < 0.5:
        change(trace, *chosen, **told)
        return trace
    _make_up(trace, rng, Kind.LEAVE, told)
    return trace


def everybody_leaves(trace: Trace, rng: Random) -> Trace | None:
    """The members of the latest view leave one by one at the end, and the last one closes the group."""
    views = trace.rows[Kind.VIEW]
    if not views:
        return None
    last = max(views, key=lambda row: value(Kind.VIEW, row, "epoch") or 0)
    epoch, members = value(Kind.VIEW, last, "epoch"), list(value(Kind.VIEW, last, "ids") or ())
    rng.shuffle(members)
    while members:
        pid = members[-1][0]
        if len(members) > 1:
            members.pop()
            epoch += 1
            for stay in members:
                own = {"dests": tuple(member[0] for member in members), "ids": tuple(map(tuple, members))}
                _at_the_end(trace, stay[0], Kind.VIEW, {"epoch": epoch, "reason": "entered"} | own)
            _at_the_end(trace, pid, Kind.LEAVE, {"epoch": epoch, "reason": "left"})
        else:
            members.pop()
            _at_the_end(trace, pid, Kind.LEAVE, {"epoch": epoch, "reason": "left"})
    return trace


def some_close_the_group(trace: Trace, rng: Random) -> Trace | None:
    """Some close the group in order, each somewhere on its way, and stay members; one may take something after it."""
    nodes = sorted({row[0] for row in trace.rows[Kind.VIEW]})
    if not nodes:
        return None
    for node in rng.sample(nodes, rng.randint(1, len(nodes))):
        mine = sorted(row[:5] for rows in trace.rows.values() for row in rows if row[0] == node)
        _, inc, ev, t_clk, t_true = rng.choice(mine[len(mine) // 2 :])
        takes = rng.random() < 0.2
        for kind, rows in trace.rows.items():
            stays = Kind.DELIVER if takes else None
            trace.rows[kind] = [row for row in rows if row[0] != node or row[1:3] <= (inc, ev) or kind is stays]
        for kind, rows in trace.rows.items():  # what it takes after that comes after the row that says so
            later = [row[:2] == (node, inc) and row[2] > ev for row in rows]
            trace.rows[kind] = [
                (*row[:2], row[2] + 1, *row[3:]) if is_later else row for row, is_later in zip(rows, later, strict=True)
            ]
        given = {
            "node": node, "inc": inc, "ev": ev + 1, "t_clk": t_clk, "t_true": t_true, "reason": CLOSED,
            "grp": next(iter(trace.run.groups)),
        }  # fmt: skip
        trace.rows[Kind.NOTE].append(tuple(given.get(name) for name in COLUMNS_OF[Kind.NOTE]))
    return trace


def receipt_altered(trace: Trace, rng: Random) -> Trace | None:
    """A note is about another event, or says another level; half the time one is made up."""
    other = pick(trace, rng, Kind.PUBLISH)
    if other is None:
        return None
    source = trace.rows[Kind.PUBLISH][other[1]]
    named = dict(zip(("grp", "m_pid", "m_inc", "m_seq"), source[5:9], strict=True))
    told: dict[str, Any] = named | {"reason": rng.choice(RECEIPTS)}
    notes = [place for place, row in enumerate(trace.rows[Kind.NOTE]) if value(Kind.NOTE, row, "reason") in RECEIPTS]
    if notes and rng.random() < 0.5:
        change(trace, Kind.NOTE, rng.choice(notes), **told)
        return trace
    node = source[0] if rng.random() < 0.7 else rng.choice(trace.run.nodes)
    _at_the_end(trace, node, Kind.NOTE, told)
    return trace


def nobody_can_help(trace: Trace, rng: Random) -> Trace | None:
    _make_up(trace, rng, Kind.NOTE, {"reason": "unsuppliable"})
    return trace


def disk_wiped(trace: Trace, rng: Random) -> Trace | None:
    chosen = pick(trace, rng, Kind.CRASH, Kind.RESTART)
    if chosen is None:
        return None
    change(trace, *chosen, reason="wiped")
    return trace


def crash_made_up(trace: Trace, rng: Random) -> Trace | None:
    _make_up(trace, rng, Kind.CRASH, {"grp": None, "reason": rng.choice([None, "wiped"])})
    return trace


def restart_made_up(trace: Trace, rng: Random) -> Trace | None:
    _make_up(trace, rng, Kind.RESTART, {"grp": None, "reason": rng.choice([None, "wiped"])})
    return trace


def crash_never_told(trace: Trace, rng: Random) -> Trace | None:
    return without(trace, rng, Kind.CRASH, Kind.RESTART)


def deliveries_of_two_members_mixed(trace: Trace, rng: Random) -> Trace | None:
    """A delivery becomes one of another process."""
    chosen = pick(trace, rng, Kind.DELIVER)
    if chosen is None:
        return None
    change(trace, *chosen, node=rng.choice(trace.run.nodes))
    renumber(trace)
    return trace


def run_promises_more_or_less(trace: Trace, rng: Random) -> Trace | None:
    which = rng.choice(("strict", "uniform", "keep", "agreement"))
    given = {
        "strict": rng.random() < 0.5, "uniform": True, "keep": rng.choice(["own", "all"]),
        "agreement": rng.choice(["all", "most"]),
    }  # fmt: skip
    trace.run.parameters = trace.run.parameters | {which: given[which]}
    if rng.random() < 0.3:
        trace.run.phases = None
    return trace


def second_group_named(trace: Trace, rng: Random) -> Trace | None:
    """The run names another group, and some rows are of it."""
    trace.run.groups = trace.run.groups | {"other": trace.run.nodes[:2]}
    for kind in (Kind.JOIN, Kind.VIEW, Kind.NOTE):
        for place in range(len(trace.rows[kind])):
            if rng.random() < 0.1:
                change(trace, kind, place, grp="other")
    return trace


def begun_again(trace: Trace, rng: Random) -> Trace | None:
    """A group of the same name is begun separately: all of it happens once more, to later incarnations."""
    birth, later = (rng.randint(1, 9) << NUMBER_BITS + FORK_BITS), 20
    again = copy(trace)
    shift_epochs(again, lambda epoch: epoch + birth)
    for kind, rows in again.rows.items():
        for place, row in enumerate(rows):
            names = [
                name for name in ("inc", "m_inc") if name in COLUMNS_OF[kind] and value(kind, row, name) is not None
            ]
            moved: dict[str, Any] = {name: value(kind, row, name) + later for name in names}
            if kind is Kind.VIEW:
                moved["ids"] = tuple((pid, inc + later, seq) for pid, inc, seq in value(kind, row, "ids") or ())
            if kind is Kind.JOIN and value(kind, row, "value") is not None:
                moved["value"] = value(kind, row, "value") + later
            change(again, kind, place, **moved)
        trace.rows[kind] += again.rows[kind]
    return trace


def forced_by_an_operator(trace: Trace, rng: Random) -> Trace | None:
    """From some view on, the views are of another generation."""
    epochs = sorted({epoch for row in trace.rows[Kind.VIEW] if (epoch := value(Kind.VIEW, row, "epoch")) is not None})
    if len(epochs) < 2:
        return None
    since, line = rng.choice(epochs[1:]), (1 << GENERATION_AT) | (rng.randint(0, 99) << NUMBER_BITS)
    shift_epochs(trace, lambda epoch: epoch + line if epoch >= since else epoch)
    return trace


def _near(trace: Trace, number: int) -> int:
    """Return the epoch of a view with this number, in the generation of the views that are there."""
    epochs = [value(Kind.VIEW, row, "epoch") for row in trace.rows[Kind.VIEW]]
    return (max((epoch for epoch in epochs if epoch is not None), default=0) >> NUMBER_BITS << NUMBER_BITS) | number


def some_remember_nothing(trace: Trace, rng: Random) -> Trace | None:
    """Some incarnations are said to have had no data directory."""
    if not trace.run.durable:
        return None
    known = sorted({row[:2] for rows in trace.rows.values() for row in rows})
    trace.run.forgetful = [(node, inc) for node, inc in known if rng.random() < 0.4]
    return trace


def shift_epochs(trace: Trace, shifted: Callable[[int], int]) -> None:
    for kind in (Kind.PUBLISH, Kind.DELIVER, Kind.VIEW, Kind.JOIN, Kind.LEAVE):
        for place, row in enumerate(trace.rows[kind]):
            if (epoch := value(kind, row, "epoch")) is not None:
                change(trace, kind, place, epoch=shifted(epoch))
            if kind is Kind.VIEW:
                members = value(kind, row, "ids") or ()
                change(trace, kind, place, ids=tuple((pid, inc, shifted(seq)) for pid, inc, seq in members))


def _make_up(trace: Trace, rng: Random, kind: Kind, told: dict[str, Any]) -> None:
    """Put a row of some process between others of its own."""
    rows = [row for rows in trace.rows.values() for row in rows]
    at = rng.choice(rows)
    grp = next(iter(trace.run.groups))
    for other, of_kind in trace.rows.items():
        for place, row in enumerate(of_kind):
            if row[:2] == at[:2] and row[2] > at[2]:
                change(trace, other, place, ev=row[2] + 1)
    given = {"node": at[0], "inc": at[1], "ev": at[2] + 1, "t_clk": at[3], "t_true": at[4], "grp": grp} | told
    trace.rows[kind].append(tuple(given.get(name) for name in COLUMNS_OF[kind]))


def _at_the_end(trace: Trace, node: int, kind: Kind, told: dict[str, Any]) -> None:
    """Add a last row of a process."""
    mine = [row for rows in trace.rows.values() for row in rows if row[0] == node]
    inc = max((row[1] for row in mine), default=1)
    ev = max((row[2] for row in mine if row[1] == inc), default=-1) + 1
    times = [row[4] for rows in trace.rows.values() for row in rows if row[4] is not None]
    grp = next(iter(trace.run.groups))
    given = {"node": node, "inc": inc, "ev": ev, "t_clk": 0, "t_true": max(times, default=None), "grp": grp} | told
    trace.rows[kind].append(tuple(given.get(name) for name in COLUMNS_OF[kind]))


LIVING_WAYS: Final[tuple[Way, ...]] = (
    published_in_another_view, delivered_as_of_another_view, event_moved_to_another_view, view_of_others_altered,
    view_altered_everywhere, view_never_told, views_of_an_epoch_never_told, view_of_another_epoch, voters_altered,
    join_of_another_member, leave_never_told, leave_altered, everybody_leaves, receipt_altered, nobody_can_help,
    disk_wiped, some_close_the_group, crash_made_up, restart_made_up, crash_never_told, deliveries_of_two_members_mixed,
    run_promises_more_or_less, second_group_named, begun_again, forced_by_an_operator, some_remember_nothing,
)  # fmt: skip

NOT_OF_VIEWS: Final = ("view_altered", "epoch_altered", "live_and_nobody_founded")
"""Ways that make up rows which no living group writes."""

ALL_WAYS: Final[tuple[Way, ...]] = (*LIVING_WAYS, *(way for way in WAYS if way.__name__ not in NOT_OF_VIEWS))
