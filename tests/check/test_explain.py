"""A broken promise is told by its smallest story, and drawn so that a person can read it."""

import re
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.check.test_promises import healed, owned
from tests.check.trace_builder import TraceBuilder
from tests.check.worlds import any_world
from whence.check.diagrams.dissemination import dissemination_diagram, first_deliveries
from whence.check.diagrams.space_time import space_time_diagram
from whence.check.explain import NEVER, Story, story
from whence.check.history import History
from whence.check.judge import ORACLES, judge_history
from whence.errors import TraceError
from whence.trace.schema import Kind
from whence.types import EventId

SVG = "{http://www.w3.org/2000/svg}"


def story_of(builder: TraceBuilder, promise: str) -> Story:
    history = History(builder.trace)
    (verdict,) = judge_history(history, [promise])
    return story(history, verdict.violations[0])


def steps(told: Story) -> list[tuple[str, int, EventId | None]]:
    return [(step.kind, step.node, step.event) for step in told.steps]


def detour() -> tuple[TraceBuilder, EventId, EventId, EventId]:
    """0 publishes a; 1 delivers it and publishes b; 2 delivers b and publishes c; 3 delivers c, then a."""
    builder = TraceBuilder(range(5))
    a = builder.publish(0)
    builder.deliver(4, a)
    builder.deliver(1, a)
    b = builder.publish(1)
    builder.deliver(2, b)
    c = builder.publish(2)
    builder.deliver(3, c, a)
    return builder, a, b, c


def test_a_causal_violation_is_told_along_the_shortest_chain() -> None:
    """Publication of the cause, hand to hand to the publication of the effect, then both deliveries; no others."""
    builder, a, b, c = detour()
    assert steps(story_of(builder, "optimistic_causal")) == [
        ("publish", 0, a),
        ("deliver", 1, a),
        ("publish", 1, b),
        ("deliver", 2, b),
        ("publish", 2, c),
        ("deliver", 3, c),
        ("deliver", 3, a),
    ]


def test_a_shortcut_makes_the_chain_shorter() -> None:
    builder = TraceBuilder(range(4))
    a = builder.publish(0)
    builder.deliver(1, a)
    b = builder.publish(1)
    builder.deliver(2, b, a)
    c = builder.publish(2)
    builder.deliver(3, c, a)
    history = History(builder.trace)
    (verdict,) = judge_history(history, ["optimistic_causal"])
    told = next(story(history, violation) for violation in verdict.violations if violation.node == 3)
    assert steps(told) == [
        ("publish", 0, a),
        ("deliver", 2, a),
        ("publish", 2, c),
        ("deliver", 3, c),
        ("deliver", 3, a),
    ]


def test_a_cause_that_never_came_ends_the_story_with_its_absence() -> None:
    builder = TraceBuilder()
    a = builder.publish(0)
    builder.deliver(1, a)
    b = builder.publish(1)
    builder.deliver(2, b)
    told = story_of(builder, "causal")
    assert steps(told)[-1] == (NEVER, 2, a)
    assert [step.wrong for step in told.steps] == [False, False, False, True, True]


def test_disorder_of_one_publisher_is_told_in_four_steps() -> None:
    builder = TraceBuilder()
    a, b = builder.publish(0), builder.publish(0)
    builder.deliver(0, a, b)
    builder.deliver(1, b, a)
    told = story_of(builder, "fifo")
    assert steps(told) == [("publish", 0, a), ("publish", 0, b), ("deliver", 1, b), ("deliver", 1, a)]
    assert told.lines()[-1].endswith("process 1 delivers event 1 of process 0 (here)")


def test_a_duplicate_is_told_by_its_publication_and_both_deliveries() -> None:
    builder = TraceBuilder()
    a = builder.publish(0)
    builder.deliver(1, a, a)
    assert steps(story_of(builder, "no_duplicates")) == [("publish", 0, a), ("deliver", 1, a), ("deliver", 1, a)]


def test_opposite_orders_are_told_at_both_processes() -> None:
    builder = TraceBuilder()
    a, b = builder.publish(0), builder.publish(1)
    builder.deliver(0, a, b)
    builder.deliver(1, b, a)
    assert [node for kind, node, _ in steps(story_of(builder, "total_order")) if kind == "deliver"] == [0, 0, 1, 1]


def test_an_event_that_never_came_is_told_with_what_happened_to_its_receiver() -> None:
    builder, _ = healed()
    event = builder.publish(0)
    builder.deliver(0, event)
    builder.row(Kind.DROP, 1, m_pid=0, m_inc=1, m_seq=event.seq, reason="full")
    told = story_of(builder, "agreement")
    assert [kind for kind, _, _ in steps(told)] == ["publish", "drop", NEVER]
    assert "drops a copy (full)" in told.steps[1].sentence


def test_two_owners_of_a_ticket_are_both_in_the_story() -> None:
    builder = TraceBuilder(level="optimistic")
    owned(builder, Kind.TICKET_ACQUIRE, 0, 1)
    owned(builder, Kind.TICKET_ACQUIRE, 1, 2)
    assert [step.sentence for step in story_of(builder, "ticket_exclusivity").steps] == [
        "process 0 acquires ticket 7 with epoch 1",
        "process 1 acquires ticket 7 with epoch 2",
    ]


@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(5, 45))
def test_every_violation_of_any_execution_has_a_story_and_a_picture(seed: int, nodes: int, size: int) -> None:
    """A story shows what is wrong, in order of time; its picture is XML and stands alone."""
    history = History(any_world(seed, nodes, size))
    for verdict in judge_history(history, [promise for promise in ORACLES if promise != "determinism"]):
        for violation in Random(seed).sample(verdict.violations, min(2, len(verdict.violations))):
            told = story(history, violation)
            assert any(step.wrong for step in told.steps)
            times = [step.t for step in told.steps if step.t is not None]
            assert times == sorted(times)
            root = ElementTree.fromstring(space_time_diagram(told))
            assert root.tag == f"{SVG}svg"
            assert not re.search(r"(href|url\(|<script)", space_time_diagram(told))


def test_the_words_of_a_picture_are_escaped() -> None:
    builder = TraceBuilder(groups={"<&>": [0, 1]})
    builder.deliver(1, EventId(0, 1, 1), grp="<&>")
    root = ElementTree.fromstring(space_time_diagram(story_of(builder, "integrity")))
    assert "'<&>'" in (root.findtext(f"{SVG}title") or "")


def test_labels_of_a_picture_do_not_overlap() -> None:
    builder, *_ = detour()
    root = ElementTree.fromstring(space_time_diagram(story_of(builder, "optimistic_causal")))
    boxes = []
    for text in root.iter(f"{SVG}text"):
        size = float(text.get("font-size", 0))
        width, x, y = len(text.text or "") * size * 0.58, float(text.get("x", 0)), float(text.get("y", 0))
        left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")] * width
        boxes.append((left, left + width, y - size * 0.8, y + size * 0.2, text.text))
    for place, one in enumerate(boxes):
        for two in boxes[place + 1 :]:
            apart = one[1] <= two[0] or two[1] <= one[0] or one[3] <= two[2] or two[3] <= one[2]
            assert apart, (one[4], two[4])


def spread_out() -> tuple[TraceBuilder, EventId]:
    """0 sends to 1, 1 to 2; 3 crashes and is never reached; 4 joins."""
    builder = TraceBuilder(range(5), founders=range(4))
    event = builder.publish(0)
    builder.row(Kind.SEND, 0, peer=1)
    builder.row(Kind.RECV, 1, peer=0)
    builder.deliver(1, event)
    builder.crash(3)
    builder.row(Kind.JOIN, 4)
    builder.row(Kind.SEND, 1, peer=2)
    builder.row(Kind.RECV, 2, peer=1)
    arrived = builder.now
    builder.row(Kind.SEND, 0, peer=2)
    builder.row(Kind.RECV, 2, peer=0)
    builder.now += 1000
    builder.deliver(2, event, hold_ns=builder.now + 1000 - arrived)
    return builder, event


def test_the_way_of_an_event_is_told_by_the_messages_before_its_first_sights() -> None:
    """A held event came with the message received when it began to be held, not with the last one."""
    builder, event = spread_out()
    assert [(sight.node, sight.hop, sight.peer) for sight in first_deliveries(builder.trace, event)] == [
        (0, 0, None),
        (1, 1, 0),
        (2, 2, 1),
    ]


def test_the_picture_of_a_spread_says_whom_it_reached() -> None:
    builder, event = spread_out()
    words = " ".join(ElementTree.fromstring(dissemination_diagram(builder.trace, event)).itertext())
    assert "to 3 of 5 processes" in words
    assert "not reached: 2" in words


def test_the_spread_of_an_event_nobody_published_is_refused() -> None:
    with pytest.raises(TraceError, match="event 1 of process 0"):
        dissemination_diagram(TraceBuilder().trace, EventId(0, 1, 1))
