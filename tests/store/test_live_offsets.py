"""Numbers that survive the death of their process, and agree wherever it is killed."""

import errno
import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import StorageError
from whence.limits import CLOCK_NODES_MAX
from whence.store.consumer_offsets import ConsumerOffsets
from whence.store.owner import Owner


def test_steps_are_counted_across_lives(tmp_path: Path) -> None:
    for life in range(3):
        steps = ConsumerOffsets.at(tmp_path / "deep" / "steps")
        assert (steps.taken, steps.reported) == (5 * life, life)
        steps.take(2)
        steps.take(3)
        steps.tell()
        steps.close()


def test_what_was_counted_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from whence.store.consumer_offsets import ConsumerOffsets\n"
        "steps = ConsumerOffsets.at(Path(sys.argv[1])); steps.take(7); steps.tell(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "steps")], check=False)
    steps = ConsumerOffsets.at(tmp_path / "steps")
    assert (steps.taken, steps.reported) == (7, 1)


def test_a_counter_that_cannot_be_kept_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be kept"):
        ConsumerOffsets.at(tmp_path)


def test_a_full_disk_is_told_when_the_numbers_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file would be mapped all the same, and its first write would end the process."""

    def full(handle: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match="No space left"):
        ConsumerOffsets.at(tmp_path / "steps")


FILL = """
import os, sys
from pathlib import Path
from whence.errors import StorageError
from whence.store.consumer_offsets import ConsumerOffsets
room = os.open(sys.argv[1] + "/rest", os.O_CREAT | os.O_WRONLY)
try:
    while os.write(room, bytes(4096)):
        pass
except OSError:
    pass
try:
    ConsumerOffsets.at(Path(sys.argv[1]) / "steps").take(1)
except StorageError as error:
    sys.exit(7 if "No space left" in str(error) else 8)
"""


def test_a_full_file_system_does_not_end_the_process(tmp_path: Path) -> None:
    mount, umount = shutil.which("mount"), shutil.which("umount")
    size = ["-t", "tmpfs", "-o", "size=16k", "whence-test", str(tmp_path)]
    if os.geteuid() or not mount or not umount or subprocess.run([mount, *size], capture_output=True).returncode:
        pytest.skip("only who may mount a small file system can fill it")
    try:
        done = subprocess.run([sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, timeout=60)
    finally:
        subprocess.run([umount, str(tmp_path)], check=True)
    assert done.returncode == 7, done.stderr


def test_counters_survive_and_catch_up_with_what_others_were_told(tmp_path: Path) -> None:
    steps = ConsumerOffsets.at(tmp_path / "steps")
    steps.take_of(5, 3, whole=True)
    steps.take_of(0, 2, whole=False)
    steps.tell()
    steps.close()
    again = ConsumerOffsets.at(tmp_path / "steps")
    assert (again.taken, again.reported, again.messages[5], sum(again.messages), again.partly_taken[0]) == (
        5,
        1,
        1,
        1,
        2,
    )
    again.catch_up([2, 0, 0, 0, 0, 1])
    again.close()
    caught_up = ConsumerOffsets.at(tmp_path / "steps")
    assert (caught_up.taken, caught_up.messages[:6], caught_up.partly_taken[0]) == (5, [2, 0, 0, 0, 0, 1], 0)
    caught_up.take_of(0, 4, whole=True)
    assert ConsumerOffsets.at(tmp_path / "steps").taken == 9


def test_numbers_of_the_first_format_are_taken_over(tmp_path: Path) -> None:
    messages = [3, 0, 4, *[0] * (CLOCK_NODES_MAX - 3)]
    (tmp_path / "steps").write_bytes(pack(f"<{4 + CLOCK_NODES_MAX}Q", 0, 5, 99, 70, *messages))
    steps = ConsumerOffsets.at(tmp_path / "steps")
    assert (steps.taken, steps.reported, steps.messages[:3]) == (70, 5, [3, 0, 4]), (
        "7 messages are an odd number of them"
    )
    steps.take_of(2, 1, whole=True)
    steps.close()
    again = ConsumerOffsets.at(tmp_path / "steps")
    assert (again.taken, again.messages[:3]) == (71, [3, 0, 5])


@pytest.mark.parametrize("written_as", [3, 4, 5, 6])
def test_numbers_of_former_formats_are_taken_over_and_checked(tmp_path: Path, written_as: int) -> None:
    """The third has no positions of what is in hand, the fifth does not say whose it is, the sixth not how often the
    group was opened; a flipped bit is seen before it is turned into the present one."""
    steps = ConsumerOffsets(bytearray(ConsumerOffsets.BYTES))
    steps.take_of(2, 5, whole=True)
    steps.hand(2, 1 << 16 | 5)
    steps.place(2, 7, 5)
    steps.displace(1, 6, 2, 5)
    all_words = memoryview(bytes(steps._memory)).cast("Q").tolist()[:-2]
    words = all_words[: {3: 4 + 2 * CLOCK_NODES_MAX, 6: None}.get(written_as, -2)]
    if written_as < 5:
        words = [word - (1 << 57) for word in words]
    check = written_as if written_as < 5 else written_as + 1
    former = pack(f"<{len(words) + 1}Q", *words, check << 57 | written_as)
    (tmp_path / "steps").write_bytes(former)
    for _ in range(2):
        taken_over = ConsumerOffsets.at(tmp_path / "steps")
        assert (taken_over.taken, taken_over.messages[2], taken_over.handed[2]) == (5, 1, 1 << 16 | 5)
        assert taken_over.displaced == ({} if written_as == 3 else {(1, 6): (2, 5)})
        assert taken_over.places[2] == ((0, 0) if written_as == 3 else (7, 5))
        assert taken_over.opened == 0
        taken_over.close()
    for byte in (16, 8 * 6, len(former) - 8):
        damaged = bytearray(former)
        damaged[byte] ^= 4
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(StorageError, match="damaged"):
            ConsumerOffsets.at(tmp_path / "damaged")


def test_counters_of_another_process_or_directory_are_refused(tmp_path: Path) -> None:
    """They would say that this application has taken what another one took."""
    path = tmp_path / "steps"
    steps = ConsumerOffsets.at(path)
    steps.take(3)
    steps.close()
    ConsumerOffsets.at(path, Owner(7)).close()
    ConsumerOffsets.at(path, Owner(7, 99)).close()
    whole = path.read_bytes()
    for other, words in (
        (Owner(8, 99), "is that of process 7, and this is process 8"),
        (Owner(7, 98), "another data d"),
    ):
        with pytest.raises(StorageError, match=f"{path} .*{words}.*nothing was changed: restore the whole"):
            ConsumerOffsets.at(path, other)
    assert path.read_bytes() == whole
    for own in (Owner(7, 99), Owner(7), Owner(7, 99), None):
        again = ConsumerOffsets.at(path, own)
        assert again.taken == 3
        again.close()


def test_counters_say_how_often_the_group_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    steps = ConsumerOffsets.at(path)
    assert steps.opened == 0
    steps.note_opened(3)
    steps.take(1)
    steps.close()
    again = ConsumerOffsets.at(path)
    assert (again.opened, again.taken) == (3, 1)
    again.close()


class Watched:
    """Memory of which the first so many writes survive."""

    def __init__(self, memory: bytearray, writes: int) -> None:
        self.memory, self.left = memoryview(memory).cast("Q"), writes

    def __setitem__(self, place: int, number: int) -> None:
        if self.left:
            self.left -= 1
            self.memory[place] = number


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.booleans()), max_size=12), st.integers(0, 40))
def test_events_and_messages_agree_wherever_a_process_is_killed(
    taken: list[tuple[int, int, bool]], writes: int
) -> None:
    """Killed after so many writes: what is read back is the state after some whole number of takes."""
    memory, shadow = bytearray(ConsumerOffsets.BYTES), ConsumerOffsets(bytearray(ConsumerOffsets.BYTES))
    steps = ConsumerOffsets(memory)
    steps._places = Watched(memory, writes)  # type: ignore[assignment]
    states = [(0, shadow.messages.copy(), shadow.partly_taken.copy())]
    for node, events, whole in taken:
        steps.take_of(node, events, whole=whole)
        shadow.take_of(node, events, whole=whole)
        states.append((shadow.taken, shadow.messages.copy(), shadow.partly_taken.copy()))
    again = ConsumerOffsets(memory)
    assert (again.taken, again.messages, again.partly_taken) == states[min(writes // 2, len(taken))]


def test_each_number_is_written_in_one_piece() -> None:
    """Through memory of the machine's own words, never byte by byte."""
    memory = mmap.mmap(-1, ConsumerOffsets.BYTES)
    steps = ConsumerOffsets(memory)
    assert (steps._places.itemsize, steps._places.format) == (8, "Q")


def test_no_flipped_bit_passes_for_a_step(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    steps = ConsumerOffsets.at(path)
    for node in (0, 3, 0):
        steps.take_of(node, 4, whole=True)
    steps.hand(3, 14)
    steps.tell()
    steps.close()
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"is damaged.*restore the whole data directory"):
            ConsumerOffsets.at(path)
    path.write_bytes(whole)
    again = ConsumerOffsets.at(path)
    assert (again.taken, again.reported, again.messages[:4], again.handed[3]) == (12, 1, [2, 0, 0, 1], 14)
    again.close()


@pytest.mark.parametrize("left", [0, 1, 8, 555])
def test_numbers_that_were_cut_short_are_not_begun_anew(tmp_path: Path, left: int) -> None:
    ConsumerOffsets.at(tmp_path / "steps").close()
    whole = (tmp_path / "steps").read_bytes()
    for damaged in (whole[:left], bytes(len(whole))):
        (tmp_path / "steps").write_bytes(damaged)
        with pytest.raises(StorageError, match="is damaged"):
            ConsumerOffsets.at(tmp_path / "steps")


@pytest.mark.parametrize("block", [512, 4096])
def test_no_lost_block_passes_for_numbers_that_are_still_zero(tmp_path: Path, block: int) -> None:
    path = tmp_path / "steps"
    steps = ConsumerOffsets.at(path)
    steps.take_of(0, 4, whole=True)
    steps.tell()
    steps.displace(1, 6, 2, 5)
    steps.close()
    whole = path.read_bytes()
    for begin in range(0, len(whole), block):
        path.write_bytes(whole[:begin] + bytes(len(whole[begin : begin + block])) + whole[begin + block :])
        with pytest.raises(StorageError, match=r"steps is damaged: .*; nothing was changed: restore the whole data"):
            ConsumerOffsets.at(path)
    path.write_bytes(bytes(block) + whole[block:])
    with pytest.raises(StorageError, match="at byte 0 was never written"):
        ConsumerOffsets.at(path)
