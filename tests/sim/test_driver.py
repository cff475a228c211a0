"""The driver's contract: persist, then send, then deliver, then wake; and a crash between any two leaves a prefix."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.stage import SYNC_NS, Stage, gaps_in_numbers, letter, told
from tests.sim.world import MS
from whence.core.ready import Delivery, Gap, Late, Note, Ready, Send
from whence.core.runner import OF_MEMBER
from whence.sim.clock import Clock
from whence.sim.ports import SimRunner
from whence.sim.process import INBOX_COPIES_MAX, SimProcess
from whence.sim.storage import SimStorage
from whence.trace.schema import COLUMNS_OF, Kind
from whence.types import Process, Span, packed

# --- durability: what the peers of a crashed process may know ---


class Schedule(NamedTuple):
    """When the member answers with which numbers, which of them it persists, and when it crashes."""

    steps: list[tuple[int, bool]]
    crash_at: int
    damage: str


schedules = st.builds(
    Schedule,
    st.lists(st.tuples(st.integers(0, 8 * MS), st.booleans()), max_size=8),
    st.integers(0, 12 * MS),
    st.sampled_from(("lost", "torn")),
)


def broken_laws(driver: type[SimProcess], schedule: Schedule) -> list[str]:
    """Run a schedule, crash, restart; return which laws of the contract what happened breaks."""
    stage = Stage(driver)
    steps = sorted(schedule.steps)
    for number, (time, record) in enumerate(steps, 1):
        stage.loop.at(time, lambda ready: stage.do(ready), told(number, record=record))
    stage.at(schedule.crash_at)
    stage.process.crash(schedule.damage)
    stage.at(schedule.crash_at + 20 * MS)
    stage.start()
    stage.process.restore()
    records = [int(record) for record in stage.told("restore")[0].about]  # type: ignore[attr-defined]
    asked = [number for number, (time, _) in enumerate(steps, 1) if time <= schedule.crash_at]
    durable = [number for number in asked if steps[number - 1][1]]
    heard, delivered = stage.numbers_heard(), stage.delivered()
    broken = []
    if [number for number in heard + delivered if number in durable and number not in records]:
        broken.append("a crash forgot what peers or the application were told")
    if heard != asked[: len(heard)] or delivered != asked[: len(delivered)]:
        broken.append("a Ready overtook another")
    if len(delivered) > len(heard):
        broken.append("something was delivered before it was sent")
    if records != durable[: len(records)]:
        broken.append("the disk gave back what was not written to it")
    if gaps_in_numbers(stage.rows):
        broken.append("the trace lacks rows")
    return broken


@given(schedules)
def test_whatever_peers_were_told_survives_a_crash_at_any_time(schedule: Schedule) -> None:
    assert broken_laws(SimProcess, schedule) == []


class SendsFirst(SimRunner):
    """Does everything else before it persists."""

    def apply(self, ready: Ready, *_: object, **__: object) -> None:
        self.perform(Ready(send=ready.send, deliver=ready.deliver))
        super().apply(Ready(persist=ready.persist))


class SyncsLater(SimRunner):
    """Takes what is written for durable."""

    def apply(self, ready: Ready, *_: object, **__: object) -> None:
        self.process.disk.write([OF_MEMBER + record for record in ready.persist])
        self.perform(ready)


class LetsOthersPass(SimRunner):
    """What has nothing to persist goes ahead of what waits for the disk."""

    def apply(self, ready: Ready, *_: object, **__: object) -> None:
        if ready.persist:
            super().apply(ready)
        else:
            self.perform(ready)


class SyncsWithoutWaiting(SimStorage):
    """One sync commits what was written after it began, too."""

    def _commit(self, sync: tuple[int, int, int]) -> None:
        super()._commit((sync[0], len(self._pending), sync[2]))


class DeliversFirst(SimRunner):
    """The application hears of it before the peers do."""

    def perform(self, ready: Ready) -> None:
        super().perform(Ready(deliver=ready.deliver))
        loop = self.process._loop
        loop.at(loop.now + MS, self._perform_late, Ready(send=ready.send))

    def _perform_late(self, ready: Ready) -> None:
        if not self.stopped:
            super().perform(ready)


def process_with(kind: type[SimRunner | SimStorage]) -> type[SimProcess]:
    """Return a process that is driven wrongly."""
    part = "runner_type" if issubclass(kind, SimRunner) else "storage_type"
    return type(kind.__name__, (SimProcess,), {part: kind})


WRONG_DRIVERS: list[tuple[type[SimRunner | SimStorage], str]] = [
    (SendsFirst, "a crash forgot what peers or the application were told"),
    (SyncsLater, "a crash forgot what peers or the application were told"),
    (SyncsWithoutWaiting, "a crash forgot what peers or the application were told"),
    (LetsOthersPass, "a Ready overtook another"),
    (DeliversFirst, "something was delivered before it was sent"),
]


@pytest.mark.parametrize(("driver", "law"), WRONG_DRIVERS, ids=lambda of: getattr(of, "__name__", ""))
def test_a_driver_that_breaks_the_contract_is_caught_by_the_law_it_breaks(
    driver: type[SimRunner | SimStorage], law: str
) -> None:
    """The law above has teeth: on some of a few dozen plain schedules it finds every one of these bugs."""
    steps = [(0, True), (MS, True), (MS + 1, False)]
    tried = [Schedule(steps, at * MS // 2, damage) for at in range(16) for damage in ("lost", "torn")]
    assert any(law in broken_laws(process_with(driver), schedule) for schedule in tried)
    assert not any(broken_laws(SimProcess, schedule) for schedule in tried)


def test_nothing_is_sent_or_delivered_before_its_record_is_durable() -> None:
    stage = Stage()
    stage.do(told(1))
    stage.at(SYNC_NS - 1)
    assert (stage.sent(), stage.delivered()) == ([], [])
    stage.at(SYNC_NS)
    assert (stage.sent(), stage.delivered()) == ([(SYNC_NS, 1)], [1])


def test_one_sync_commits_everything_written_before_it_began_and_nothing_written_after() -> None:
    stage = Stage()
    stage.do(told(1))
    stage.at(MS)
    stage.do(told(2), told(3, record=False), told(4))
    stage.at(10 * MS)
    assert stage.sent() == [(SYNC_NS, 1)] + [(2 * SYNC_NS, 1)] * 3
    assert stage.delivered() == [1, 2, 3, 4]


def test_a_ready_without_records_waits_for_no_disk_when_none_is_busy() -> None:
    stage = Stage()
    stage.do(told(1, record=False))
    assert (stage.sent(), stage.delivered()) == ([(0, 1)], [1])


def test_a_publication_is_told_of_after_what_the_member_decided_before_it() -> None:
    """Such as the note that it holds the ticket: that waits for the disk, and the publication waits behind it."""
    stage = Stage()
    stage.member.script.append(Ready(persist=[b"ticket"], notes=[Note("ticket_acquire", ticket=1, epoch=1, value=1)]))
    stage.process.act("cjoin", 0)
    stage.process.publish([b"x"])
    assert stage.rows[Kind.PUBLISH] == []
    stage.at(10 * MS)
    (acquired,), (published,) = stage.rows[Kind.TICKET_ACQUIRE], stage.rows[Kind.PUBLISH]
    at_ev = COLUMNS_OF[Kind.PUBLISH].index("ev")
    assert acquired[at_ev] < published[at_ev]


def test_a_disk_that_syncs_at_once_delays_nothing() -> None:
    stage = Stage(sync_ns=0)
    stage.do(told(1), told(2))
    assert (stage.sent(), stage.delivered()) == ([(0, 1), (0, 1)], [1, 2])
    stage.process.crash("lost")
    assert stage.process.disk.recover() == [OF_MEMBER + b"1", OF_MEMBER + b"2"]


def test_a_sync_of_an_earlier_life_commits_nothing_of_the_next() -> None:
    stage = Stage()
    stage.do(told(1))
    stage.at(MS)
    stage.process.crash("lost")
    stage.start()
    stage.do(told(2))
    stage.at(SYNC_NS)
    assert stage.sent() == []
    stage.at(10 * MS)
    assert stage.sent() == [(MS + SYNC_NS, 1)]
    assert stage.numbers_heard() == [2]


# --- a crash between two effects ---


def rich_ready() -> Ready:
    """Two sends, one of them to two peers, and two deliveries: five effects."""
    bundles = [packed(Process(9, 1), number, [b"x"]) for number in (3, 4)]
    return Ready(
        persist=[b"record"],
        send=[Send((1, 2), letter(1)), Send((2,), letter(2))],
        deliver=[Delivery(bundles[0]), Delivery(bundles[1])],
        notes=[Note("note", "afterwards")],
    )


ALL_EFFECTS = [("send", 1), ("send", 2), ("send", 2), ("deliver", 3), ("deliver", 4)]


def effects_of(stage: Stage) -> list[tuple[str, int]]:
    """Return what a process did, in its own order."""
    sends = [(row["ev"], "send", row["peer"]) for row in stage.records(Kind.SEND)]
    delivers = [(row["ev"], "deliver", row["m_seq"]) for row in stage.records(Kind.DELIVER)]
    return [effect for _, *effect in sorted(sends + delivers)]  # type: ignore[misc]


def test_a_doomed_process_stops_between_any_two_effects_and_has_done_a_prefix_of_them() -> None:
    lengths = []
    for seed in range(60):
        stage = Stage(rng_seed=seed)
        stage.process.doom("lost")
        stage.do(rich_ready())
        stage.at(20 * MS)
        done = [tuple(effect) for effect in effects_of(stage)]
        assert done == ALL_EFFECTS[: len(done)]
        assert not stage.process.up
        assert len(stage.heard) == sum(kind == "send" for kind, _ in done)
        assert stage.process.disk.recover() == [OF_MEMBER + b"record"]
        assert stage.records(Kind.CRASH)[0]["ev"] == max(row[2] for rows in stage.rows.values() for row in rows)
        assert gaps_in_numbers(stage.rows) == []
        assert stage.effective["crash_between_effects"] == 1
        lengths.append(len(done))
    assert sorted(dict.fromkeys(lengths)) == [0, 1, 2, 3, 4]


def test_a_process_that_is_not_doomed_does_all_of_them() -> None:
    stage = Stage()
    stage.do(rich_ready())
    stage.at(20 * MS)
    assert [tuple(effect) for effect in effects_of(stage)] == ALL_EFFECTS
    assert [row["reason"] for row in stage.records(Kind.NOTE)] == ["afterwards"]


def test_doom_waits_for_something_to_do_and_can_be_called_off() -> None:
    stage = Stage()
    stage.process.doom("lost")
    stage.do(Ready(), Ready(notes=[Note("note", "harmless")]))
    assert stage.process.up
    stage.process.spare()
    stage.do(told(1, record=False))
    assert stage.process.up
    assert stage.sent() == [(0, 1)]


def test_a_crashed_process_does_nothing_with_the_rest_of_a_packet() -> None:
    """The first item stops the process; the second must reach nobody."""
    stage = Stage()
    stage.process.doom("lost")
    stage.member.script.extend([told(1, record=False), told(2, record=False)])
    stage.post(5, 6)
    stage.at(20 * MS)
    assert [about for _, _, about in stage.told("receive")] == [(Process(1, 1), 5)]
    assert 2 not in stage.numbers_heard()
    assert stage.records(Kind.CRASH)[0]["ev"] == max(row[2] for rows in stage.rows.values() for row in rows)


# --- pauses ---


def test_a_paused_process_hears_nothing_until_it_runs_again_and_then_everything_in_order() -> None:
    stage = Stage()
    stage.process.pause()
    for number in (1, 2, 3):
        stage.post(number)
    stage.at(5 * MS)
    assert stage.told("receive") == []
    stage.process.resume()
    assert [(each.now, each.about) for each in stage.told("receive")] == [
        (5 * MS, (Process(1, 1), number)) for number in (1, 2, 3)
    ]


def test_a_timer_that_passes_in_a_pause_fires_once_when_it_ends_before_what_waited() -> None:
    stage = Stage()
    stage.do(Ready(wake_at=2 * MS))
    stage.at(MS)
    stage.process.pause()
    stage.post(1)
    stage.at(9 * MS)
    assert stage.told("tick") == []
    stage.process.resume()
    stage.at(20 * MS)
    assert [(each.what, each.now) for each in stage.member.heard[1:]] == [("tick", 9 * MS), ("receive", 9 * MS)]


def test_a_timer_that_falls_after_a_pause_fires_at_its_time() -> None:
    stage = Stage()
    stage.do(Ready(wake_at=5 * MS))
    stage.process.pause()
    stage.at(3 * MS)
    stage.process.resume()
    stage.at(20 * MS)
    assert [each.now for each in stage.told("tick")] == [5 * MS]


def test_a_paused_process_sends_and_delivers_nothing_even_when_its_disk_is_done() -> None:
    stage = Stage()
    stage.do(told(1))
    stage.process.pause()
    stage.at(10 * MS)
    assert (stage.sent(), stage.delivered()) == ([], [])
    stage.process.resume()
    assert (stage.sent(), stage.delivered()) == ([(10 * MS, 1)], [1])
    stage.do(told(2))
    stage.at(20 * MS)
    assert stage.delivered() == [1, 2]


def test_a_sync_that_ends_in_a_pause_is_durable_if_the_process_then_crashes() -> None:
    stage = Stage()
    stage.do(told(1))
    stage.process.pause()
    stage.at(10 * MS)
    stage.process.crash("lost")
    stage.start()
    stage.process.restore()
    assert stage.told("restore")[0].about == [b"1"]
    stage.process.resume()
    stage.at(20 * MS)
    assert stage.sent() == []


def test_a_paused_process_publishes_nothing() -> None:
    stage = Stage()
    stage.process.pause()
    assert stage.process.publish([b"x"]) is None
    assert stage.member.heard == []


def test_what_a_paused_process_cannot_hold_is_lost_and_counted() -> None:
    stage = Stage()
    stage.process.pause()
    for _ in range(INBOX_COPIES_MAX + 3):
        stage.post(1)
    stage.process.resume()
    assert len(stage.told("receive")) == INBOX_COPIES_MAX
    assert stage.effective["inbox_full"] == 3


# --- lives ---


def test_each_life_has_a_new_boot_new_numbers_and_the_records_of_the_lives_before() -> None:
    stage = Stage()
    for life in (1, 2, 3):
        assert stage.member.me == Process(0, life)
        stage.do(told(life))
        stage.at(life * 10 * MS)
        stage.process.crash("lost")
        stage.start()
        stage.process.restore()
        assert stage.told("restore")[0].about == [b"%d" % earlier for earlier in range(1, life + 1)]
    assert [(row["inc"], row["ev"]) for row in stage.records(Kind.RESTART)] == [(2, 0), (3, 0), (4, 0)]
    assert gaps_in_numbers(stage.rows) == []


def test_a_wiped_disk_leaves_the_next_life_nothing() -> None:
    stage = Stage()
    stage.do(told(1))
    stage.at(10 * MS)
    stage.process.crash("wiped")
    stage.start()
    stage.process.restore()
    assert stage.told("restore")[0].about == []
    assert stage.effective["disk_wiped"] == 1


def test_a_process_crashes_once_and_not_while_it_is_down() -> None:
    stage = Stage()
    assert stage.process.crash("lost") is True
    assert stage.process.crash("lost") is False
    assert len(stage.rows[Kind.CRASH]) == 1


def test_what_is_addressed_to_another_life_is_dropped_and_written_down() -> None:
    stage = Stage()
    stage.process.crash("lost")
    stage.start()
    stage.post(1, to_incarnation=1)
    stage.post(2, to_incarnation=2)
    stage.post(3, to_incarnation=0)
    assert [about for _, _, about in stage.told("receive")] == [(Process(1, 1), 2), (Process(1, 1), 3)]
    assert [(row["peer"], row["reason"]) for row in stage.records(Kind.DROP)] == [(1, "other_incarnation")]


def test_a_copy_for_a_process_that_is_down_is_refused_to_its_sender() -> None:
    stage = Stage()
    stage.process.crash("lost")
    stage.post(1)
    stage.at(10 * MS)
    assert stage.refused == [1]


def test_the_timers_of_one_life_never_wake_the_next() -> None:
    stage = Stage()
    stage.do(Ready(wake_at=5 * MS))
    stage.process.crash("lost")
    stage.start()
    stage.at(20 * MS)
    assert stage.told("tick") == []


def test_a_member_that_left_and_asked_to_be_woken_does_not_keep_its_next_life_asleep() -> None:
    stage = Stage()
    stage.do(Ready(notes=[Note("leave")], wake_at=5 * MS))
    assert not stage.process.up
    stage.at(10 * MS)
    stage.start()
    stage.do(Ready(wake_at=15 * MS))
    stage.at(20 * MS)
    assert [each.now for each in stage.told("tick")] == [15 * MS]


def test_after_the_note_that_it_left_a_process_takes_no_input() -> None:
    stage = Stage()
    stage.do(Ready(notes=[Note("join")]), Ready(notes=[Note("leave")]))
    before = list(stage.member.heard)
    stage.post(1)
    stage.do(told(1))
    stage.at(20 * MS)
    assert stage.member.heard == before
    assert (len(stage.rows[Kind.JOIN]), len(stage.rows[Kind.LEAVE])) == (1, 1)


# --- time ---


@given(st.integers(-(10**6), 10**6), st.integers(-200_000, 200_000), st.integers(1, 10**9))
def test_a_member_is_woken_at_the_first_moment_its_own_clock_shows_the_time_it_asked_for(
    offset: int, drift_ppm: int, delay: int
) -> None:
    clock = Clock(offset, drift_ppm * 1000)
    stage = Stage(clock=clock)
    wake_at = stage.process.now() + delay
    stage.do(Ready(wake_at=wake_at))
    stage.at(3 * 10**9)
    (tick,) = stage.told("tick")
    assert tick.now >= wake_at
    assert clock.steady(clock.true_when(wake_at) - 1) < wake_at
    assert tick.now == clock.steady(clock.true_when(wake_at))


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_a_later_wish_never_makes_an_earlier_one_late(times: list[int]) -> None:
    """Woken at the earliest time asked for; being woken early is harmless, late is not."""
    stage = Stage()
    stage.do(*(Ready(wake_at=time * MS) for time in times))
    stage.at(50 * MS)
    assert stage.told("tick")[0].now == min(times) * MS


def test_a_time_that_has_passed_wakes_at_once() -> None:
    stage = Stage()
    stage.at(5 * MS)
    stage.do(Ready(wake_at=MS))
    stage.at(5 * MS)
    assert [each.now for each in stage.told("tick")] == [5 * MS]


# --- the trace ---


def test_bytes_that_are_no_packet_are_counted_and_reach_no_member() -> None:
    stage = Stage()
    stage.post_bytes(b"")
    stage.post_bytes(b"no packet at all")
    assert [(row["peer"], row["reason"]) for row in stage.records(Kind.REJECT)] == [(1, "no_packet")] * 2
    assert stage.member.heard == []


@given(st.binary(max_size=200))
def test_no_bytes_make_a_process_fail(frame: bytes) -> None:
    stage = Stage()
    stage.post_bytes(frame)
    assert len(stage.rows[Kind.REJECT]) + len(stage.rows[Kind.RECV]) == 1
    assert gaps_in_numbers(stage.rows) == []


def test_a_refused_publication_is_written_down_and_publishes_nothing() -> None:
    stage = Stage()
    stage.member.refuses = True
    assert stage.process.publish([b"x"]) is None
    assert [row["reason"] for row in stage.records(Kind.REJECT)] == ["NotMemberError"]
    assert stage.rows[Kind.PUBLISH] == []


def test_every_event_of_a_bundle_has_a_row_with_its_number_place_and_size() -> None:
    stage = Stage()
    bundle = packed(Process(9, 2), 5, [b"a", b"bcd"])
    stage.do(Ready(deliver=[Delivery(bundle, hold_ns=7)]), Ready(deliver=[Delivery(bundle)]))
    rows = [(row["m_pid"], row["m_inc"], row["m_seq"], row["pos"], row["payload_bytes"], row["hold_ns"])
            for row in stage.records(Kind.DELIVER)]  # fmt: skip
    assert rows == [(9, 2, 5, 0, 1, 7), (9, 2, 6, 1, 3, 7), (9, 2, 5, 2, 1, 0), (9, 2, 6, 3, 3, 0)]


def test_what_is_skipped_and_what_is_late_has_rows_of_its_own() -> None:
    stage = Stage()
    stage.do(Ready(deliver=[Gap((Span(9, 1, 2, 4),)), Late(packed(Process(9, 1), 7, [b"a", b"b"]), 30)]))
    assert [[tuple(name) for name in row["ids"]] for row in stage.records(Kind.GAP)] == [
        [(9, 1, 2), (9, 1, 3), (9, 1, 4)]
    ]
    assert [(row["m_seq"], row["late_ns"]) for row in stage.records(Kind.LATE)] == [(7, 30), (8, 30)]
    assert gaps_in_numbers(stage.rows) == []


def test_a_jump_of_the_wall_clock_shows_in_the_trace_and_not_to_the_member() -> None:
    stage = Stage(clock=Clock(100))
    stage.process.clock.jumped_ns += 1_000_000
    stage.at(MS)
    stage.do(told(1, record=False))
    assert [row["t_clk"] for row in stage.records(Kind.SEND)] == [MS + 100 + 1_000_000]
    assert stage.told("publish")[0].now == MS + 100


def test_the_fullest_a_buffer_was_at_a_tick_is_written_down_when_the_life_ends() -> None:
    stage = Stage()
    for time, fullness in ((1, 3), (2, 9), (3, 4)):
        stage.member.fullness = fullness
        stage.do(Ready(wake_at=time * MS))
        stage.at(time * MS)
    stage.process.crash("lost")
    notes = [(row["reason"], row["value"], row["bound"]) for row in stage.records(Kind.NOTE)]
    assert notes == [("fullness", 9, 10)]
