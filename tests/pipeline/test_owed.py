"""How many members an event is owed to is looked up by its time, and is what counting the members one by one gives."""

from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from whence.pipeline.columns import AFTER_ALL, BEFORE_ALL, EVENT
from whence.pipeline.local.session import local_session
from whence.pipeline.owed import owed_times

EVENTS = "run_id string, grp string, event bigint, dests array<int>, sent_at bigint"
STAYS = "run_id string, grp string, node int, since bigint, until bigint"

Event = tuple[str, str, int, list[int] | None, int | None]
Stay = tuple[str, str, int, int, int]


def stays_of(rng: Random, nodes: int) -> list[Stay]:
    """Founders that stay, and members that come and go, some at moments that nobody knows."""
    found: list[Stay] = []
    for grp in ("a", "b"):
        for node in range(nodes):
            turns = [BEFORE_ALL, *sorted(rng.sample(range(1000), rng.choice((0, 1, 2, 3)))), AFTER_ALL]
            pairs = list(zip(turns[::2], turns[1::2], strict=False))
            found += [("run", grp, node, since, until) for since, until in pairs]
            if rng.random() < 0.2:
                found[-1] = (*found[-1][:3], *rng.choice([(AFTER_ALL, AFTER_ALL), (5, BEFORE_ALL)]))
    return found


def events_of(rng: Random, nodes: int, count: int) -> list[Event]:
    """Events to all and to some, mostly within a short time, some without a time, some in a group without members."""
    found: list[Event] = []
    for event in range(count):
        at = rng.choice([None, rng.randrange(1000), rng.randrange(400, 410)])
        dests = None if rng.random() < 0.6 else [rng.randrange(nodes) for _ in range(3)]
        found.append(("run", rng.choice("aabc"), event, dests, at))
    return found


def covers(stay: Stay, at: int | None) -> bool:
    *_, since, until = stay
    return (since, until) == (BEFORE_ALL, AFTER_ALL) if at is None else since <= at < until


def counted(events: list[Event], stays: list[Stay]) -> dict[int, int]:
    """Return by event how many stays it is owed to, one by one."""
    found = {
        event: sum(
            stay[1] == grp and covers(stay, at) and (dests is None or stay[2] in dests) for stay in stays
        )
        for _, grp, event, dests, at in events
    }  # fmt: skip
    return {event: times for event, times in found.items() if times}


def looked_up(session: Any, events: list[Event], stays: list[Stay]) -> dict[int, int]:
    rows = owed_times(session.createDataFrame(events, EVENTS), session.createDataFrame(stays, STAYS)).collect()
    assert len({row[EVENT] for row in rows}) == len(rows)
    return {row[EVENT]: row["times"] for row in rows}


@pytest.mark.parametrize("seed", range(6))
def test_an_event_is_owed_to_as_many_as_were_there(seed: int) -> None:
    rng = Random(seed)
    stays, events = stays_of(rng, 1 + 6 * seed), events_of(rng, 1 + 6 * seed, 80)
    with local_session() as local:
        assert looked_up(local, events, stays) == counted(events, stays)


def test_spark_looks_up_the_same_and_sorts_no_events(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: no window meets the events of a group; only turns of members are sorted."""
    rng = Random(9)
    stays, events = stays_of(rng, 12), events_of(rng, 12, 80)
    assert looked_up(spark, events, stays) == counted(events, stays)
    owed_times(spark.createDataFrame(events, EVENTS), spark.createDataFrame(stays, STAYS)).explain(mode="formatted")
    plan = capsys.readouterr().out
    windows = [part for part in plan.split("\n\n") if "] Window\n" in part or ") Window" in part.splitlines()[0]]
    assert windows
    assert not any("sent_at" in part or "event" in part for part in windows)
