"""Groups at causal and total as people run them from shells: started, killed, started again, stopped all at once."""

import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.net.live import within
from tests.net.test_commands import DEADLINE_S, WHENCE, running, whence
from whence.api.node import join
from whence.cli import staying
from whence.errors import OutcomeUnknownError
from whence.net.proxy import free_port
from whence.net.status_client import ask

LEVELS = pytest.mark.parametrize("level", ["causal", "total"])
DATA = pytest.mark.parametrize("data", [True, False], ids=["data", "no data"])


class Node:
    """A node with groups at some levels, through its incarnations; each group has its level's name."""

    def __init__(self, tmp: Path, pid: int, ports: Sequence[int], *levels: str, data: bool, more: Sequence[str] = ()):
        self.tmp, self.pid = tmp, pid
        self.contact = ("--contact", f"127.0.0.1:{ports[pid]}")
        self._command = [*WHENCE, "node", "--pid", str(pid), "--listen", f"127.0.0.1:{ports[pid]}", "--json"]
        self._command += [word for level in levels for word in ("--group", f"{level}={level}")]
        self._command += [word for port in ports if port != ports[pid] for word in ("--contact", f"127.0.0.1:{port}")]
        self._command += ["--status", str(self.socket), *more]
        if data:
            self._command += ["--data", str(tmp / f"data-{pid}")]
        self.process: subprocess.Popen[str] | None = None

    @property
    def socket(self) -> Path:
        return self.tmp / f"s{self.pid}"

    def start(self) -> None:
        """Start an incarnation; do not wait for it."""
        self.socket.unlink(missing_ok=True)
        with (self.tmp / f"log-{self.pid}").open("a") as log:
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)

    def up(self) -> None:
        """Wait until it is a member of all its groups."""
        assert self.process is not None
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), (self.tmp / f"log-{self.pid}").read_text()

    def end(self, how: int = signal.SIGTERM) -> None:
        """End the incarnation."""
        self.tell(how)
        self.ended(how)

    def tell(self, how: int = signal.SIGTERM) -> None:
        """Send a signal, and do not wait for what becomes of it."""
        if self.process is not None:
            self.process.send_signal(how)

    def ended(self, how: int = signal.SIGTERM) -> None:
        """Wait until the incarnation has ended by a signal."""
        if self.process is not None:
            code = self.process.wait(DEADLINE_S)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None
            assert code == (0 if how == signal.SIGTERM else -how), (self.tmp / f"log-{self.pid}").read_text()

    def members(self, group: str) -> list[int]:
        """Return who is in a group, as this node sees it."""
        told = asyncio.run(ask(self.socket))
        view = next(each for each in told["groups"] if each["name"] == group)["view"]
        return sorted(member["pid"] for member in view["members"])

    def hands_out(self, group: str, count: int) -> None:
        """Wait until so many events of a group were handed out here."""
        deadline = time.monotonic() + DEADLINE_S
        while (
            next(each["delivered"] for each in asyncio.run(ask(self.socket))["groups"] if each["name"] == group) < count
        ):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def sees(self, group: str, *pids: int) -> None:
        """Wait until these are the members of a group."""
        deadline = time.monotonic() + DEADLINE_S
        while self.members(group) != list(pids):
            assert time.monotonic() < deadline, self.members(group)
            time.sleep(0.1)


@contextmanager
def nodes(tmp: Path, count: int, *levels: str, data: bool, more: Sequence[str] = ()) -> Iterator[list[Node]]:
    """Make nodes that know each other's addresses, not yet started; end them at the end."""
    ports = [free_port() for _ in range(count)]
    made = [Node(tmp, pid, ports, *levels, data=data, more=more) for pid in range(count)]
    try:
        yield made
    finally:
        for node in made:
            if node.process is not None and node.process.poll() is None:
                node.end(signal.SIGKILL)


def published(level: str, node: Node, *lines: str, **options: Any) -> None:
    """Publish lines from a shell, as a guest, until every member has them."""
    more = [word for name, value in options.items() for word in (f"--{name}", value)]
    said = whence("pub", level, "--level", level, *node.contact, *more, "--json", stdin="\n".join(lines))
    assert (json.loads(said)["published"], json.loads(said)["until"]) == (len(lines), "settled")


@LEVELS
def test_guests_join_a_group_without_founders_and_leave_it(level: str, tmp_path: Path) -> None:
    with nodes(tmp_path, 1, level, data=False) as (node,):
        node.start()
        node.up()
        listener = subprocess.Popen(
            [*WHENCE, "sub", level, "--level", level, "--pid", "7", *node.contact], stdout=subprocess.PIPE, text=True
        )
        node.sees(level, 0, 7)
        published(level, node, "one", "two", pid=8, members=3)
        node.sees(level, 0, 7)
        assert listener.stdout is not None
        assert [listener.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        listener.send_signal(signal.SIGINT)
        assert listener.wait(DEADLINE_S) == 0
        listener.stdout.close()
        node.sees(level, 0)
        node.end()


@LEVELS
def test_a_guest_with_a_data_directory_says_that_it_stays_and_leaves_for_good_where_asked_to(
    level: str, tmp_path: Path
) -> None:
    """A member that is away holds everybody up, and nobody expects that of a command that has ended."""
    with nodes(tmp_path, 1, level, data=True) as (node,):
        node.start()
        node.up()
        for command, name, ends in ("pub", "pubber", ()), ("sub", "subber", ("--seconds", "0.5")):
            guest = [*WHENCE, command, level, "--level", level, "--name", name, *node.contact, *ends]
            guest += ["--data", str(tmp_path / name)]
            for more, stays in ((), True), (("--leave",), False):
                done = subprocess.run(
                    [*guest, *more], input="a\nb\n", capture_output=True, text=True, timeout=DEADLINE_S
                )
                assert done.returncode == 0, done.stderr
                said = f"whence: {name} stays a member of group '{level}', and the others wait" in done.stderr
                assert said is (f"whence remove {level} {name} at a member" in done.stderr) is stays
                assert len(node.members(level)) == 1 + stays
        node.end()


def test_a_guest_that_cannot_leave_says_so_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two the second cannot decide a view without itself while the first is away."""
    monkeypatch.setattr(staying, "LEAVE_S", 0.5)

    async def main() -> None:
        async with (
            join(1, data=tmp_path / "1", status=False) as one,
            join(2, data=tmp_path / "2", contacts=[one.address], status=False) as two,
        ):
            await one.open("alps", "causal", create=True)
            joined = await two.open("alps", "causal")
            assert staying.sentence(joined, "pubber")
            await one.live.close()
            with pytest.raises(
                OutcomeUnknownError, match=r"9 events are published, and pubber could not .* waited for 1"
            ):
                await staying.leave(joined, "pubber", "9 events are published")
            assert staying.sentence(joined, "pubber")

    within(main())


def test_a_guest_of_a_group_that_nobody_leaves_for_good_is_told_so(tmp_path: Path) -> None:
    with running("--pid", 1, "--group", "alps=fifo", "--status", tmp_path / "s") as (_, told):
        said = whence("pub", "alps", "--contact", told["address"], "--leave", stdin="a", code=2)
    assert "--leave is for groups whose members change by views, and those of group 'alps' do not" in said


@DATA
def test_nodes_with_several_groups_may_be_started_in_any_order(data: bool, tmp_path: Path) -> None:
    """Without founders too: who comes first waits for its contacts, and the lowest that wants a group begins it."""
    with nodes(tmp_path, 3, "fifo", "causal", "total", data=data) as started:
        for node in reversed(started):
            node.start()
            time.sleep(0.3)
        for node in started:
            node.up()
        for level in ("causal", "total"):
            for node in started:
                node.sees(level, 0, 1, 2)
            published(level, started[1], "line")
        for node in started:
            node.end()


@LEVELS
@DATA
@pytest.mark.parametrize("victim", [0, 2])
def test_a_node_that_is_killed_comes_back_and_everybody_goes_on(
    level: str, data: bool, victim: int, tmp_path: Path
) -> None:
    """With a data directory it is the same member; without, it joins anew and replaces the one it was."""
    with nodes(tmp_path, 3, level, data=data, more=("--founders", "0,1,2")) as started:
        for node in started:
            node.start()
        for node in started:
            node.up()
        published(level, started[1], "before")
        started[victim].end(signal.SIGKILL)
        started[victim].start()
        started[victim].up()
        published(level, started[victim], "after")
        for node in started:
            node.sees(level, 0, 1, 2)
        for node in started:
            node.end()


@LEVELS
def test_a_group_whose_nodes_all_stopped_goes_on_by_itself(level: str, tmp_path: Path) -> None:
    """Nobody names founders, and they are started in another order; killed or told to stop."""
    with nodes(tmp_path, 3, level, data=True) as started:
        for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            for node in started:
                node.start()
            for node in started:
                node.up()
                node.sees(level, 0, 1, 2)
            published(level, started[2], "line")
            for node in started:
                node.end(how)
            started.reverse()


@LEVELS
def test_a_node_whose_directory_was_wiped_joins_anew(level: str, tmp_path: Path) -> None:
    with nodes(tmp_path, 3, level, data=True) as started, ExitStack() as stack:
        for node in started:
            node.start()
        for node in started:
            node.up()
            node.sees(level, 0, 1, 2)
        published(level, started[0], "before")
        started[1].end(signal.SIGKILL)
        (tmp_path / "data-1").rename(tmp_path / "lost")
        started[1].start()
        started[1].up()
        published(level, started[1], "after")
        for node in started:
            stack.callback(node.end)
            node.sees(level, 0, 1, 2)


def test_a_node_says_that_it_was_told_to_leave_before_it_ends(tmp_path: Path) -> None:
    with nodes(tmp_path, 1, "causal", data=True) as (node,):
        node.start()
        node.up()
        whence("leave", "causal", "--socket", node.socket)
        node.ended()
    last = (tmp_path / "log-0").read_text().splitlines()[-2:]
    assert last == [
        "whence: process 0 has left group 'causal'", "whence: process 0 is in no group any more, and ends",
    ]  # fmt: skip


@contextmanager
def publishing(node: Node, level: str, kind: str, *more: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run `whence pub` at a pipe or a terminal that stays open; give where to write its lines."""
    here, there = os.pipe() if kind == "pipe" else pty.openpty()[::-1]
    process = subprocess.Popen(
        [*WHENCE, "pub", level, "--level", level, "--pid", "7", *node.contact, *more],
        stdin=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process, there
    finally:
        process.kill()
        process.communicate()
        os.close(here)
        os.close(there)


@pytest.mark.parametrize(("level", "kind"), [("causal", "pipe"), ("total", "terminal")])
def test_an_interrupt_ends_pub_in_order_though_its_input_goes_on(level: str, kind: str, tmp_path: Path) -> None:
    with nodes(tmp_path, 1, level, data=False) as (node,):
        node.start()
        node.up()
        with publishing(node, level, kind) as (process, lines):
            os.write(lines, b"one\n")
            node.hands_out(level, 1)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 130, said
            assert f"interrupted; published 1 events in group '{level}'" in said
            assert "Traceback" not in said
            assert node.members(level) == [0], "it has left"
        node.end()


def test_a_second_interrupt_ends_pub_though_nobody_lets_it_go(tmp_path: Path) -> None:
    with nodes(tmp_path, 1, "causal", data=False) as (node,):
        node.start()
        node.up()
        with publishing(node, "causal", "pipe", "--log", "text") as (process, lines):
            os.write(lines, b"one\n")
            node.hands_out("causal", 1)
            node.tell(signal.SIGSTOP)
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            assert any("is being left" in line for line in process.stdout), "it ended before it said so"
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 130, said
            assert "ended by a second signal" in said
            assert "Traceback" not in said


@pytest.mark.parametrize("command", ["pub", "sub", "node"])
def test_an_interrupt_ends_a_command_that_still_looks_for_a_contact(command: str, tmp_path: Path) -> None:
    """The contact takes the call and says nothing, and is looked for longer than this test would wait."""
    mute = socket.create_server(("127.0.0.1", 0))
    patience = ["--net", f"call_ns={2 * DEADLINE_S * 10**9}", "--contact", f"127.0.0.1:{mute.getsockname()[1]}"]
    what = ["--group", "g=causal", "--status", str(tmp_path / "s")] if command == "node" else ["g", "--level", "causal"]
    process = subprocess.Popen(
        [*WHENCE, command, "--pid", "7", *what, *patience],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    mute.settimeout(DEADLINE_S)
    called, _ = mute.accept()
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=DEADLINE_S)
    called.close()
    mute.close()
    assert process.returncode == (130 if command == "pub" else 0), said
    assert "Traceback" not in said
