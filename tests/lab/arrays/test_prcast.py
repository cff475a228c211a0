"""PrCast on arrays: equal to the event loop in distribution where both can run, and what shows that this could fail."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from msgspec import structs

from whence.errors import UsageError
from whence.sim.network import Latency
from whence_lab.arrays.prcast import NEVER, Broadcast, Engine
from whence_lab.experiments.broadcast import on_arrays, on_the_loop
from whence_lab.experiments.two_samples import Samples, differences
from whence_lab.mutants.arrays import WRONG_WITH_FULL_VIEWS, WRONG_WITH_PARTIAL_VIEWS, TellsHalf

ALPHA = 0.001
"""How often equal distributions may be taken for different ones, in all measures together."""
GROUPS = 1000
"""On arrays: so many that only the runs on the loop limit what can be seen."""
SEEDS = 150

LINKS = Latency(low_ns=10_000_000, high_ns=40_000_000)
"""Slow: much falls into one slice of time, so that the order within it matters."""
FULL = Broadcast(nodes=20, rounds=3, fanout=4, warm_up=2, latency=LINKS)
"""So small that even whom a member draws twice shows."""
PARTIAL = Broadcast(nodes=24, rounds=4, fanout=2, view="partial", view_size=4, warm_up=17, latency=LINKS)
"""Up long enough for every member to have asked a lost contact, which it does in its fifteenth round."""
SETTLED = structs.replace(PARTIAL, warm_up=12)
"""With a few rounds behind it in which views change by announcements alone."""
FOUNDED = structs.replace(PARTIAL, warm_up=3)
"""With what founders tell each other behind it."""
KNOWING = Broadcast(nodes=40, rounds=3, view="partial", view_size=24, warm_up=3, latency=LINKS)
"""With views that are larger than what rumours have room for."""
LOSSY = Broadcast(
    nodes=24, rounds=5, fanout=3, view="partial", view_size=6, warm_up=12, latency=LINKS, loss=0.4
)  # fmt: skip


@cache
def on_loop(broadcast: Broadcast, seeds: int) -> Samples:
    """Return the runs on the loop, once for all tests."""
    return on_the_loop(broadcast, range(seeds))


def with_groups(broadcast: Broadcast) -> Broadcast:
    """Return the same broadcast in many groups at once."""
    return structs.replace(broadcast, groups=GROUPS)


@pytest.mark.parametrize("broadcast", [FULL, PARTIAL, LOSSY, KNOWING], ids=["full", "partial", "lossy", "knowing"])
def test_arrays_and_the_event_loop_are_equal_in_distribution(broadcast: Broadcast, long_mode: bool) -> None:
    looped = on_loop(broadcast, 10 * SEEDS if long_mode else SEEDS)
    assert differences(on_arrays(with_groups(broadcast), 7), looped, ALPHA) == []


@pytest.mark.parametrize("wrong", WRONG_WITH_FULL_VIEWS, ids=lambda wrong: wrong.__name__)
def test_a_wrong_engine_with_full_views_is_told_from_the_loop(wrong: Callable[[Broadcast, int], Engine]) -> None:
    assert differences(on_arrays(with_groups(FULL), 7, wrong), on_loop(FULL, SEEDS), ALPHA)


@pytest.mark.parametrize("wrong", WRONG_WITH_PARTIAL_VIEWS, ids=lambda wrong: wrong.__name__)
def test_a_wrong_engine_with_partial_views_is_told_from_the_loop(wrong: Callable[[Broadcast, int], Engine]) -> None:
    broadcast = FOUNDED if wrong is TellsHalf else SETTLED
    assert differences(on_arrays(with_groups(broadcast), 7, wrong), on_loop(broadcast, SEEDS), ALPHA)


def test_samples_of_one_distribution_differ_no_more_often_than_alpha_says() -> None:
    rng = np.random.default_rng(1)
    pairs = [({"x": rng.poisson(9, 60)}, {"x": rng.poisson(9, 400)}) for _ in range(400)]
    assert sum(bool(differences(one, other, 0.05)) for one, other in pairs) <= 0.08 * 400
    assert differences({"x": rng.poisson(9, 60)}, {"x": rng.poisson(11, 400)}, ALPHA)
    assert differences({"x": np.ones(60)}, {"x": np.zeros(60)}, ALPHA)
    with pytest.raises(UsageError, match="at least 50"):
        differences({"x": np.ones(9)}, {"x": np.ones(60)}, ALPHA)


def test_the_same_seed_gives_the_same_spread_and_another_one_another() -> None:
    runs = [Engine(PARTIAL, seed).finish() for seed in (1, 1, 2)]
    assert np.array_equal(runs[0].delays_ns, runs[1].delays_ns)
    assert not np.array_equal(runs[0].delays_ns, runs[2].delays_ns)


def test_a_bundle_stays_in_its_group_and_its_publisher_has_it_at_once() -> None:
    spread = Engine(Broadcast(nodes=30, groups=50, rounds=3), 1).finish()
    assert (spread.delays_ns == 0).sum(axis=1).tolist() == [1] * 50
    assert (spread.copies <= 30 * 3 * 4).all()
    assert spread.reached().max() <= 30


def test_views_never_hold_their_owner_nor_anybody_twice() -> None:
    engine = Engine(Broadcast(nodes=30, groups=20, view="partial", view_size=8), 1)
    for rounds in (1, 5, 16, 31):
        engine.run_until(rounds * 100_000_000)
        assert engine.partial is not None
        peers = np.sort(engine.partial.peers, axis=1)
        assert (np.diff(peers, axis=1) > 0).all()
        assert (peers != np.arange(600)[:, None]).all()
        assert (peers // 30 == np.arange(600)[:, None] // 30).all()


def test_with_nothing_lost_and_rounds_enough_everybody_has_it() -> None:
    spread = Engine(Broadcast(nodes=500, rounds=15), 1).finish()
    assert (spread.delays_ns != NEVER).all()


def test_what_the_engine_cannot_run_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="uniform or constant"):
        Engine(Broadcast(nodes=30, latency=Latency(shape="exponential")), 1)
    with pytest.raises(UsageError, match="view=full"):
        Engine(Broadcast(nodes=20, view="partial"), 1)
