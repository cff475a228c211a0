"""Loads on trees: wires carry what bandwidth allows, headers count as papers say, publishers keep to their limits."""

import pytest

from whence.sim.scenario import MS
from whence_lab.experiments import headers
from whence_lab.experiments.tree_load import Carried, Load, Patience, Phase, carried

pytestmark = pytest.mark.no_cover

SHORT = Patience(Phase(20 * MS, each=5, rounds=3), Phase(30 * MS, each=40, rounds=1))
LOCAMU, OURS, NEAR = "causal, thesis coding", "causal", "neighbourhood"


def loaded(scheme: str, nodes: int = 31, seed: int = 1, **more: float) -> Carried:
    """Return what a load carries within a short time."""
    return carried(Load(scheme=scheme, nodes=nodes, **more), SHORT, seed)  # type: ignore[arg-type]


def test_a_publisher_fills_the_wire_of_the_busiest_node_and_no_more() -> None:
    """Inner nodes send two copies of 232 bytes of header and 32 of payload (LoCaMu section 11.3)."""
    seen = loaded(LOCAMU, bandwidth_bps=5_000_000)
    assert seen.everywhere == pytest.approx(5_000_000 / 8 / (2 * 264), rel=0.05)


def test_twice_the_bandwidth_carries_twice_the_messages_unless_each_waits_for_the_last() -> None:
    locamu, near = (
        [loaded(scheme, bandwidth_bps=bandwidth).everywhere for bandwidth in (4_000_000, 8_000_000)]
        for scheme in (LOCAMU, NEAR)
    )
    assert locamu[1] == pytest.approx(2 * locamu[0], rel=0.05)
    assert near[1] == pytest.approx(near[0], rel=0.1)


def test_one_message_in_transit_takes_a_round_trip_to_the_farthest_member() -> None:
    assert loaded(NEAR, nodes=15).everywhere == pytest.approx(1000 / (2 * 3), rel=0.1)


def test_headers_count_as_in_a_simulation_with_a_network() -> None:
    """The ports differ, the members do not: with one publisher nothing depends on time."""
    for scheme in (LOCAMU, "barriers", NEAR):
        level, settings = headers.SCHEMES[scheme]
        few, many = (headers.measure(headers.scenario(level, 31, 1, count, **settings)) for count in (8, 12))
        steady = (many.mean * many.copies - few.mean * few.copies) / (many.copies - few.copies)
        seen = loaded(scheme, rate=100, bandwidth_bps=1_000_000_000)
        assert seen.metadata_bytes == pytest.approx(steady, rel=0.01)


@pytest.mark.parametrize("groups", ["all", "subtrees"])
def test_publishers_keep_to_their_rate_where_wires_are_wide(groups: str) -> None:
    for scheme in (OURS, "cbcast"):
        seen = loaded(scheme, publishers=8, rate=100, groups=groups)  # type: ignore[arg-type]
        assert seen.published == pytest.approx(800, rel=0.1)


def test_where_wires_are_narrow_every_member_gets_nearly_as_much_as_all_on_average() -> None:
    """What cannot be carried is not published: no member starves while others are handed more."""
    seen = loaded(LOCAMU, publishers=31, bandwidth_bps=2_000_000)
    assert seen.everywhere > 0.5 * seen.aggregated / 30


def test_the_same_seed_gives_the_same_numbers_and_another_one_others() -> None:
    first, again, other = (loaded("cbcast", publishers=8, rate=100, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_publishers_with_a_rate_keep_to_it_where_wires_are_full_and_what_they_carry_is_all_that_arrives() -> None:
    """No other limit is named where the thesis limits publishers to a rate (section 5.5)."""
    seen = loaded(LOCAMU, publishers=31, rate=100, bandwidth_bps=500_000)
    assert seen.published == pytest.approx(3_100, rel=0.1)
    assert seen.aggregated < 0.5 * 30 * seen.published
    assert seen.busiest == pytest.approx(1.0, abs=0.01)


def test_a_wire_is_busy_for_as_long_as_its_copies_take() -> None:
    """A publisher at the root sends every message of 104 + 32 bytes twice (LoCaMu section 11.3)."""
    seen = loaded(LOCAMU, rate=100, bandwidth_bps=1_000_000)
    assert seen.root_busy == pytest.approx(100 * 2 * (104 + 32) * 8 / 1_000_000, rel=0.05)
    assert seen.busiest > seen.root_busy
