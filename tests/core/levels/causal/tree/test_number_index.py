"""Identity by numbers, as in the thesis: copies that share a number are of one message, on safe paths."""

from whence.core.levels.causal.tree.number_index import NumberIndex
from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.state import State
from whence.types import Process, packed

PLACE = Place(Overlay([-1, 0, 1, 2, 3], [range(5)], 1), 3)


def test_copies_that_share_a_number_are_of_one_message_until_it_is_forgotten() -> None:
    state = State(PLACE, paper=True)
    index = state.index
    assert index is not None
    vectors = {1: {2: 4, 3: 7}}
    record = state.admit(packed(Process(1, 1), 1, [b"x"]), 0, 1, 2, *state.patterns.flat(vectors), {})
    assert index.find({2: {3: 7}}) is None
    assert index.find({}, {1: {3: 7}}) is record
    state.add_ids(record, {2: {3: 9}})
    assert index.find({2: {3: 9}}) is record
    state.forget(record)
    assert index.find({1: {3: 7}}, {2: {3: 9}}) is None


def test_a_path_is_safe_if_at_most_f_of_the_last_nodes_before_the_reader_are_unnamed() -> None:
    """ "Any path of 2f + 1 nodes is considered safe if there are at most f faulty nodes" (E15)."""
    index = NumberIndex(PLACE)
    assert index.is_safe({0: {}, 1: {}, 2: {}}, 2, 2, 3)
    assert index.is_safe({0: {}, 1: {}}, 1, 1, 3)
    assert not index.is_safe({0: {}}, 0, 0, 3)
    assert index.is_safe({2: {}}, 0, 2, 3)
