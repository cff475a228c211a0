"""LoCaMu's bytes: the thesis's coding gives the thesis's numbers, ours a small constant, whatever the system's size."""

import pytest

from whence_lab.experiments.headers import measure, scenario
from whence_lab.experiments.vector_clocks import crossings

pytestmark = pytest.mark.no_cover


def steady(level: str, nodes: int, publishers: int, short: int, long: int, **settings: object) -> float:
    """Return the mean bytes of a copy after the first messages: links have been begun then."""
    few = measure(scenario(level, nodes, publishers, short, **settings))  # type: ignore[arg-type]
    many = measure(scenario(level, nodes, publishers, long, **settings))  # type: ignore[arg-type]
    assert few.records_left == many.records_left == 0
    return (many.mean * many.copies - few.mean * few.copies) / (many.copies - few.copies)


def test_the_thesis_coding_costs_198_bytes_on_511_nodes_with_one_publisher() -> None:
    """Section 11.3: 104, 176, 232 and 168 bytes on links of the root, below it, inside and to leaves."""
    expected = 2 * 104 + 4 * 176 + 248 * 232 + 256 * 168
    assert expected / 510 == pytest.approx(198.9, abs=0.1)
    assert steady("causal", 511, 1, 2, 4, coding="thesis", replay=False) == pytest.approx(expected / 510, abs=0.01)


@pytest.mark.parametrize("nodes", [63, 255])
def test_predicted_heads_cost_some_six_bytes_independent_of_size(nodes: int) -> None:
    """Flags, shape and a name of three to seven bytes."""
    bytes_mean = steady("causal", nodes, 1, 2, 6, ordered_links=True)
    assert bytes_mean == pytest.approx(5.5, abs=2)


def test_predicted_heads_stay_small_with_many_publishers() -> None:
    assert measure(scenario("causal", 63, 8, 12, ordered_links=True)).mean < 15


def test_a_vector_clock_costs_twelve_bytes_with_one_publisher_and_grows_with_them() -> None:
    """CBCAST: 4 + 8 bytes for one changed entry; 8 publishers at random some 39."""
    assert steady("cbcast", 63, 1, 2, 4) == pytest.approx(12, abs=0.1)
    assert 25 < steady("cbcast", 63, 8, 2, 12) < 60


def test_causal_barriers_name_every_destination_and_one_predecessor_for_each() -> None:
    """8 bytes per target and 8 per entry: nearly 16 per node with one publisher."""
    assert steady("barriers", 63, 1, 2, 4) == pytest.approx(8 * 63 + 8 * 62, abs=1)


def test_a_rival_is_counted_by_its_papers_formula_and_as_it_is_written() -> None:
    """Varints and bit sets make what is written smaller than the formulas; a vector clock's rows are as the formula."""
    barriers, near, clock = (measure(scenario(level, 63, 1, 3)) for level in ("barriers", "neighbourhood", "cbcast"))
    assert barriers.written < barriers.mean / 20
    assert near.written < near.mean / 2
    assert clock.mean < clock.written < clock.mean + 10


def test_the_mean_of_a_vector_clock_from_the_start_is_below_the_steady_one() -> None:
    """Publishers know little of each other at first: a mean over the first rounds says less than later ones do."""
    short, long = measure(scenario("cbcast", 63, 16, 3)).mean, measure(scenario("cbcast", 63, 16, 12)).mean
    assert short < long < steady("cbcast", 63, 16, 6, 12)


def test_counting_without_members_gives_the_simulated_bytes_of_a_vector_clock() -> None:
    """From distances and times of publication alone; so 444 and 1,690 bytes are no slip of the members' code."""
    for publishers in (1, 16):
        simulated = measure(scenario("cbcast", 63, publishers, 4)).mean
        assert crossings(63, publishers, 4).mean_bytes() == pytest.approx(simulated, abs=1e-9)


def test_the_neighbourhood_names_three_forwarders_at_most() -> None:
    result = measure(scenario("neighbourhood", 63, 1, 3))
    assert result.most == 24
