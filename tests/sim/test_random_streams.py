"""Random streams: one seed, one stream per concern, the same on every machine for ever."""

from hypothesis import given
from hypothesis import strategies as st

from whence.sim.random_streams import RandomStreams

seeds = st.integers(-(2**70), 2**70)
LOCKED = [0.1893571671431139, 0.1893571671431139, 0.14297587805883882]
LOCKED_BITS = 0xC1249E433079B61A

concerns = st.tuples(st.sampled_from(("latency", "network", "member")), st.integers(0, 99), st.integers(1, 99))


def test_the_values_of_a_stream_never_change() -> None:
    """Locked: another value here means that no seed anybody wrote down shows its run any more."""
    draws = [RandomStreams(7).of("network").random() for _ in range(2)] + [RandomStreams(7).of("member", 3, 1).random()]
    assert draws == LOCKED
    assert RandomStreams(7).of("network").getrandbits(64) == LOCKED_BITS


@given(seeds, concerns)
def test_the_same_name_gives_the_same_stream_however_much_was_drawn_elsewhere(
    seed: int, concern: tuple[str, int, int]
) -> None:
    streams = RandomStreams(seed)
    first = streams.of(*concern)
    expected = [first.random() for _ in range(5)]
    streams.of("another").random()
    again = streams.of(*concern)
    assert [again.random() for _ in range(5)] == expected


@given(seeds, st.lists(concerns, min_size=2, max_size=20, unique=True))
def test_concerns_do_not_share_draws(seed: int, names: list[tuple[str, int, int]]) -> None:
    firsts = [RandomStreams(seed).of(*name).getrandbits(64) for name in names]
    assert len(dict.fromkeys(firsts)) == len(names)


@given(st.lists(seeds, min_size=2, max_size=20, unique=True))
def test_seeds_do_not_share_draws(several: list[int]) -> None:
    firsts = [RandomStreams(seed).of("network").getrandbits(64) for seed in several]
    assert len(dict.fromkeys(firsts)) == len(several)


def test_streams_of_neighbouring_names_are_not_correlated() -> None:
    """Means and products of 20,000 pairs stay within five standard errors of those of independent draws."""
    pairs = [
        (RandomStreams(seed).of("clock", 1).random(), RandomStreams(seed).of("clock", 2).random())
        for seed in range(20_000)
    ]
    mean = sum(x for x, _ in pairs) / len(pairs)
    covariance = sum((x - 0.5) * (y - 0.5) for x, y in pairs) / len(pairs)
    assert abs(mean - 0.5) < 5 * (1 / 12 / len(pairs)) ** 0.5
    assert abs(covariance) < 5 * (1 / 12) / len(pairs) ** 0.5
