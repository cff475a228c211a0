"""The overlay against a dumb twin that walks the whole tree, and its laws."""

from collections import deque
from itertools import pairwise
from random import Random

import pytest

from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.pairs import pair
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.topology import OverlaySettings, overlay_of, parents_of
from whence.core.membership.suspects import Suspects
from whence.errors import SettingError


def distances(parents: list[int], start: int) -> dict[int, int]:
    """Walk the tree from a node."""
    coding: dict[int, list[int]] = {node: [] for node in range(len(parents))}
    for node, parent in enumerate(parents):
        if parent >= 0:
            coding[node].append(parent)
            coding[parent].append(node)
    found, waiting = {start: 0}, deque([start])
    while waiting:
        node = waiting.popleft()
        for other in coding[node]:
            if other not in found:
                found[other] = found[node] + 1
                waiting.append(other)
    return found


def some_tree(random: Random) -> list[int]:
    return [-1, *(random.randrange(max(0, node - 3), node) for node in range(1, random.randint(2, 14)))]


@pytest.mark.parametrize("seed", range(60))
def test_distances_paths_and_neighbourhoods_are_those_of_the_tree(seed: int) -> None:
    random = Random(seed)
    parents, f = some_tree(random), random.randint(1, 3)
    overlay = Overlay(parents, [range(len(parents))], f)
    for node in range(overlay.size):
        twin = distances(parents, node)
        assert overlay.near(node) == {other: hops for other, hops in twin.items() if hops <= 2 * f + 1}
        for other, hops in twin.items():
            assert overlay.distance(node, other) == hops
            path = overlay.path(node, other)
            assert (path[0], path[-1], len(path)) == (node, other, hops + 1)
            assert all(overlay.distance(a, b) == 1 for a, b in pairwise(path))
        near = overlay.near(node)
        twin_pairs = {pair(a, b) for a in near for b in near if 0 < overlay.distance(a, b) <= f + 1}
        assert overlay.pairs(node) == twin_pairs
        assert overlay.listed_pairs(node) == tuple(sorted(twin_pairs))


@pytest.mark.parametrize("seed", range(60))
def test_targets_are_the_nodes_in_reach_on_the_way_to_members_away_from_where_it_came(seed: int) -> None:
    """T(m, i) by its definition; and whoever is on the way to a target is one."""
    random = Random(seed)
    parents, f = some_tree(random), random.randint(1, 3)
    members = random.sample(range(len(parents)), random.randint(1, len(parents)))
    overlay = Overlay(parents, [members], f)
    for node in range(overlay.size):
        place = Place(overlay, node)
        for upstream in (-1, *overlay.neighbours(node)):
            expected = []
            for target in place.reach:
                path = overlay.path(node, target)
                beyond = [member for member in members if path[-2] in overlay.path(target, member)[1:2]]
                has_member = len(beyond) < len(members)
                if path[1] != upstream and has_member:
                    expected.append(target)
            targets = place.targets(0, upstream)
            assert list(targets) == expected
            for target in targets:
                assert all(step in targets for step in place.paths[target])


def test_the_active_links_are_the_first_on_each_way_that_are_not_suspected() -> None:
    place = Place(overlay_of(OverlaySettings(tree="line", tree_nodes=7, f=2)), 3)
    assert place.active({}) == (2, 4)
    assert place.active({2: None}) == (4, 1)
    assert place.active({2: None, 1: None, 0: None}) == (4,)
    assert sorted(place.active({4: None, 5: None})) == [2, 6]


def test_groups_may_be_all_subtrees_or_listed() -> None:
    assert overlay_of(OverlaySettings(tree_nodes=7)).table(0).members == tuple(range(7))
    subtrees = overlay_of(OverlaySettings(tree_nodes=7, groups="subtrees"))
    assert [subtrees.table(group).members for group in range(3)] == [tuple(range(7)), (1, 3, 4), (2, 5, 6)]
    listed = overlay_of(OverlaySettings(tree="0,0", groups="0 2;1"))
    assert [listed.table(group).members for group in range(2)] == [(0, 2), (1,)]


def test_trees_by_name_have_the_shapes_they_are_named_for() -> None:
    assert parents_of("line", 4) == [-1, 0, 1, 2]
    assert parents_of("star", 4) == [-1, 0, 0, 0]
    assert parents_of("binary", 7) == [-1, 0, 0, 1, 1, 2, 2]
    assert parents_of("degree:4", 6) == [-1, 0, 0, 0, 1, 1]
    assert parents_of("caterpillar", 6) == [-1, 0, 0, 2, 2, 4]
    assert parents_of("0,1,1", 0) == [-1, 0, 1, 1]


@pytest.mark.parametrize(
    "settings",
    [
        {"tree": "bush"}, {"tree": "degree"}, {"tree": "binary:3"}, {"tree": "0,5"}, {"tree": "0,x"},
        {"tree": "0,0", "tree_nodes": 9}, {"tree_nodes": 65_537}, {"groups": "0 9", "tree_nodes": 3},
        {"groups": ";", "tree_nodes": 3},
    ],
)  # fmt: skip
def test_a_topology_that_cannot_be_is_refused_by_name(settings: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=r"tree|groups"):
        overlay_of(OverlaySettings(**settings))  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="f must be"):
        OverlaySettings(f=4)


def test_suspicion_ends_when_the_peer_is_heard_and_a_mistake_when_it_is_released() -> None:
    suspects = Suspects()
    assert suspects.suspect(1)
    assert not suspects.suspect(1)
    assert suspects.heard(1)
    assert not suspects.heard(1)
    assert suspects.force(2)
    assert not suspects.heard(2)
    assert suspects.release(2)
    assert suspects.now == {}
