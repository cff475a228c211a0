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

from whence.cli.delta import delta_sentence
from whence.cli.live import NodeName
from whence.cli.members import in_words
from whence.cli.output import print_json, stdout
from whence.core.links.process_names import called
from whence.errors import UsageError, printable
from whence.net.status_client import ask, the_node

WIDE = 100
"""Terminals of at least this width have room between the columns of tables."""

EVERY_MAX = 3600
"""The longest pause between two looks, in seconds."""

NOT_OPEN = "not open here yet; waits for {}"

PENDING_GAUGES = ("held_bundles", "held_copies", "held_messages", "buffer_bundles")
"""The gauges of bundles that are pending: they wait for others, or for their time."""


def top(
    name: NodeName = None,
    pid: Annotated[int | None, typer.Option(help="The node on this machine to look at, if it has no name.")] = None,
    socket: Annotated[Path | None, typer.Option(help="Its status socket, if it is not where it usually is.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option(help="Look once and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Look once and print one JSON object.")] = False,
) -> None:
    """Watch a running node: members, links, tickets with owners and leases, rates, pending bundles, gaps and lag; of
    living groups also the view, who leads a change of it and whom that waits for, who is suspected or behind.

    Without --name it is the only one that runs here. q or ctrl-c leaves.
    Exit code 0: seen. 2: no such node runs here.
    """
    if not 0 < every <= EVERY_MAX:
        raise UsageError(f"--every is a number of seconds above 0, up to {EVERY_MAX}, not {every:g}")
    path = the_node(pid, socket, name)
    status = asyncio.run(ask(path))
    if json:
        print_json(0, **status)
        return
    if once:
        stdout().print(status_page(status, {}, 1.0))
        return
    with (
        keys() as pressed,
        Live(status_page(status, {}, 1.0), console=stdout(), auto_refresh=False, screen=False) as shown,
    ):
        before, at = status, time.monotonic()
        while pressed(every) != "q":
            status = asyncio.run(ask(path))
            now = time.monotonic()
            shown.update(status_page(status, before, now - at), refresh=True)
            before, at = status, now


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits some seconds for a key and returns it, or an empty text without one."""
    if not sys.stdin.isatty():
        yield _no_keyboard
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


def _no_keyboard(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def status_page(status: dict[str, Any], before: dict[str, Any], seconds: float) -> Stack:
    """Return the tables of a status; rates are since an earlier one."""
    status, before = _escaped(status), _escaped(before)
    address = ":".join(map(str, status["address"]))
    title = (
        f"{called(status['pid'], status['name'])} (incarnation {status['incarnation']}) of {status['cluster']} "
        f"at {address}, "
        f"up {status['uptime_s']:.0f} s"
    )
    groups = Table(
        "group", "level", "members", "delivered", "per s", "published", "unsettled", "pending", "skipped", "late",
        title=title, title_justify="left", padding=(0, 1 if stdout().width >= WIDE else 0),
    )  # fmt: skip
    places = Table("group", "place")
    earlier = {group["name"]: group for group in before.get("groups", [])}
    for group in status["groups"]:
        known = earlier.get(group["name"], group)
        gauges = group["gauges"]
        lag = group["published"] - group["settled"] if group["settled"] is not None else None
        groups.add_row(
            group["name"], group["level"], str(len(group["members"]) + 1),
            f"{group['delivered']:,}", f"{(group['delivered'] - known['delivered']) / seconds:,.0f}",
            f"{group['published']:,}", "?" if lag is None else f"{lag:,}",
            f"{sum(gauges[name][0] for name in PENDING_GAUGES if name in gauges):,}", f"{group['skipped']:,}",
            f"{group['late']:,}",
        )  # fmt: skip
        if place := _place(group):
            places.add_row(group["name"], place)
    for name, waits_for in status["unopened"].items():
        places.add_row(name, NOT_OPEN.format(waits_for))
    peers = Table("peer", "incarnation", "address", "connected", "round trip", "waiting", "dropped")
    for peer in status["peers"]:
        who = f"{peer['name']} ({peer['pid']})" if peer["name"] else str(peer["pid"])
        peers.add_row(
            who, str(peer["incarnation"] or "?"), peer["address"] or "?", "yes" if peer["connected"] else "no",
            "?" if peer["rtt_ms"] is None else f"{peer['rtt_ms']:.2f} ms", f"{peer['waiting_bytes']:,} B",
            str(peer["dropped_frames"]),
        )  # fmt: skip
    tickets = Table("group", "ticket", "epoch", "owner", "lease")
    for group in status["groups"]:
        for owned in (group["ticket"] or {}).get("owners", []):
            left_ns = owned["lease_left_ns"]
            lease = "lent by others" if left_ns is None else f"{left_ns / 1e6:,.0f} ms"
            tickets.add_row(group["name"], str(owned["ticket"]), str(owned["epoch"]), owned["owner"], lease)
    tables = (groups, places, *_views(status["groups"]), peers, tickets)
    return Stack(*[table for table in tables if table.row_count or table is groups])


def _views(groups: list[dict[str, Any]]) -> tuple[Table, Table]:
    """Return the views of the groups that have them, with their changes, and the members of these views."""
    views = Table("group", "view", "led by", "change", "waits for")
    members = Table("group", "member", "since view", "votes", "live", "suspected", "lag")
    for group in groups:
        view = group.get("view")
        if view is None or group.get("failure"):
            continue
        leader, waits_for = in_words(view, [view["leader"]]), in_words(view, view["waits_for"])
        change = view["change"] or ("leaves" if view["leaving"] else "none")
        name = f"{view['epoch']} of generation {view['generation']}" if view["generation"] else str(view["epoch"])
        views.add_row(group["name"], name, leader, change, waits_for)
        for each in view["members"]:
            flags = ["yes" if each[name] else "" for name in ("voter", "live", "suspected")]
            who = in_words(view, [each["pid"]])
            members.add_row(group["name"], who, str(each["joined"]), *flags, f"{each['lag']:,}")
    return views, members


def _place(group: dict[str, Any]) -> str:
    """Return what a process is in a group, where there is more to say than that it is a member."""
    if group.get("failure"):
        waiting = f"; waits for {group['waits_for']}" if group["waits_for"] else ""
        return f"ended: {group['failure']}{waiting}"
    if not group["member"]:
        return NOT_OPEN.format(group["waits_for"]) if group["waits_for"] else "not a member"
    overlay = "" if "view" in group else _overlay(group["overlay"])
    return _ticket(group["ticket"]) or overlay or _merging(group["metrics"])


def _escaped(status: Any) -> Any:
    """Return a status whose texts have no control characters and no markup: some came from peers."""
    if isinstance(status, str):
        return escape(printable(status))
    if isinstance(status, dict):
        return {_escaped(name): _escaped(value) for name, value in status.items()}
    return [_escaped(each) for each in status] if isinstance(status, list) else status


def _merging(metrics: dict[str, Any]) -> str:
    """Return what a merger measured of δ."""
    return f"merges; {delta_sentence(metrics)}" if "delta_ticks" in metrics else ""


def _overlay(status: dict[str, Any] | None) -> str:
    """Return a member's place in a tree."""
    if status is None:
        return ""
    words = [f"next to {', '.join(map(str, status['neighbours']))}"]
    if status["suspected"]:
        words.append(f"suspects {', '.join(map(str, status['suspected']))}")
        words.append(f"sends to {', '.join(map(str, status['active']))}")
    return "; ".join(words)


def _ticket(status: dict[str, Any] | None) -> str:
    """Return the ticket, epoch and lease of a process in a few words."""
    if status is None:
        return ""
    words = [status["state"]]
    if status["ticket"] is not None:
        words.append(
            f"ticket {status['ticket']} epoch {status['epoch']}, lease {status['lease_left_ns'] / 1e6:,.0f} ms"
        )
    if status["waits_for"]:
        words.append(f"waits for {', '.join(status['waits_for'])}")
    return "; ".join(words)
