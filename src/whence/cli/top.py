"""whence top: a live view of a running node."""

import asyncio
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group as Stack
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from whence.cli.output import print_json, stdout
from whence.errors import printable
from whence.net.status_client import ask, the_node

WIDE = 100
"""Terminals with so many columns have room between those of tables."""

HELD = ("held_bundles", "held_copies", "held_messages", "buffer_bundles")
"""What levels call the bundles that wait for others, or for their time."""


def top(
    pid: Annotated[int | None, typer.Option(help="The node on this machine to look at.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option(help="Look once and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Look once and print one JSON object.")] = False,
) -> None:
    """Watch a running node: members, links, tickets with owners and leases, rates, what is held, gaps and lag.

    Without --pid it is the only one that runs here. q or ctrl-c leaves.
    Exit code 0: seen. 2: no such node runs here.
    """
    path = the_node(pid, socket)
    told = asyncio.run(ask(path))
    if json:
        print_json(0, **told)
        return
    if once:
        stdout().print(page(told, {}, 1.0))
        return
    with keys() as pressed, Live(page(told, {}, 1.0), console=stdout(), auto_refresh=False, screen=False) as shown:
        before, at = told, time.monotonic()
        while pressed(every) != "q":
            told = asyncio.run(ask(path))
            now = time.monotonic()
            shown.update(page(told, before, now - at), refresh=True)
            before, at = told, now


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits some seconds for a key; it returns nothing if none came, or nobody can press one."""
    if not sys.stdin.isatty():
        yield _nobody_presses
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([keyboard], [], [], seconds)
        return os.read(keyboard, 1).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(keyboard)
        yield pressed
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _nobody_presses(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def page(told: dict[str, Any], before: dict[str, Any], seconds: float) -> Stack:
    """Lay out a status for a person; rates are against an earlier one."""
    told, before = _shown(told), _shown(before)
    address = ":".join(map(str, told["address"]))
    title = (
        f"process {told['pid']} (life {told['boot']}) of {told['cluster']} at {address}, up {told['uptime_s']:.0f} s"
    )
    groups = Table(
        "group", "level", "members", "delivered", "per s", "published", "unsettled", "held", "skipped", "late",
        title=title, title_justify="left", padding=(0, 1 if stdout().width >= WIDE else 0),
    )  # fmt: skip
    places = Table("group", "place")
    earlier = {group["name"]: group for group in before.get("groups", [])}
    for group in told["groups"]:
        known = earlier.get(group["name"], group)
        gauges = group["gauges"]
        lag = group["published"] - group["settled"] if group["settled"] is not None else None
        groups.add_row(
            group["name"], group["level"], str(len(group["members"]) + 1),
            f"{group['delivered']:,}", f"{(group['delivered'] - known['delivered']) / seconds:,.0f}",
            f"{group['published']:,}", "?" if lag is None else f"{lag:,}",
            f"{sum(gauges[name][0] for name in HELD if name in gauges):,}", f"{group['skipped']:,}",
            f"{group['late']:,}",
        )  # fmt: skip
        if place := _ticket(group["ticket"]) or _overlay(group["overlay"]):
            places.add_row(group["name"], place)
    peers = Table("peer", "life", "address", "connected", "round trip", "waiting", "dropped")
    for peer in told["peers"]:
        peers.add_row(
            str(peer["pid"]), str(peer["boot"] or "?"), peer["address"] or "?", "yes" if peer["connected"] else "no",
            "?" if peer["rtt_ms"] is None else f"{peer['rtt_ms']:.2f} ms", f"{peer['waiting_bytes']:,} B",
            str(peer["dropped_frames"]),
        )  # fmt: skip
    tickets = Table("group", "ticket", "epoch", "owner", "lease")
    for group in told["groups"]:
        for owned in (group["ticket"] or {}).get("owners", []):
            left_ns = owned["lease_left_ns"]
            lease = "lent by others" if left_ns is None else f"{left_ns / 1e6:,.0f} ms"
            tickets.add_row(group["name"], str(owned["ticket"]), str(owned["epoch"]), owned["owner"], lease)
    return Stack(*[table for table in (groups, places, peers, tickets) if table.row_count or table is groups])


def _shown(told: Any) -> Any:
    """Return a status whose texts a terminal shows and neither obeys nor takes for colours: some came from peers."""
    if isinstance(told, str):
        return escape(printable(told))
    if isinstance(told, dict):
        return {_shown(name): _shown(value) for name, value in told.items()}
    return [_shown(each) for each in told] if isinstance(told, list) else told


def _overlay(told: dict[str, Any] | None) -> str:
    """Return a member's place in a tree."""
    if told is None:
        return ""
    words = [f"next to {', '.join(map(str, told['neighbours']))}"]
    if told["suspected"]:
        words.append(f"suspects {', '.join(map(str, told['suspected']))}")
        words.append(f"sends to {', '.join(map(str, told['active']))}")
    return "; ".join(words)


def _ticket(told: dict[str, Any] | None) -> str:
    """Return in a few words how the process stands in a cluster."""
    if told is None:
        return ""
    words = [told["standing"]]
    if told["ticket"] is not None:
        words.append(f"ticket {told['ticket']} epoch {told['epoch']}, lease {told['lease_left_ns'] / 1e6:,.0f} ms")
    if told["waits_for"]:
        words.append(f"waits for {', '.join(told['waits_for'])}")
    return "; ".join(words)
