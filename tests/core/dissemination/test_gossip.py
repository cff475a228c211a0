"""PrCast: every holder passes a bundle on in each of its remaining rounds (gossip 2.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.parts import ME, ROUND_NS, ball, balls_in, gossip_of, one, round_of, view_of
from whence import limits
from whence.core.membership.items import Subscribe
from whence.core.ready import Ready
from whence.types import Process, packed
from whence.wire.codec import decode, encode

YOU = Process(2, 1)
PEERS = range(2, 12)


def ages_in(ready: Ready) -> dict[int, int]:
    """Return the ages of what a round passed on, by publisher."""
    return {bundle.pid: age for each in balls_in(ready) for age, bundle in zip(each.ages, each.bundles, strict=True)}


@given(st.integers(1, 9), st.integers(0, 255))
def test_a_bundle_is_passed_on_in_the_rounds_it_has_left_and_no_more(rounds: int, age: int) -> None:
    """ "if a < term put (ev, a) in buf"; "every event in buf: age += 1; remove it when age >= term"."""
    gossip = gossip_of(view_of(PEERS), rounds=rounds, idle_rounds=255)
    assert gossip.receive(YOU, ball((age, one(50))), 0, Ready()) == [one(50)], "the last hop still delivers"
    sent = [ages_in(round_of(gossip)).get(50) for _ in range(rounds + 3)]
    left = max(0, rounds - age)
    assert sent[:left] == list(range(age + 1, age + 1 + left))
    assert sent[left:] == [None] * (rounds + 3 - left)
    assert [gauge.value for gauge in gossip.gauges() if gauge.name == "gossip_buffer"] == [0]


def test_ones_own_bundle_starts_with_age_zero() -> None:
    gossip, ready = gossip_of(view_of(PEERS)), Ready()
    gossip.publish(one(ME.pid), 0, ready)
    assert ready.send == [], "it goes out with the next round"
    assert ages_in(round_of(gossip)) == {ME.pid: 1}


@given(st.integers(0, 5), st.integers(0, 5))
def test_a_duplicate_keeps_the_age_it_has_here(first: int, second: int) -> None:
    """ "if id in hist: ignore (keep the local age)"; taking the larger age would shorten lifetimes."""
    gossip = gossip_of(view_of(PEERS), rounds=6)
    assert len(gossip.receive(YOU, ball((first, one(50))), 0, Ready())) == 1
    assert gossip.receive(YOU, ball((second, one(50))), 0, Ready()) == []
    assert ages_in(round_of(gossip)) == {50: first + 1}


@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.integers(1, 6))
def test_a_message_carries_the_youngest(ages: list[int], gossip_bundles: int) -> None:
    """ "choose the (at most) M youngest events of buf (smallest age; ties: newest arrival)"."""
    gossip = gossip_of(view_of(PEERS), rounds=9, gossip_bundles=gossip_bundles, buffer_bundles=20)
    for at, age in enumerate(ages):
        gossip.receive(YOU, ball((age, one(100 + at))), 0, Ready())
    by_youth = sorted(range(len(ages)), key=lambda at: (ages[at], -at))
    chosen = ages_in(round_of(gossip))
    assert chosen == {100 + at: ages[at] + 1 for at in by_youth[:gossip_bundles]}


@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.integers(1, 6))
def test_a_full_buffer_drops_the_oldest(ages: list[int], buffer_bundles: int) -> None:
    """ "while |buf| > cap drop the event with the largest age": it is known by most."""
    gossip, ready = gossip_of(view_of(PEERS), rounds=9, buffer_bundles=buffer_bundles), Ready()
    kept: list[tuple[int, int]] = []
    for at, age in enumerate(ages):
        fresh = gossip.receive(YOU, ball((age, one(100 + at))), 0, ready)
        assert len(fresh) == 1, "it is delivered all the same"
        kept.append((age, 100 + at))
        if len(kept) > buffer_bundles:
            kept.remove(max(kept, key=lambda pair: pair[0]))
    assert ages_in(round_of(gossip)) == {pid: age + 1 for age, pid in kept}
    assert [note.reason for note in ready.notes] == ["gossip_buffer"] * max(0, len(ages) - buffer_bundles)


def test_the_history_forgets_the_first_and_the_layer_above_must_tolerate_that() -> None:
    gossip = gossip_of(view_of(PEERS), history=2)
    for pid in (50, 51, 52):
        assert len(gossip.receive(YOU, ball((0, one(pid))), 0, Ready())) == 1
    assert gossip.receive(YOU, ball((0, one(52))), 0, Ready()) == []
    assert len(gossip.receive(YOU, ball((0, one(50))), 0, Ready())) == 1
    assert all(gauge.value <= gauge.bound for gauge in gossip.gauges())


@given(st.sets(st.integers(0, 30), max_size=12), st.integers(1, 8), st.integers())
def test_targets_are_distinct_and_never_oneself(peers: set[int], fanout: int, seed: int) -> None:
    """ "choose min(F, |view|) distinct targets uniformly from the view, never self"; all get the same message."""
    view = view_of(sorted(peers), seed)
    gossip = gossip_of(view, seed, fanout=fanout)
    gossip.publish(one(ME.pid), 0, Ready())
    others = peers - {ME.pid}
    sends = [send for send in round_of(gossip).send if not isinstance(send.item, Subscribe)]
    assert len(sends) == (1 if others else 0), "one send: it is encoded once"
    for send in sends:
        assert len(send.to) == len(set(send.to)) == min(fanout, len(others))
        assert set(send.to) <= others


def test_targets_are_drawn_evenly() -> None:
    view, drawn = view_of(PEERS), dict.fromkeys(PEERS, 0)
    for _ in range(2_000):
        for pid in view.targets(3):
            drawn[pid] += 1
    assert all(500 < count < 700 for count in drawn.values()), drawn


@pytest.mark.parametrize("idle_rounds", [1, 3, 5])
def test_a_quiet_member_still_writes_every_so_many_rounds(idle_rounds: int) -> None:
    """ "at least every idle_rounds, otherwise membership never spreads in a quiet cluster"."""
    gossip = gossip_of(view_of(PEERS, isolation_rounds=255), idle_rounds=idle_rounds)
    round_of(gossip)
    wrote = [bool(balls_in(round_of(gossip))) for _ in range(4 * idle_rounds)]
    assert wrote == [number % idle_rounds == 0 for number in range(1, 4 * idle_rounds + 1)]


def test_news_of_the_membership_do_not_wait_for_an_idle_round() -> None:
    view = view_of(PEERS)
    gossip = gossip_of(view, idle_rounds=100)
    round_of(gossip)
    assert balls_in(round_of(gossip)) == []
    view.leave(0)
    assert len(balls_in(round_of(gossip))) == 1


def test_a_member_without_peers_writes_to_nobody_and_loses_nothing() -> None:
    view = view_of([])
    gossip = gossip_of(view, rounds=9)
    gossip.publish(one(ME.pid), 0, Ready())
    assert round_of(gossip).send == []
    view.found([YOU], 0)
    assert ages_in(round_of(gossip)) == {ME.pid: 2}


def test_rounds_missed_in_a_pause_are_not_made_up_for() -> None:
    gossip = gossip_of(view_of(PEERS), rounds=9)
    gossip.publish(one(ME.pid), 0, Ready())
    now = 50 * ROUND_NS
    rounds = 0
    for later in range(0, ROUND_NS, ROUND_NS // 100):
        ready = Ready()
        gossip.tick(now + later, ready)
        rounds += len(balls_in(ready))
    assert rounds == 1
    assert gossip.wake_at() == now + ROUND_NS


@given(st.floats(0, 0.99), st.integers())
def test_a_round_is_longer_or_shorter_by_its_jitter_at_most(jitter: float, seed: int) -> None:
    gossip = gossip_of(view_of(PEERS), seed, jitter=jitter)
    last = gossip.wake_at()
    assert last is not None
    assert 0 <= last < ROUND_NS, "members start at a phase of their own"
    for _ in range(10):
        round_of(gossip)
        due = gossip.wake_at()
        assert due is not None
        assert (1 - jitter) * ROUND_NS - 1 <= due - last <= (1 + jitter) * ROUND_NS + 1
        last = due


def test_a_tick_before_its_time_does_nothing() -> None:
    gossip, ready = gossip_of(view_of(PEERS)), Ready()
    gossip.publish(one(ME.pid), 0, ready)
    due = gossip.wake_at()
    assert due is not None
    gossip.tick(due - 1, ready)
    assert ready.send == []
    assert gossip.wake_at() == due


def test_a_message_never_outgrows_a_packet() -> None:
    """However large the bundles are; those that do not fit wait for a round when they are the youngest."""
    gossip = gossip_of(view_of(PEERS), rounds=4, buffer_bundles=20)
    for pid in range(100, 106):
        bundle = packed(Process(pid, 1), 1, [b"x" * limits.BUNDLE_BYTES_MAX])
        gossip.receive(YOU, ball((0, bundle)), 0, Ready())
    ready = round_of(gossip)
    (message,) = balls_in(ready)
    assert 1 <= len(message.bundles) < 6
    assert message.bundles[0].pid == 105, "the newest of equals"
    assert decode(encode("demo", ME, [message])).items == [message]


def test_the_largest_bundle_there_can_be_is_passed_on() -> None:
    largest = packed(YOU, 1, [b"x" * (limits.BUNDLE_BYTES_MAX // limits.BUNDLE_EVENTS_MAX)] * limits.BUNDLE_EVENTS_MAX)
    gossip = gossip_of(view_of(PEERS))
    gossip.receive(YOU, ball((0, largest)), 0, Ready())
    assert ages_in(round_of(gossip)) == {YOU.pid: 1}


def test_an_item_that_is_no_gossip_is_rejected_with_a_note() -> None:
    gossip, ready = gossip_of(view_of(PEERS)), Ready()
    assert gossip.receive(YOU, Subscribe(joining=True), 0, ready) == []
    assert [(note.kind, note.reason, note.peer) for note in ready.notes] == [("reject", "not_gossip", YOU.pid)]


def test_a_message_tells_how_many_of_its_bytes_are_the_applications() -> None:
    message = ball((0, one(50, payload=b"12345")), (0, one(51, payload=b"678")))
    assert message.payload_bytes() == 8
    assert Subscribe(joining=True).payload_bytes() == 0
