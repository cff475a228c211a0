"""Total order is judged in memory that grows with processes, not with pairs of them."""

import pyarrow as pa

from whence.pipeline.promises.total import _judged


def test_of_two_halves_that_disagree_each_process_of_the_later_half_is_told_once() -> None:
    half, same = 3000, [1] * 12_000
    orders = [(1, 2)] * half + [(2, 1)] * half
    nodes = [node for node in range(2 * half) for _ in orders[node]]
    events = [event for order in orders for event in order]
    columns = {
        "run_id": ["run"] * len(same), "grp": ["all"] * len(same), "node": nodes, "life": same, "inc": same,
        "ev": [0, 1] * (2 * half), "event": events, "m_pid": same, "m_inc": same, "m_seq": events,
    }  # fmt: skip
    group = pa.table(columns)
    found = _judged(group).to_pylist()
    assert [row["node"] for row in found] == list(range(half, 2 * half))
    assert {row["sentence"].split(" and ")[1].split(" delivered")[0] for row in found} == {"process 0"}
