"""Stabilizing Causal Deterministic Merge: its lemmas and theorems under the corrected model, on random computations.

And the paper's own rules where they are wrong: each must be caught, or these tests could not tell right from wrong.
"""

from random import Random
from typing import Any

import pytest

from whence.core.clocks.kn import Kn, KnStamp, less, shifted
from whence.core.clocks.stamp import GuardResult, Timing
from whence.core.levels.total.merge_buffer import Entry, MergeBuffer
from whence_lab.experiments.computations import Rules, World, bits, disagree, inverted
from whence_lab.experiments.small_stamps import PROGRAMS, longest_c
from whence_lab.experiments.stabilization import NeverAges, bounded_matches, corrupted, recovery
from whence_lab.reference.rc import Rc, RcStamp
from whence_lab.reference.rc import less as rc_less

COMPUTATIONS = 300
COMPUTATIONS_LONG = 50_000
PARTS = 5
"""The longest tests are cut into parts, so that each ends in minutes at full size too."""
EACH_PART = [0, *(pytest.param(part, marks=pytest.mark.no_cover) for part in range(1, PARTS))]
"""The first is measured; what the others run is the same code."""


@pytest.fixture(scope="session")
def computations(long_mode: bool) -> int:
    return COMPUTATIONS_LONG if long_mode else COMPUTATIONS


def drawn(random: Random, **fixed: Any) -> Rules:
    """Draw a system of the corrected model."""
    rules = {
        "epsilon": random.randint(1, 4), "delta": random.randint(0, 6), "n": random.randint(2, 5),
        "k": random.randint(1, 3), "jumps": random.random() < 0.3, "reading": random.choice(("receiver", "sender")),
    }  # fmt: skip
    return Rules(**(rules | fixed))


def violates_happened_before(world: World) -> bool:
    depth = world.rules.epsilon
    for event in world.events:
        for cause in range(len(world.events)):
            if event.past >> cause & 1 and not less(world.events[cause].kn, event.kn, depth):
                return True
    return False


@pytest.mark.parametrize("part", EACH_PART)
def test_stamps_keep_the_lemmas_and_extend_happened_before(computations: int, part: int) -> None:
    """Lemmas 3.1, 3.2, 3.4 (K·n) and Theorem 3.6; l of hlc equals r+c; hlc extends happened-before too."""
    for number in range(part, computations, PARTS):
        random = Random(f"stamps {number}")
        world = World(random, drawn(random, mergers=0)).run()
        epsilon, bound = world.rules.epsilon, world.timing.chain_max
        for event in world.events:
            kn, c = event.kn.kn, event.kn.c
            assert 0 <= c < epsilon
            assert kn[epsilon + c] >= 1
            assert not any(kn[epsilon + c + 1 :])
            assert max(kn) <= bound
            assert event.hlc >> 20 == event.kn.r + c
            assert event.hlc & 0xFFFFF < bound * epsilon
            assert all(world.events[cause].hlc < event.hlc for cause in bits(event.past))
        assert not violates_happened_before(world)
        assert world.resets == 0


def test_the_packed_key_is_the_papers_relation_on_every_pair(computations: int) -> None:
    """Observation 3.5: transitive and well-formed, because it is the order of numbers."""
    for number in range(max(60, computations // 20)):
        random = Random(f"keys {number}")
        world = World(random, drawn(random, mergers=0)).run()
        keys = [world.kn[0].packed(event.kn) for event in world.events]
        for one, key in zip(world.events, keys, strict=True):
            for other, other_key in zip(world.events, keys, strict=True):
                assert less(one.kn, other.kn, world.rules.epsilon) == (key < other_key)


@pytest.mark.parametrize("order", ["hlc", "kn"])
@pytest.mark.parametrize("release", ["paper", "tight"])
@pytest.mark.parametrize("part", EACH_PART)
def test_mergers_release_causally_in_one_order_whatever_they_lose(
    order: str, release: str, computations: int, part: int
) -> None:
    """Theorems 4.4 and 4.5, and Lemma 4.2 with its true bound: nothing waits longer than δ + 2ε − 1 ticks."""
    for number in range(part, computations // 2, PARTS):
        random = Random(f"merge {order} {release} {number}")
        fixed = {"reading": "receiver"} if release == "tight" else {}
        world = World(random, drawn(random, order=order, release=release, **fixed)).run()
        world.finish()
        one, other = ([event for event, _ in output.released if event is not None] for output in world.output)
        assert not disagree(one, other)
        rules = world.rules
        for output in world.output:
            sequence = [event for event, _ in output.released if event is not None]
            assert inverted(world, sequence) == 0
            assert output.late == [], "on time by the model"
            if not rules.jumps:
                assert max(output.waited, default=0) <= rules.delta + 2 * rules.epsilon - 1


@pytest.mark.parametrize("part", EACH_PART)
def test_without_any_bound_on_clocks_and_delays_only_lateness_remains(computations: int, part: int) -> None:
    """Never a different order at two mergers, never a cause after its effect; the price is late events."""
    late = 0
    for number in range(part, computations, PARTS):
        random = Random(f"wild {number}")
        world = World(random, drawn(random, synchronous=False), guarded=False).run()
        world.finish()
        sequences = [[event for event, _ in output.released if event is not None] for output in world.output]
        assert not disagree(*sequences)
        assert sum(inverted(world, sequence) for sequence in sequences) == 0
        late += sum(len(output.late) for output in world.output)
    assert late > computations // PARTS // 10


def test_the_papers_stamps_need_the_bound_on_clocks() -> None:
    """The same worlds, ordered by kn: causes after their effects."""
    caught = 0
    for number in range(COMPUTATIONS):
        random = Random(f"wild {number}")
        caught += violates_happened_before(World(random, drawn(random, synchronous=False), guarded=False).run())
    assert caught > COMPUTATIONS // 20


def test_the_bound_on_the_wait_is_attained() -> None:
    """δ + 2ε − 1 is tight: some bundle waits exactly so long."""
    longest = 0
    for number in range(600):
        random = Random(f"tight {number}")
        world = World(random, drawn(random, epsilon=2, delta=3, jumps=False)).run()
        world.finish()
        longest = max([longest, *(wait for output in world.output for wait in output.waited)])
    assert longest == 3 + 2 * 2 - 1


# --- recovery ---


@pytest.mark.parametrize("order", ["hlc", "kn"])
@pytest.mark.parametrize("part", EACH_PART)
def test_everything_recovers_within_the_stated_time_after_faults_end(order: str, computations: int, part: int) -> None:
    """Stamps within δ+3ε own ticks, the released stream within 2δ+6ε of the merger's."""
    worst_stamps = worst_stream = 0.0
    for number in range(part, computations, PARTS):
        random = Random(f"recovery {order} {number}")
        rules = drawn(random, order=order, steps=260, loss=0.05, jumps=False)
        world = World(random, rules)
        corrupted(world)
        world.run()
        world.finish()
        stamps, stream = recovery(world, order)
        assert stamps < rules.delta + 3 * rules.epsilon
        assert stream < 2 * rules.delta + 6 * rules.epsilon
        worst_stamps = max(worst_stamps, stamps / (rules.delta + 3 * rules.epsilon))
        worst_stream = max(worst_stream, stream / (2 * rules.delta + 6 * rules.epsilon))
    assert worst_stream > 0.1, "faults that do no harm test nothing"
    assert worst_stamps > 0.1 or order == "hlc", "hlc is right from its first guard on"


# --- the paper's rules, each caught ---


class NeverLooksAhead(Kn):
    """The guard without r ≤ rt."""

    def _is_legal(self, r: int, rt: int) -> bool:
        return self._makes_sense(self._c, self._kn, fresh=True)


class ReleasesByEquality(MergeBuffer):
    """delcond with =."""

    def release(self, rt: int) -> list[Entry]:
        due = sorted(entry for entry in self._heap if (entry[0] >> 20) + self._wait() == rt)
        self._heap = [entry for entry in self._heap if (entry[0] >> 20) + self._wait() != rt]
        return self._leave(rt, due) if due else []


class ReleasesOneTickEarly(MergeBuffer):
    """The tight rule with ≥ instead of >."""

    def _wait(self) -> int:
        return super()._wait() - 1


def test_clocks_that_differ_by_epsilon_break_the_papers_theorem() -> None:
    """merge E1: with |rt.j − rt.k| ≤ ε, Lemma 3.2 and Theorem 3.6 are false."""
    caught = 0
    for number in range(COMPUTATIONS):
        random = Random(f"literal {number}")
        world = World(random, drawn(random, literal_bound=True, mergers=0), guarded=False).run()
        too_far = any(event.kn.c >= world.rules.epsilon for event in world.events)
        caught += too_far or violates_happened_before(world)
    assert caught > COMPUTATIONS // 4


def test_releasing_only_on_the_tick_strands_messages() -> None:
    """merge E3: any clock that jumps passes over the tick."""
    stranded = 0
    for number in range(COMPUTATIONS):
        random = Random(f"equality {number}")
        world = World(random, drawn(random, jumps=True), buffer_type=ReleasesByEquality).run()
        world.finish()
        stranded += any(merger._heap for merger in world.mergers)
    assert stranded > COMPUTATIONS // 10


def test_the_tight_rule_one_tick_early_is_wrong() -> None:
    """merge E4: rt ≥ l + δ releases before the last message has come."""
    wrong = 0
    for number in range(COMPUTATIONS):
        random = Random(f"early {number}")
        rules = drawn(random, release="tight", reading="receiver", loss=0.0)
        world = World(random, rules, buffer_type=ReleasesOneTickEarly).run()
        wrong += any(output.late for output in world.output)
    assert wrong > COMPUTATIONS // 50


def test_without_the_guard_on_the_future_recovery_takes_arbitrarily_long() -> None:
    """merge E6: an idle process whose r is ahead of its clock does not notice before its clock gets there."""
    timing = Timing(epsilon=2, delta=1, publishers_max=3, events_per_tick_max=2)
    inverted_at = {}
    for kind in (Kn, NeverLooksAhead):
        clock = kind(timing)
        clock.start(10)
        clock._set(500, 0, [0, 0, 1, 0])
        found = [clock.guard(rt) for rt in range(11, 71)]
        assert (found[0] is GuardResult.RESET) is (kind is Kn)
        early = clock.local(70)
        clock.guard(70)
        inverted_at[kind] = not less(early, clock.local(70), 2)
    assert inverted_at == {Kn: False, NeverLooksAhead: True}, "60 ticks after the fault, and δ+3ε is 7"


def bounded_run(kind: type[Kn], number: int) -> bool:
    """Tell whether stamps with clocks modulo B, read back by their receivers, equal the unbounded ones."""
    random = Random(f"bounded {number}")
    epsilon, delta = random.randint(1, 3), random.randint(0, 4)
    return bounded_matches(kind, random, epsilon, delta, 2 * epsilon + delta + 1 + random.randint(0, 3))


def test_clocks_modulo_b_give_the_same_stamps_if_idle_states_age(computations: int) -> None:
    """Theorem 3.7 with ageing: B ≥ 2ε + δ + 1 suffices."""
    assert all(bounded_run(Kn, number) for number in range(computations))


def test_without_ageing_an_idle_process_takes_its_old_state_for_a_new_one() -> None:
    """merge E5: no B works."""
    assert sum(not bounded_run(NeverAges, number) for number in range(COMPUTATIONS)) > COMPUTATIONS // 10


def hierarchy(number: int, *, restamps: bool) -> int:
    """Count inversions at an upper merger behind two lower ones that stamp anew or pass the origin's key on."""
    random = Random(f"hierarchy {number}")
    world = World(random, drawn(random, mergers=0, loss=0.0, jumps=False)).run()
    rules = world.rules
    wait = rules.delta + rules.epsilon
    released = []
    for number_of, event in enumerate(world.events):
        through = event.process % 2
        at = (event.hlc >> 20) + wait
        released.append(((at if restamps else 0, 1 - through if restamps else 0, event.hlc, event.process), number_of))
    return inverted(world, [number_of for _, number_of in sorted(released)])


def test_relaying_the_origins_key_keeps_causes_first_and_stamping_anew_does_not() -> None:
    """merge E8: two messages with equal l, released by different lower mergers in the same tick."""
    assert sum(hierarchy(number, restamps=False) for number in range(COMPUTATIONS)) == 0
    assert sum(hierarchy(number, restamps=True) > 0 for number in range(COMPUTATIONS)) > COMPUTATIONS // 20


def restarted(quarantine_ticks_less: int) -> int:
    """Count publishers that, restarted after so short a wait, stamp below what they stamped before."""
    wrong = 0
    for number in range(COMPUTATIONS):
        random = Random(f"restart {number}")
        timing = Timing(epsilon=random.randint(1, 5))
        rt = 100
        lead = rt + random.randint(0, timing.lead_max)
        world = World(random, Rules(epsilon=timing.epsilon, delta=3, n=2, mergers=0))
        before = world.hlc[0]
        before.start(rt)
        stamp = before.receive(rt, [lead << 20])
        after = world.hlc[1]
        began = rt + timing.epsilon - quarantine_ticks_less
        after.start(max(rt, began))
        wrong += after.local(max(rt, began)) <= stamp
    return wrong


def test_a_restarted_publisher_waits_epsilon_ticks_and_one_less_is_wrong() -> None:
    """merge E16: state lost inside ε inverts the order."""
    assert restarted(0) == 0
    assert restarted(1) > 0


# --- ⟨r, c⟩ ---


def test_the_small_stamps_have_a_cycle_and_cannot_merge() -> None:
    """merge E7: a < c < b < a, all reachable."""
    a, b, c = RcStamp(28, 36), RcStamp(30, 13), RcStamp(32, 0)
    assert rc_less(a, c, 3)
    assert rc_less(c, b, 3)
    assert rc_less(b, a, 3)


@pytest.mark.parametrize(("k", "right"), [(1, True), (2, False)])
def test_the_small_stamps_order_causes_only_with_one_event_per_tick(k: int, right: bool) -> None:
    wrong = 0
    for number in range(100):
        random = Random(f"rc {k} {number}")
        clocks = [Rc(2) for _ in range(3)]
        for clock in clocks:
            clock.start(9)
        known = [0, 0, 0]
        events: list[tuple[RcStamp, int, int]] = []
        for rt in range(10, 30):
            for process in range(3):
                for _ in range(k):
                    sources = [e for e in events[-6:] if e[2] != process and random.random() < 0.3]
                    sources = [e for e in sources if e[0].r < rt or k > 1]
                    stamps = [e[0] for e in sources]
                    stamp = clocks[process].receive(rt, stamps) if stamps else clocks[process].local(rt)
                    past = known[process]
                    for source in sources:
                        past |= source[1]
                    known[process] = past | 1 << len(events)
                    wrong += sum(not rc_less(events[cause][0], stamp, 2) for cause in bits(past))
                    events.append((stamp, known[process], process))
    assert (wrong == 0) is right


def test_quiet_windows_bound_the_small_stamps_only_where_a_receipt_forgets() -> None:
    """merge E24, E20: figure 3 keeps its old c at the first receipt after a window; else n periods bound it."""
    papers, ours = PROGRAMS
    assert longest_c(papers, 3, 4, 6400, 100) > 2 * longest_c(papers, 3, 4, 3000, 100) > 1000
    assert longest_c(ours, 3, 4, 6400, 100) == longest_c(ours, 3, 4, 3000, 100) < 100
    assert longest_c(ours, 24, 4, 6400, 100) > 5 * longest_c(ours, 3, 4, 6400, 100)


# --- the worked example ---


def test_the_worked_example_of_two_processes() -> None:
    """ε = 2; kn printed for t = −2 … 1, as in merge 2."""
    timing = Timing(epsilon=2, publishers_max=2, events_per_tick_max=4)
    p, q = Kn(timing), Kn(timing)
    p.start(10)
    q.start(11)
    assert p.state == (10, 0, (0, 0, 1, 0))
    m = q.local(11)
    assert m == KnStamp(11, 0, (0, 0, 2, 0))
    assert p.receive(10, [m]) == KnStamp(10, 1, (0, 0, 2, 2))
    w = p.local(11)
    assert w == KnStamp(11, 0, (0, 2, 3, 0))
    assert q.receive(12, [w]) == KnStamp(12, 0, (2, 3, 1, 0))


def test_shifting_makes_a_new_array_and_drops_what_leaves_it() -> None:
    """merge E18: negative for a message from a faster clock."""
    kn = [1, 2, 3, 4]
    assert [shifted(kn, by) for by in (0, 1, -1, 9, -9)] == [kn, [2, 3, 4, 0], [0, 1, 2, 3], [0] * 4, [0] * 4]
    assert kn == [1, 2, 3, 4]
