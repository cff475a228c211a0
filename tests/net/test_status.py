"""A program that joins has what `whence node` has: a status socket that `whence top` finds, metrics, a quick loop."""

import asyncio
import os
import pty
import stat
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.net.live import fast, within
from whence import NetSettings, errors
from whence.api.node import join
from whence.cli.app import run
from whence.net.settings import net_settings_from
from whence.net.status_client import ask, status_path, the_node

PROGRAM = """
import asyncio, sys, whence
async def main():
    async with whence.join(int(sys.argv[1])) as node:
        await node.open("alps")
        print("up", type(asyncio.get_running_loop()).__module__, flush=True)
        await asyncio.sleep(600)
whence.run(main())
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the sockets of these tests apart from those of others."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def start(pid: int) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(pid)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("up")
    return process


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_a_program_that_joins_is_seen_by_top_and_leaves_no_socket(home: Path) -> None:
    async def main() -> None:
        async with join(7, settings=fast()) as node:
            assert (await ask(status_path(7)))["pid"] == 7
            assert stat.S_IMODE(status_path(7).stat().st_mode) == 0o600
            assert node.pid == 7
        assert list(home.glob("*.sock")) == []

    within(main())


def test_a_second_process_of_the_same_number_does_not_take_the_socket_of_the_first(
    caplog: pytest.LogCaptureFixture, home: Path
) -> None:
    async def main() -> None:
        async with join(7, settings=fast()) as one:
            async with join(7, settings=fast(cluster="other")):
                assert "another process that runs" in caplog.text
            assert (await ask(status_path(7)))["address"][1] == int(one.address.rpartition(":")[2])
            with pytest.raises(errors.JoinError, match="another process that runs"):
                async with join(7, settings=fast(cluster="third"), status=status_path(7)):
                    pass

    with caplog.at_level("WARNING", "whence.net"):
        within(main())


def test_a_program_serves_metrics_where_it_is_told_to() -> None:
    async def main() -> None:
        async with join(7, settings=fast(), status=False, metrics="127.0.0.1:0") as node:
            [served] = node._servers
            port = served._server.sockets[0].getsockname()[1]
            page = await asyncio.to_thread(lambda: urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
            assert "whence_" in page

    within(main())


def test_top_picks_the_only_node_and_asks_which_where_there_are_more(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(errors.UsageError, match="none has a socket"):
        the_node(None, None)
    first = start(41)
    try:
        assert run(["top", "--once"]) == 0
        assert "process 41" in capfd.readouterr().out
        second = start(42)
        try:
            assert run(["top", "--once"]) == 2
            assert "41, 42" in capfd.readouterr().err
        finally:
            end(second)
        assert run(["top", "--once"]) == 0, "the socket of a process that was killed remains, and is not counted"
    finally:
        end(first)


def test_top_is_left_with_q_and_leaves_the_terminal_as_it_was() -> None:
    process = start(43)
    here, there = pty.openpty()
    try:
        top = subprocess.Popen(
            [sys.executable, "-m", "whence", "top"], stdin=there, stdout=there, stderr=there, close_fds=True
        )
        shown = b""
        while b"process 43" not in shown:
            shown += os.read(here, 1 << 16)
        deadline = time.monotonic() + 60
        while top.poll() is None and time.monotonic() < deadline:
            os.write(here, b"q")
            time.sleep(0.1)
        assert top.returncode == 0
    finally:
        end(process)
        os.close(here)
        os.close(there)


def test_network_settings_can_be_said_by_name_and_wrong_ones_are_named() -> None:
    told = net_settings_from({"udp": "true", "heartbeat_ns": "200000000", "links_max": 9, "trace_segments_max": "3"})
    assert told.udp
    assert (told.heartbeat_ns, told.links_max, told.trace_segments_max) == (200_000_000, 9, 3)
    assert net_settings_from({}) == NetSettings()
    for given, words in (
        ({"loud": 1}, "'loud'; there are: .*udp"),
        ({"udp": "7"}, "udp: "),
        ({"links_max": 0}, "links_max"),
    ):
        with pytest.raises(errors.SettingError, match=words):
            net_settings_from(given)


def test_a_program_runs_on_the_quick_loop_where_it_is_installed() -> None:
    command = [sys.executable, "-c", PROGRAM, "44"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("up uvloop")
        finally:
            process.kill()
