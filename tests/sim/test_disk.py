"""The simulated disk: after a crash, a prefix of what was written, and at least what was synced."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from whence.sim.disk import Disk

records = st.lists(st.binary(min_size=1, max_size=20), max_size=4)


class DiskAgainstALedger(RuleBasedStateMachine):
    """A disk beside a list of everything written, with how much of it was synced."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.written: list[bytes] = []
        self.synced = 0
        self.begun: tuple[int, int] | None = None

    @rule(several=records)
    def write(self, several: list[bytes]) -> None:
        self.disk.write(several)
        self.written += several

    @precondition(lambda self: self.begun is None)
    @rule()
    def begin_sync(self) -> None:
        self.begun = len(self.written), self.disk.unsynced()

    @precondition(lambda self: self.begun is not None)
    @rule()
    def finish_sync(self) -> None:
        assert self.begun is not None
        self.synced, size = self.begun
        self.disk.sync(size)
        self.begun = None

    @rule(damage=st.sampled_from(("lost", "torn", "wiped")), seed=st.integers(0, 99))
    def crash(self, damage: str, seed: int) -> None:
        at_risk = self.written if damage == "wiped" else self.written[self.synced :]
        assert self.disk.crash(damage, Random(seed)) == bool(at_risk)
        found = self.disk.recover()
        assert found == self.written[: len(found)]
        if damage == "wiped":
            assert found == []
        else:
            assert len(found) >= self.synced
        if damage == "lost":
            assert len(found) == self.synced
        self.written, self.synced, self.begun = found, len(found), None

    @invariant()
    def only_what_is_not_synced_is_at_risk(self) -> None:
        assert (self.disk.unsynced() > 0) == (len(self.written) > self.synced)


test_after_any_crash_a_prefix_is_recovered_and_all_that_was_synced = DiskAgainstALedger.TestCase


@given(records, records, st.integers(0, 2**32))
def test_what_is_written_after_a_torn_tail_was_cut_is_not_lost(
    before: list[bytes], after: list[bytes], seed: int
) -> None:
    disk = Disk()
    disk.write(before)
    disk.crash("torn", Random(seed))
    survived = disk.recover()
    disk.write(after)
    disk.sync(disk.unsynced())
    disk.crash("lost", Random(seed))
    assert disk.recover() == survived + after


def test_a_torn_write_leaves_every_length_from_nothing_to_all() -> None:
    """The tear is anywhere: over many seeds, each number of whole records survives sometimes."""
    survivors = []
    for seed in range(200):
        disk = Disk()
        disk.write([b"one", b"two", b"three"])
        disk.crash("torn", Random(seed))
        survivors.append(len(disk.recover()))
    assert sorted(dict.fromkeys(survivors)) == [0, 1, 2, 3]
