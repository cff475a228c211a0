"""Real processes, killed or stopped at any moment and started again: nothing acknowledged is lost or repeated."""

import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest

from whence.check.judge import judge
from whence.check.verdict import Outcome
from whence.trace.schema import COLUMNS_OF, M_INC, M_PID, M_SEQ, Kind
from whence.trace.spool import gather

WORKER = str(Path(__file__).with_name("worker.py"))
KILLS, KILLS_LONG = 6, 200
NEEDED_S = 90.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Worker:
    """One process through its lives; remembers everything it acknowledged."""

    def __init__(self, pid: int, port: int, directory: Path, level: str, contacts: list[str]) -> None:
        self.stored: list[tuple[int, ...]] = []
        self._command = [sys.executable, WORKER, str(pid), str(port), str(directory), level, *contacts]
        self.start()

    def start(self) -> None:
        self.joined = threading.Event()
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, args=(self.process, self.joined), daemon=True)
        self._reader.start()

    def _read(self, process: "subprocess.Popen[str]", joined: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            word, *rest = line.split()
            if word == "joined":
                joined.set()
            elif line.endswith("\n") and len(rest) == 3:  # the last line may be torn
                self.stored.append(tuple(map(int, rest)))
        process.stdout.close()

    def end(self, how: int) -> None:
        self.process.send_signal(how)
        self.process.wait(20)
        self._reader.join(20)


@pytest.mark.no_cover
@pytest.mark.parametrize("level", ["fifo", "eventual", "causal"])
def test_acknowledged_events_survive_the_death_of_their_publisher(tmp_path: Path, level: str, long_mode: bool) -> None:
    """Process 0 is spared and sees everything; the others are killed or stopped at random moments, and go on."""
    random, ports = Random(f"kills {level}"), [free_port() for _ in range(3)]
    workers = [Worker(pid, ports[pid], tmp_path, level, [f"127.0.0.1:{ports[0]}"] if pid else []) for pid in range(3)]
    try:
        for worker in workers:
            assert worker.joined.wait(NEEDED_S)
        for _ in range(KILLS_LONG if long_mode else KILLS):
            victim = workers[random.choice((1, 2))]
            time.sleep(random.uniform(0.0, 0.4))
            if random.random() < 0.3:
                paused(victim, random.uniform(0.2, 2.5))
                continue
            victim.end(signal.SIGKILL)
            victim.start()
            if random.random() < 0.7:
                assert victim.joined.wait(NEEDED_S)
        for worker in workers:
            assert worker.joined.wait(NEEDED_S)
            worker.process.send_signal(signal.SIGUSR1)
        wanted = {event for worker in workers for event in worker.stored}
        deadline = time.monotonic() + NEEDED_S
        while missing_at_0(tmp_path, wanted) and time.monotonic() < deadline:
            time.sleep(0.5)
        for worker in workers:
            worker.end(signal.SIGTERM)
    finally:
        for worker in workers:
            worker.process.kill()
    wanted = {event for worker in workers for event in worker.stored}
    assert len(wanted) > 50
    assert missing_at_0(tmp_path, wanted) == set()
    verdicts = judge(gather([tmp_path / "trace"], "alps", "kills", "test", durable=level == "causal"))
    assert [(v.promise, v.sentence) for v in verdicts if v.outcome is Outcome.BROKEN] == []
    assert {v.promise for v in verdicts if v.holds} >= {"integrity", "no_duplicates"}


def paused(worker: Worker, seconds: float) -> None:
    """Stop a process for a while, as a suspended machine or a long collection would."""
    worker.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    worker.process.send_signal(signal.SIGCONT)


def missing_at_0(directory: Path, wanted: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    trace = gather([directory / "trace"], "alps", "kills", "test")
    at = [COLUMNS_OF[Kind.DELIVER].index(name) for name in (M_PID, M_INC, M_SEQ)]
    return wanted - {tuple(row[place] for place in at) for row in trace.rows[Kind.DELIVER] if row[0] == 0}
