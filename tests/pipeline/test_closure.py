"""Causal orders in memory: what they cost, whatever went wrong, is linear in the deliveries."""

from cProfile import Profile
from pstats import Stats
from typing import Any

import pyarrow as pa

from whence.pipeline.promises import causal

PROCESSES = 4

Step = tuple[int, int, bool]


def table(steps: list[Step], promises: list[str]) -> pa.Table:
    """Steps (node, event, is it published there) in each process's order, as Spark hands them over."""
    numbers: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    for node, event, is_publish in steps:
        numbers[node] = numbers.get(node, -1) + 1
        names = {"grp": "g", "m_pid": node, "m_inc": 1, "m_seq": event} if is_publish else {}
        rows.append(
            {"run_id": "r", "node": node, "life": 1, "inc": 1, "ev": numbers[node], "event": event, "t_true": event,
             "is_publish": is_publish, "promises": promises, **names}
        )  # fmt: skip
    shape = pa.schema(
        [("run_id", pa.string()), ("node", pa.int32()), ("life", pa.int32()), ("inc", pa.int32()), ("ev", pa.int64()),
         ("event", pa.int64()), ("is_publish", pa.bool_()), ("grp", pa.string()), ("m_pid", pa.int32()),
         ("m_inc", pa.int32()), ("m_seq", pa.int64()), ("dests", pa.list_(pa.int32())), ("t_true", pa.int64()),
         ("epoch", pa.int64()), ("promises", pa.list_(pa.string()))]
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=shape)


STAYS = pa.schema(
    [("run_id", pa.string()), ("node", pa.int32()), ("life", pa.int32()), ("grp", pa.string()), ("since", pa.int64()),
     ("until", pa.int64())]
).empty_table()  # fmt: skip


def crosswise(events: int) -> list[Step]:
    """One process publishes a chain, and the others deliver every two of it the wrong way round: 1, 0, 3, 2, …"""
    chain = [(0, event, True) for event in range(events)]
    return chain + [(node, event ^ 1, False) for node in range(1, PROCESSES) for event in range(events)]


def calls(events: int) -> tuple[int, int]:
    """Return how many functions were called to judge, and how many deliveries were found wrong."""
    steps = table(crosswise(events), ["optimistic_causal"])
    profile = Profile()
    found = profile.runcall(causal._judged, steps, STAYS)
    return Stats(profile).total_calls, found.num_rows  # type: ignore[attr-defined]


def test_a_run_in_which_every_second_event_came_too_late_costs_what_its_deliveries_do() -> None:
    """Looking for the first effect of every late event among all deliveries would cost their square."""
    (few, found), (many, found_again) = calls(500), calls(2_000)
    assert (found, found_again) == ((PROCESSES - 1) * 250, (PROCESSES - 1) * 1_000)
    assert many < 5 * few


def test_the_first_effect_that_overtook_an_event_is_named() -> None:
    """Process 1 delivers 3, then 1, then 2 of a chain: 3 overtook both."""
    chain = [(0, event, True) for event in range(4)]
    found = causal._judged(
        table([*chain, *[(1, event, False) for event in (3, 1, 2)]], ["optimistic_causal"]), STAYS
    ).to_pylist()
    assert [[event["seq"] for event in each["events"]] for each in found] == [[1, 3], [2, 3]]
    assert [each["evs"] for each in found] == [[0, 1], [0, 2]]


def test_events_that_rest_on_each_other_are_impossible_and_the_rest_is_closed() -> None:
    """0 delivers event 1 and publishes 0; 1 delivers 0 and publishes 1: neither can have been first."""
    steps = [(0, 1, False), (0, 0, True), (1, 0, False), (1, 1, True), (1, 2, True)]
    run = causal._Run(table(steps, []), STAYS)
    assert run.closure.impossible == [((0, 1), 1), ((1, 1), 0)]
    assert run.closure.past == [[0, 0], [0, 0], [0, 1]]
