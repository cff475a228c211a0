"""What commands do before they have a node: draw a number, find the socket of another."""

import os
import random
import tempfile
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path

import pytest

from tests.net.live import within
from whence.api.node import Node, join
from whence.cli import live
from whence.errors import NameTakenError, UsageError
from whence.net.status_client import status_path


class Drawn:
    """Draws what a test says."""

    def __init__(self, *pids: int) -> None:
        self._pids: Iterator[int] = chain(pids, count(29_000))

    def choice(self, among: range) -> int:
        return next(self._pids)


def test_a_guest_whose_number_is_taken_draws_another(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Drawn(28_001, 28_001, 28_002)
    monkeypatch.setattr(random, "SystemRandom", lambda: drawn)

    async def main() -> None:
        async with join(1) as one, join(28_001, contacts=[one.address]):

            def make(pid: int | None) -> Node:
                return join(pid, contacts=[one.address])

            async with live.opened_node(None, None, make) as node:
                assert node.pid == 28_002
            with pytest.raises(NameTakenError, match="another process 28001 runs"):
                async with live.opened_node(28_001, None, make):
                    pass

    within(main())


def test_a_guest_with_a_data_directory_keeps_the_number_it_drew(tmp_path: Path) -> None:
    async def main() -> None:
        pids = []
        for _ in range(2):
            async with live.opened_node(None, tmp_path, lambda pid: join(pid, data=tmp_path)) as node:
                pids.append(node.pid)
        assert pids[0] == pids[1]

    within(main())


@pytest.mark.parametrize("wrong", ["open to others", "a link", "a file"])
def test_a_directory_for_sockets_that_another_may_have_made_is_refused(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    path = tmp_path / f"whence-{os.getuid()}"
    if wrong == "open to others":
        path.mkdir()
        path.chmod(0o777)
    elif wrong == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_text("")
    with pytest.raises(UsageError, match=r"no directory of this user alone|cannot hold"):
        status_path(3)


def test_the_directory_for_sockets_is_made_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    for _ in range(2):
        assert status_path(3) == tmp_path / f"whence-{os.getuid()}" / "whence-3.sock"
    assert status_path(3).parent.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert status_path(3) == tmp_path / "run" / "whence-3.sock"
