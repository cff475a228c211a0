"""A data directory: one process at a time, always the same one, and never an incarnation twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from whence.errors import StorageError, UsageError
from whence.store.directory import DataDirectory, owner_of
from whence.store.log import Log


def used(path: Path, at_least: int = 1, pid: int = 7) -> int:
    directory = DataDirectory(path, pid)
    try:
        return directory.begin_incarnation(at_least)
    finally:
        directory.close()


def test_every_life_has_a_later_incarnation_than_all_before_and_than_the_time_gives(tmp_path: Path) -> None:
    assert [used(tmp_path / "d", at_least) for at_least in (100, 50, 101, 500)] == [100, 101, 102, 500]


def test_its_file_names_earlier_incarnations_as_it_always_did(tmp_path: Path) -> None:
    """A directory that an earlier version wrote is read, and the other way round."""
    data = DataDirectory(tmp_path, 3)
    begun = [data.begin_incarnation(1), data.begin_incarnation(1)]
    assert f'"lives":{begun}'.replace(" ", "") in (tmp_path / "identity").read_text()
    data.close()
    again = DataDirectory(tmp_path, 3)
    assert again.incarnations == begun
    again.close()


def test_a_wiped_directory_gets_what_the_time_gives(tmp_path: Path) -> None:
    assert used(tmp_path / "d", 100) == 100
    for file in (tmp_path / "d").iterdir():
        file.unlink()
    assert used(tmp_path / "d", 101) == 101


def test_it_knows_whether_anybody_lived_here_before(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "d", 7)
    assert directory.is_new
    directory.begin_incarnation(1)
    directory.close()
    again = DataDirectory(tmp_path / "d", 7)
    assert not again.is_new
    again.close()


def test_two_nodes_cannot_use_one_directory_and_the_second_is_told_who_does(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path / "d", 7)
    with pytest.raises(StorageError, match=rf"in use in process {os.getpid()} of this system"):
        DataDirectory(tmp_path / "d", 7)
    first.close()
    DataDirectory(tmp_path / "d", 7).close()


def test_another_process_cannot_use_it_and_neither_a_kill_nor_a_child_keeps_the_lock(tmp_path: Path) -> None:
    program = (
        "import os, sys, time; from pathlib import Path; from whence.store.directory import DataDirectory\n"
        "held = DataDirectory(Path(sys.argv[1]), 7)\n"
        "runs, said = os.pipe(); child = os.fork()\n"
        "if not child: os.write(said, b'!'); time.sleep(60); os._exit(0)\n"
        "os.read(runs, 1); print(child, flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "d")], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        with pytest.raises(StorageError, match=rf"in process {holder.pid} of this system"):
            DataDirectory(tmp_path / "d", 7)
    finally:
        holder.kill()
        holder.wait()
    try:
        DataDirectory(tmp_path / "d", 7).close()
    finally:
        os.kill(child, signal.SIGKILL)
        holder.stdout.close()


def test_it_belongs_to_one_pid(tmp_path: Path) -> None:
    assert owner_of(tmp_path / "d") is None
    used(tmp_path / "d")
    assert owner_of(tmp_path / "d") == 7
    with pytest.raises(UsageError, match="is that of process 7, not of 8"):
        DataDirectory(tmp_path / "d", 8)
    used(tmp_path / "d")


def test_no_flipped_bit_in_its_identity_is_believed(tmp_path: Path) -> None:
    used(tmp_path / "d", 1000)
    file = tmp_path / "d" / "identity"
    whole = file.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        file.write_bytes(damaged)
        with pytest.raises(StorageError, match="restore the whole data directory"):
            used(tmp_path / "d", 1)
        file.write_bytes(whole)


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "later"])
def test_a_damaged_identity_is_refused_with_what_to_do(tmp_path: Path, damage: str) -> None:
    used(tmp_path / "d", 1000)
    Log(tmp_path / "d" / "groups" / "aa.journal").close()
    file = tmp_path / "d" / "identity"
    if damage == "gone":
        file.unlink()
    elif damage == "later":
        text = b'{"format":2,"pid":7,"incarnation":5}'
        file.write_bytes(text + b"\n%08x\n" % crc32(text))
    else:
        file.write_bytes(file.read_bytes()[: 20 if damage == "cut" else 0])
    with pytest.raises(StorageError, match=r"restore the whole data directory|update it"):
        DataDirectory(tmp_path / "d", 7)


def test_files_of_a_group_that_are_gone_are_missed(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "d", 7)
    directory.begin_incarnation(1)
    journal, steps = (directory.stem("alps").with_suffix(end) for end in (".journal", ".steps"))
    directory.check_stored("alps", [journal, steps])
    for file in (journal, steps):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
    directory.note_opened("alps", 1)
    directory.close()
    journal.unlink()
    again = DataDirectory(tmp_path / "d", 7)
    with pytest.raises(StorageError, match=r"\.journal of group 'alps' was kept in the data directory and is gone"):
        again.check_stored("alps", [journal, steps])
    steps.unlink()
    with pytest.raises(StorageError, match=r"\.steps of group 'alps' were kept in the data directory and are gone"):
        again.check_stored("alps", [journal, steps])
    again.check_stored("andes", [again.stem("andes").with_suffix(".journal")])
    again.close()


@pytest.mark.parametrize(
    ("counted", "written", "noted", "older"),
    [
        (0, 0, 0, None),
        (3, 3, 3, None),
        (4, 3, 3, None),
        (4, 4, 3, None),
        (9, 4, 4, None),
        (2, 3, 3, "steps"),
        (0, 1, 0, "steps"),
        (3, 3, 4, "steps"),
        (3, 2, 3, "journal"),
        (3, 0, 3, "journal"),
    ],
)
def test_a_file_with_fewer_openings_than_were_on_disk_after_it_is_older(
    tmp_path: Path, counted: int, written: int, noted: int, older: str | None
) -> None:
    """The counter's number is written first, the directory's last, and a process may be killed between any two, again
    and again."""
    directory = DataDirectory(tmp_path, 7)
    if noted:
        directory.note_opened("alps", noted)
    steps, journal = tmp_path / "steps", tmp_path / "journal"
    if older is None:
        number = directory.begin_opening("alps", (steps, counted), (journal, written))
        assert number > max(counted, written, noted)
    else:
        with pytest.raises(StorageError, match=rf"{older} of group 'alps' is older .*restore the whole data directory"):
            directory.begin_opening("alps", (steps, counted), (journal, written))
    directory.close()


def test_every_directory_has_a_number_of_its_own_that_it_keeps(tmp_path: Path) -> None:
    """Two processes of two clusters may have one pid, and one process two directories."""
    owners = []
    for name in ("one", "one", "two"):
        directory = DataDirectory(tmp_path / name, 7)
        owners.append(directory.owner())
        directory.close()
    assert owners[0] == owners[1] != owners[2]
    assert owners[0].pid == owners[2].pid == 7


def test_a_directory_that_stored_groups_before_there_were_numbers_gets_none(tmp_path: Path) -> None:
    """A version without them drops the number when it writes the file; the groups' files may have it still."""
    directory = DataDirectory(tmp_path, 7)
    directory.note_opened("alps", 1)
    directory.close()
    file = tmp_path / "identity"
    fields = msgspec.json.decode(file.read_bytes().split(b"\n")[0])
    del fields["directory"]
    text = msgspec.json.encode(fields)
    file.write_bytes(text + b"\n%08x\n" % crc32(text))
    again = DataDirectory(tmp_path, 7)
    assert again.owner() == (7, 0)
    again.close()


def test_a_directory_of_the_first_format_is_taken_over(tmp_path: Path) -> None:
    """It counted lives from 1 and did not say whose it was; journals that held nothing had no bytes."""
    path = tmp_path / "d"
    (path / "groups").mkdir(parents=True)
    (path / "boot").write_text("12")
    (path / "groups" / "aa.journal").write_bytes(b"")
    directory = DataDirectory(path, 7)
    assert not directory.is_new
    assert directory.begin_incarnation(5) == 13
    directory.close()
    Log(path / "groups" / "aa.journal").close()
    assert owner_of(path) == 7
    assert not (path / "boot").exists()


def test_a_count_of_the_first_format_that_is_no_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "boot").write_text("nonsense")
    with pytest.raises(StorageError, match="damaged"):
        DataDirectory(tmp_path, 7)


def test_only_its_user_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        used(tmp_path / "deep" / "d")
        Log(tmp_path / "deep" / "d" / "groups" / "aa.journal").close()
    finally:
        os.umask(before)
    for each in (tmp_path / "deep").rglob("*"):
        assert each.stat().st_mode & 0o077 == 0, each
    assert (tmp_path / "deep").stat().st_mode & 0o077 == 0


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be used"):
        DataDirectory(tmp_path / "file", 7)
