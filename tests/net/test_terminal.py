"""What comes from peers is shown by a terminal and never obeyed; and what a live group can be asked to do."""

import io
import logging
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.net.live import nodes, open_all, within
from tests.net.test_connections import links
from whence.api.node import endpoint, join
from whence.cli.live import TextLines
from whence.cli.output import print_message
from whence.cli.sub import for_terminal
from whence.cli.top import status_page
from whence.errors import UsageError, printable
from whence.net.status import status

EVIL = "\x1b[2J\x9b2J\u202e[red]x\r\n\x07"


def test_only_what_cannot_be_printed_is_escaped() -> None:
    assert printable("b\u00fccher [1] 'a' \\") == "b\u00fccher [1] 'a' \\"
    assert printable(EVIL) == r"\x1b[2J\x9b2J\u202e[red]x\r\n\x07"
    assert printable("\U000e0001") == r"\U000e0001"


def test_top_shows_names_of_peers_and_groups_and_obeys_none() -> None:
    async def main() -> dict[str, Any]:
        async with nodes(1) as started:
            await open_all(started)
            return status(started[0].live)

    told = within(main())
    told["cluster"] = told["groups"][0]["name"] = EVIL
    told["peers"] = [
        {"pid": 2, "name": "", "incarnation": 1, "address": EVIL, "connected": True, "rtt_ms": None, "waiting_bytes": 0,
         "dropped_frames": 0}
    ]  # fmt: skip
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=False).print(status_page(told, {}, 1.0))
    shown = out.getvalue()
    assert shown.count(r"\x1b[2J\x9b2J\u202e[red]x\r\n\x07") == 3
    assert all(line.isprintable() for line in shown.split("\n"))


def test_errors_logs_and_printed_events_are_escaped_for_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(f"it says {EVIL}")
    assert capsys.readouterr().err.rstrip("\n").isprintable()
    record = logging.LogRecord("whence.net", logging.INFO, "", 0, "lost %s", (EVIL,), None)
    assert TextLines("%(message)s").format(record) == "lost " + printable(EVIL)
    assert for_terminal(EVIL.encode() + b"\xff") == (printable(EVIL) + r"\xff").encode()


@pytest.mark.parametrize("act", ["corrupt_state", "suspect", "trust", "distrust_clock", "dance"])
@pytest.mark.parametrize("level", ["fifo", "total"])
def test_faults_that_the_simulator_injects_are_out_of_reach_of_live_groups(
    act: str, level: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with join(0, data=tmp_path) as node:
            group = await node.open("alps", level)
            with pytest.raises(UsageError, match=f"a live group knows no act '{act}'"):
                await group.act(act, 1)

    within(main())


def test_acts_of_the_level_are_within_reach(tmp_path: Path) -> None:
    async def main() -> None:
        async with join(0, data=tmp_path) as node:
            group = await node.open("alps", "total", order="timed")
            await group.act("topic", 3)

    within(main())


@pytest.mark.parametrize(
    "address", ["a..b:1", "h" * 64 + ".example:1", ".:1", "a b:1", "\x1b[2J:1", "\u00fc" * 80 + ":1"]
)
@pytest.mark.parametrize("option", ["listen", "advertise", "contacts"])
def test_what_is_no_host_name_is_refused_at_home(address: str, option: str) -> None:
    given: dict[str, Any] = {option: [address] if option == "contacts" else address}
    with pytest.raises(UsageError, match="is no host name"):
        join(1, **given)


def test_a_host_name_with_other_letters_is_advertised_in_its_ascii_form_and_cuts_nobody_off() -> None:
    async def main() -> None:
        async with join(1) as one:
            somewhere = join(2, contacts=[one.address], advertise="b\u00fccher.example:4000")
            async with somewhere as two, join(3, contacts=[one.address]) as three:
                assert two.address == "xn--bcher-kva.example:4000"
                groups = await open_all([one, three])
                await groups[0].publish(b"x")
                assert (await anext(aiter(groups[1]))).payload == b"x"
                assert links(one) == [2, 3]

    within(main())
    assert endpoint("b\u00fccher.example:4000") == ("xn--bcher-kva.example", 4000)
