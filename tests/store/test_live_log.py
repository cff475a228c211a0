"""The journal on a real disk: durable before acknowledged, a prefix after any crash, a clear refusal when it fails."""

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest

from whence.errors import LimitError, StorageError
from whence.store import log as module
from whence.store.journal import FORMAT, head
from whence.store.log import RECORD_BYTES_MAX, DiskFile, Log
from whence.store.owner import Owner

RECORDS = [b"\x00", b"a", b"bb" * 1000, b"\x00" * 9]


def written(path: Path, records: list[bytes]) -> None:
    log = Log(path)
    log.append(records)
    log.sync()
    log.close()


def test_what_was_synced_is_read_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "journal"
    written(path, RECORDS[:2])
    written(path, RECORDS[2:])
    log = Log(path)
    assert log.records == RECORDS
    assert log.size == path.stat().st_size
    log.close()


def test_one_sync_commits_everything_appended_before_it(tmp_path: Path) -> None:
    log = Log(tmp_path / "journal")
    for record in RECORDS:
        log.append([record])
    log.sync()
    log.sync()
    assert log.syncs == 1, "nothing new, nothing to sync"
    log.close()


@pytest.mark.parametrize("kept", range(60))
def test_a_tail_torn_anywhere_is_cut_off_and_the_journal_goes_on(
    tmp_path: Path, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal"
    written(path, [b"first"])
    durable = path.read_bytes()
    written(path, [b"second", b"third"])
    torn = (durable + path.read_bytes()[len(durable) :])[: len(durable) + kept]
    path.write_bytes(torn)
    log = Log(path)
    survived = log.records
    assert survived == [b"first", b"second", b"third"][: len(survived)]
    assert survived[0] == b"first"
    assert ("torn tail" in caplog.text) == (log.size < len(torn)), "a cut is told"
    log.append([b"next"])
    log.sync()
    log.close()
    assert Log(path).records == [*survived, b"next"]


@pytest.mark.parametrize("left", [0, 1, 23, 24, 30, -1])
def test_a_journal_that_lost_what_was_durable_is_refused_and_not_touched(tmp_path: Path, left: int) -> None:
    path = tmp_path / "journal"
    written(path, [b"first", b"second", b"third"])
    cut = path.read_bytes()[:left]
    path.write_bytes(cut)
    with pytest.raises(StorageError, match=f"{path} is damaged at byte {len(cut)}.*restore the whole data directory"):
        Log(path)
    assert path.read_bytes() == cut


def test_a_wrong_bit_is_refused_with_its_place_even_in_the_last_record(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, [b"first", b"second", b"third"])
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(StorageError, match=f"{path} is damaged at byte"):
            Log(path)


def test_what_a_killed_process_had_written_and_not_synced_is_durable_once_it_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, [b"first"])
    before = path.read_bytes()
    written(path, [b"second"])
    path.write_bytes(before + path.read_bytes()[len(before) :])  # the head of before: killed after the write
    file = Counting(path)
    log = Log(path, file)
    assert log.records == [b"first", b"second"]
    assert file.syncs == 1
    log.close()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StorageError, match="damaged"):
        Log(path)


class Counting(DiskFile):
    """A disk that counts."""

    syncs = 0

    def sync(self) -> None:
        self.syncs += 1
        super().sync()


def test_a_journal_of_an_earlier_format_is_refused_with_what_to_do_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    named = head(0)[:7] + bytes([FORMAT - 1]) + (24).to_bytes(8, "little")
    path.write_bytes(earlier := named + crc32(named).to_bytes(4, "little") + bytes(4))
    with pytest.raises(
        StorageError, match=f"{path} has format 2, and this version knows 3; .*the version that wrote it"
    ):
        Log(path)
    assert path.read_bytes() == earlier


def test_a_rewritten_journal_whose_place_is_not_certain_takes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file is in the place of the old one, and after a crash either may be there: neither may be written to."""
    path = tmp_path / "journal"
    written(path, [b"old"])
    log = Log(path)

    def fail(directory: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(module, "sync_directory", fail)
    with pytest.raises(StorageError, match="failed"):
        log.rewrite([(b"", b"new")])
    with pytest.raises(StorageError, match="failed"):
        log.append([b"lost if it were taken"])
    log.close()


def test_compaction_replaces_all_records_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, [b"x" * 1000] * 50)
    log = Log(path)
    before = log.size
    log.rewrite([(b"", b"still"), (b"co", b"unts")])
    assert log.size < before
    log.append([b"new"])
    log.sync()
    log.close()
    assert Log(path).records == [b"still", b"counts", b"new"]


def test_a_compaction_that_was_interrupted_leaves_the_old_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, [b"old"])
    (tmp_path / ".journal.unfinished").write_bytes(b"half a file")
    assert Log(path).records == [b"old"]
    assert not (tmp_path / ".journal.unfinished").exists()


class Failing(DiskFile):
    """A disk that fails at one operation."""

    def __init__(self, path: Path, at: str, error: int) -> None:
        super().__init__(path)
        self._at, self._error = at, error

    def write(self, pieces: Sequence[bytes]) -> None:
        if self._at == "write":
            data = b"".join(pieces)
            super().write([data[: len(data) // 2]])
            raise OSError(self._error, os.strerror(self._error))
        super().write(pieces)

    def sync(self) -> None:
        if self._at == "sync":
            raise OSError(self._error, os.strerror(self._error))
        super().sync()


@pytest.mark.parametrize(("at", "error"), [("write", errno.ENOSPC), ("sync", errno.EIO)])
def test_a_disk_that_fails_is_believed_for_good(tmp_path: Path, at: str, error: int) -> None:
    path = tmp_path / "journal"
    written(path, [b"safe"])
    log = Log(path, Failing(path, at, error))
    log.append([b"lost"])
    with pytest.raises(StorageError, match=os.strerror(error)):
        log.sync()
    with pytest.raises(StorageError, match=os.strerror(error)):
        log.sync()
    with pytest.raises(StorageError):
        log.append([b"more"])
    log.close()
    recovered = Log(path).records
    assert recovered[0] == b"safe"
    assert b"more" not in recovered


def test_a_full_disk_refuses_with_a_sentence(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: the kernel refuses in the same way."""
    program = (
        "import resource, signal, sys; from pathlib import Path; from whence.store.log import Log\n"
        "from whence.errors import StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "log = Log(Path(sys.argv[1]))\n"
        "acknowledged = 0\n"
        "try:\n"
        "    while True:\n"
        "        log.append([b'x' * 100]); log.sync(); acknowledged += 1\n"
        "except StorageError as error:\n"
        "    print(acknowledged, error)\n"
    )
    path = tmp_path / "journal"
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    acknowledged, _, sentence = done.stdout.partition(" ")
    assert "failed: File too large" in sentence
    assert len(Log(path).records) >= int(acknowledged) > 10


def test_a_record_that_is_too_large_or_empty_and_a_closed_journal_are_refused(tmp_path: Path) -> None:
    log = Log(tmp_path / "journal")
    with pytest.raises(StorageError, match="over the limit"):
        log.append([bytes(RECORD_BYTES_MAX + 1)])
    with pytest.raises(LimitError, match="BODY_BYTES_MIN"):
        log.append([b""])
    log.close()
    with pytest.raises(StorageError, match="closed"):
        log.append([b"x"])


def test_a_journal_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be opened"):
        Log(tmp_path / "file" / "journal")
    with pytest.raises(StorageError, match="cannot be opened"):
        Log(tmp_path)


KILLED = """
import sys; from pathlib import Path; from whence.store.log import Log
log = Log(Path(sys.argv[1]))
number = len(log.records)
while True:
    log.append([b'%d' % number]); log.sync(); number += 1
    print(number, flush=True)
    if number % 50 == 0:
        log.rewrite([(b'', b'%d' % each) for each in range(number)])
"""


def test_nothing_that_was_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path, long_mode: bool) -> None:
    path = tmp_path / "journal"
    for _ in range(50 if long_mode else 6):
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(70):
            writer.stdout.readline()
        writer.kill()
        acknowledged = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        log = Log(path)
        assert log.records == [b"%d" % number for number in range(len(log.records))]
        assert not acknowledged or len(log.records) >= int(acknowledged[-1])
        log.close()


# --- whose it is ---

MINE, OTHERS, ELSEWHERE = Owner(7, 99), Owner(8, 98), Owner(7, 98)


def opened_by(path: Path, owner: Owner | None) -> list[bytes]:
    """Open a journal, close it, and return its records."""
    log = Log(path, owner=owner)
    log.close()
    return log.records


def test_a_journal_of_another_process_or_directory_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    """What it holds are another member's promises: a process that went on with them would be two members at once."""
    path = tmp_path / "journal"
    log = Log(path, owner=MINE)
    log.append([b"one"])
    log.sync()
    log.close()
    whole = path.read_bytes()
    for other, words in (
        (OTHERS, "is that of process 7, and this is process 8"),
        (ELSEWHERE, "another data directory"),
    ):
        with pytest.raises(StorageError, match=f"{path} .*{words}.*nothing was changed: restore the whole"):
            Log(path, owner=other)
    assert path.read_bytes() == whole
    assert opened_by(path, MINE) == opened_by(path, Owner(7)) == opened_by(path, None) == [b"one"]


def test_a_journal_that_does_not_say_whose_it_is_opens_and_says_it_from_then_on(tmp_path: Path) -> None:
    """Earlier versions wrote such ones."""
    path = tmp_path / "journal"
    log = Log(path)
    log.append([b"one", b"two"])
    log.sync()
    log.close()
    assert opened_by(path, MINE) == [b"one", b"two"]
    size = path.stat().st_size
    assert opened_by(path, MINE) == [b"one", b"two"]
    assert path.stat().st_size == size, "it is said once"
    with pytest.raises(StorageError, match="is that of process 7"):
        Log(path, owner=OTHERS)


def test_a_journal_that_is_rewritten_still_says_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    log = Log(path, owner=MINE)
    log.append([b"one", b"two"])
    log.sync()
    log.rewrite([(b"", b"both")])
    log.close()
    assert opened_by(path, MINE) == [b"both"]
    with pytest.raises(StorageError, match="is that of process 7"):
        Log(path, owner=OTHERS)


def test_a_journal_says_how_often_its_group_was_opened_also_once_it_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    log = Log(path, owner=MINE)
    assert log.opened == 0
    for number in (1, 2):
        log.note_opened(number)
        log.append([b"one"])
    log.sync()
    log.close()
    again = Log(path, owner=MINE)
    assert (again.opened, again.records) == (2, [b"one", b"one"])
    again.rewrite([(b"", b"both")])
    again.close()
    rewritten = Log(path, owner=MINE)
    assert (rewritten.opened, rewritten.records) == (2, [b"both"])
    rewritten.close()
