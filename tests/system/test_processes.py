"""The command line as a real process: as a script and as a module, quiet pipes, a clean end when interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_cover

WHENCE = [str(Path(sys.executable).with_name("whence"))]
MODULE = [sys.executable, "-m", "whence"]
SMALL = ["simulate", "--level", "fifo", "--nodes", "5", "--events", "5", "--json"]


def finished(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_script_and_the_module_are_the_same_command() -> None:
    runs = [finished(*start, *SMALL) for start in (WHENCE, MODULE)]
    assert [(run.returncode, run.stderr) for run in runs] == [(0, "")] * 2
    assert len({json.loads(run.stdout)["digest"] for run in runs}) == 1


def test_exit_codes_reach_the_shell(tmp_path: Path) -> None:
    refused = finished(*MODULE, "check", str(tmp_path / "nowhere"))
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1


def test_a_reader_that_stops_reading_causes_no_noise() -> None:
    process = subprocess.Popen([*MODULE, *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read()
    process.stderr.close()
    process.wait(60)
    assert b"Traceback" not in told
    assert b"BrokenPipe" not in told


@pytest.mark.parametrize("whom", ["the command alone", "its whole group of processes"])
def test_an_interrupted_exploration_ends_at_once_with_one_line_and_leaves_no_workers(whom: str, tmp_path: Path) -> None:
    """A terminal interrupts the whole group, a supervisor only the command; both see the same end."""
    process = subprocess.Popen(
        [*MODULE, "explore", "--level", "fifo", "--schedules", "1000000", "--workers", "2", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_interrupts,
    )
    _until(lambda: len(_workers_of(process.pid)) == 2)
    if whom == "the command alone":
        os.kill(process.pid, signal.SIGINT)
    else:
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert err == "whence: interrupted\n"
    _until(lambda: _group_of(process.pid) == [])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_workers_of_an_exploration_end_with_it_however_it_ends(how: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*MODULE, "explore", "--level", "fifo", "--schedules", "1000000", "--workers", "2", "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _until(lambda: len(_workers_of(process.pid)) == 2)
    os.kill(process.pid, how)
    process.wait(30)
    _until(lambda: _group_of(process.pid) == [])


def _hear_interrupts() -> None:
    """Undo what a shell does to the interrupts of background jobs, which the tests may be one of."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _group_of(leader: int) -> list[str]:
    """Return the command lines of a process group that still runs."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text().rpartition(")")[2].split()
                command = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            state, group = status[0], int(status[2])
            if group == leader and state != "Z":
                found.append(command)
    return found


def _workers_of(leader: int) -> list[str]:
    return [command for command in _group_of(leader) if "spawn_main" in command]


def _until(happens: object) -> None:
    """Wait for something that must happen soon; fail if it does not."""
    assert callable(happens)
    give_up_at = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
