"""The acknowledgements that a node owes its forwarders: when they go out, and what is in them."""

from whence.core.levels.causal.tree.acknowledgements import Acknowledgements, acknowledged_singly
from whence.core.levels.causal.tree.items import Ack, Probe
from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import ALL, NOBODY, State
from whence.core.ready import Ready, Send
from whence.types import Process, packed


class Owing:
    """Node 1 of a line of four, and what it sends."""

    def __init__(self, settings: TreeSettings) -> None:
        self.state = State(Place(Overlay([-1, 0, 1, 2], [range(4)], 1), 1), retain=settings.retain)
        self.woken: list[int] = []
        self.acks = Acknowledgements(self.state, settings, self.woken.append)

    def tick(self, now: int) -> list[Send]:
        ready = Ready()
        self.acks.tick(now, ready)
        return ready.send


def test_acknowledgements_to_one_forwarder_go_out_as_one() -> None:
    owing = Owing(TreeSettings(ack_ns=40))
    owing.state.mark(0, 1)
    owing.acks.owe([0], 0)
    owing.state.mark(0, 2)
    owing.acks.owe([0, 99], 10)
    assert owing.woken == [40] == [owing.acks.due_at]
    assert owing.tick(39) == []
    assert owing.tick(40) == [Send((0,), Ack(2))]
    assert owing.tick(80) == []


def test_a_quarter_of_a_window_is_acknowledged_without_waiting() -> None:
    owing = Owing(TreeSettings(ack_ns=1000, window=8))
    owing.acks.owe([0], 0)
    assert owing.acks.due_at == 1000
    owing.acks.owe([2], 5)
    assert owing.acks.due_at == 5
    assert [send.to for send in owing.tick(5)] == [(0,), (2,)]


def test_numbers_beyond_a_gap_are_listed_and_read_back() -> None:
    owing = Owing(TreeSettings())
    for number in (1, 3, 300):
        owing.state.mark(0, number)
    ack = owing.acks.ack_of(0)
    assert ack.upto == 1
    assert list(acknowledged_singly(ack.rest)) == [(3, ALL), (300, ALL)]


def test_malformed_bytes_end_the_list_of_numbers() -> None:
    assert list(acknowledged_singly(b"\x03\x01\x02\x05\xff")) == [(3, frozenset((2,)))]


def test_an_acknowledgement_carries_the_floor_and_a_floor_that_does_not_come_is_asked_for() -> None:
    owing = Owing(TreeSettings(retain=True, ack_ns=40, retry_ns_max=1600))
    state = owing.state
    first = state.admit(packed(Process(0, 1), 1, [b"x"]), 0, 0, 1, *state.patterns.flat({0: {1: 1, 2: 1}}), {})
    owing.acks.owe([0], 0)
    assert owing.tick(40) == [Send((0,), Ack(1))]
    for target in first.targets:
        state.acknowledge(target, 1)
    owing.acks.plan(50)
    assert owing.tick(90) == [Send((target,), Ack(0, floor=1)) for target in first.targets]
    assert owing.tick(1600) == [Send((0,), Probe(0))]
    assert state.take_floor(0, 1) == [first]
    assert state.take_floor(0, 1) == []


def test_floors_are_those_of_the_lowest_message_that_is_not_done() -> None:
    state = Owing(TreeSettings(retain=True)).state
    for first in (1, 2):
        state.admit(packed(Process(1, 1), first, [b"x"]), 0, NOBODY, 0, state.patterns.none, (), {})
    state.acknowledge(2, 2)
    assert state.own_floors() == dict.fromkeys(state.place.reach, 0)
