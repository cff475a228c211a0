"""Worst cases of headers: the thesis's values follow from the formulas, and runs show what formulas say."""

import pytest

from whence.core.levels.causal.tree.topology import OverlaySettings, overlay_of, zipf_sizes
from whence.errors import SettingError
from whence_lab.experiments.tree_metadata import Talk, ball, barriers_worst, cbcast_worst, locamu_worst

pytestmark = pytest.mark.no_cover


def test_the_thesis_states_540_bytes_and_our_formula_gives_them() -> None:
    assert [locamu_worst(3, f).header for f in (1, 2, 3, 4, 5)] == [540, 2_604, 10_620, 41_292, 159_516]
    assert [locamu_worst(degree, 1).header for degree in (4, 5, 6, 8)] == [1_408, 3_100, 6_048, 17_920]
    assert (ball(3, 2), ball(3, 3)) == (10, 22)


def test_rivals_need_an_entry_for_each_member_and_for_each_pair_of_nodes() -> None:
    assert cbcast_worst(1_024, 3).header == 4 * 1_024
    assert barriers_worst(1_024).header == 8 * 2**20


def test_groups_by_zipf_have_the_printed_sizes_and_different_members_all_over_the_tree() -> None:
    assert sum(zipf_sizes(65_536, 1_500)) == 259_019
    overlay = overlay_of(OverlaySettings(tree_nodes=127, groups="zipf:1500"))
    sizes = [len(overlay.table(group).members) for group in range(overlay.group_count)]
    assert sizes == zipf_sizes(127, 1_500)
    assert sizes[:4] == [127, 53, 32, 22]
    assert any(member > 63 for member in overlay.table(5).members)
    assert any(member < 63 for member in overlay.table(5).members)
    with pytest.raises(SettingError, match="zipf"):
        overlay_of(OverlaySettings(tree_nodes=7, groups="zipf:0"))


def test_when_all_have_spoken_a_vector_clock_has_an_entry_for_each_member_of_each_group() -> None:
    talk = Talk(scheme="cbcast", nodes=15, groups=1_500).run(1)
    reached = sum(size for size in zipf_sizes(15, 1_500) if size > 1)
    assert talk.header <= 4 * sum(zipf_sizes(15, 1_500))
    assert talk.header >= 4 * (reached - 2)


def test_what_a_localized_header_needs_does_not_grow_with_the_tree_and_a_vector_clock_does() -> None:
    small, large = (
        {scheme: Talk(scheme=scheme, nodes=nodes, groups=8).run(1) for scheme in ("causal, thesis coding", "cbcast")}
        for nodes in (63, 127)
    )
    assert large["causal, thesis coding"].header <= 1.1 * small["causal, thesis coding"].header
    assert large["cbcast"].header > 1.8 * small["cbcast"].header


def test_protocols_that_do_not_know_f_need_the_same_for_every_f_with_the_same_seed() -> None:
    for scheme in ("cbcast", "barriers"):
        assert Talk(scheme=scheme, nodes=15, groups=8, f=1).run(3) == Talk(scheme=scheme, nodes=15, groups=8, f=3).run(
            3
        )
