"""The causal past of a node: its own column is a fact, the rest is the highest number known."""

from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.pairs import PairNumbers, pair
from whence.core.levels.causal.tree.past import CausalPast
from whence.core.levels.causal.tree.place import Place

LINE = [-1, 0, 1, 2, 3, 4, 5]


def past_of(node: int) -> CausalPast:
    return CausalPast(Place(Overlay(LINE, [range(7)], 1), node))


def copy_from(last: int, ids: dict[int, dict[int, int]], deps: PairNumbers) -> Header:
    return Header(0, 1, last, 0, ids, {}, deps)


def test_the_column_grows_only_without_a_gap() -> None:
    """merge E6: a number beyond a gap waits until the gap is filled."""
    past = past_of(1)
    past.mark(0, 2)
    past.mark(0, 3)
    assert (past.reached(0), past.has(0, 3), past.has(0, 1)) == (0, True, False)
    past.mark(0, 1)
    assert (past.reached(0), past.ahead) == (3, {})


def test_only_a_node_itself_raises_its_column() -> None:
    """merge E10: what others believe of this node is not merged; what they know of each other is, if both are near."""
    past = past_of(1)
    grown = past.merge({pair(0, 1): 5, pair(2, 3): 4, pair(5, 6): 9})
    assert grown == {pair(2, 3): 4}
    assert past.reached(0) == 0
    assert past.merge({pair(2, 3): 3}) == {}


def test_a_copy_waits_for_all_that_its_dependencies_number_for_this_node_except_its_own_numbers() -> None:
    past = past_of(1)
    past.mark(0, 1)
    deps = {pair(0, 1): 1, pair(2, 1): 2, pair(2, 3): 7}
    assert past.missing(copy_from(0, {0: {1: 2}}, deps), deps) == [(2, 2)]
    assert past.missing(copy_from(2, {2: {1: 2}}, deps), deps) == [(2, 1)]
    past.mark(2, 1)
    assert past.missing(copy_from(2, {2: {1: 2}}, deps), deps) == []


def test_changes_since_a_count_are_the_pairs_that_changed_and_all_pairs_if_it_was_dropped() -> None:
    past = past_of(1)
    past.grow({pair(2, 3): 1})
    past.grow({pair(0, 2): 1})
    assert past.changes(1, 2) == [pair(0, 2)]
    past.changed, past.changed_before = [], 2
    assert past.changes(1, 2) == [pair(2, 3), pair(0, 2)]
