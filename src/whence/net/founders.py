"""Founders that are given by name: a group is opened once the number of each of them is known.

A name's number is known from its process, from others that met it, or from the data directory: a founder that was met
once need not be up when this process starts again. A process that is none of the founders it names waits for them as
well, and joins; where only founders can be members, it is refused before that.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from whence.core.level import Placed
from whence.core.links.process_names import NAME_FORM, is_name
from whence.core.registry import LEVELS
from whence.errors import JoinTimeoutError, SettingError, UsageError
from whence.net.node import LiveNode
from whence.net.peers import PeerTable
from whence.net.settings import settings_of

log = logging.getLogger("whence.net")

LOOK_S = 0.25
"""How often to look whether a founder has come."""


def number_of(peers: PeerTable, who: object) -> int:
    """Return the pid of a process that is given by its name or its pid. Raises UsageError for a name that is not
    known."""
    if not isinstance(who, str):
        if not isinstance(who, int) or isinstance(who, bool) or who < 0:
            raise UsageError(f"a process is given by its name or its pid, such as 'billing-1' or 3, not {who!r}")
        return int(who)
    number = peers.names.number(who)
    if number is None:
        wrong = "" if is_name(who) else f", and none can be named so: a name has {NAME_FORM}"
        raise UsageError(f"no process named {who!r} was met here{wrong}; `whence members` lists those of a group")
    return number


def check_founders(
    live: LiveNode, group: str, level: str, founders: Sequence[int | str], given: Mapping[str, Any]
) -> None:
    """Check the founders of a group before any of them is waited for; log where this process is none of them.

    Raises SettingError: where they are too many, where only they can be members, and for a wrong setting.
    """
    spec = LEVELS.get(level)
    if not founders or spec is None:
        return
    me, unused = live.me.pid, (pid for pid in count() if pid not in (live.me.pid, *founders))
    numbers = [each if isinstance(each, int) else me if each == live.name else next(unused) for each in founders]
    settings = spec.settings_from(settings_of(level, numbers, given, data=live.keeps_data, udp=live.settings.udp))
    if me in numbers:
        return
    named = ", ".join(map(str, founders))
    if isinstance(spec, Placed):
        try:
            spec.check_place(me, settings)
        except SettingError:
            raise SettingError(
                f"{live.peers.called(me)} is not one of the founders {named}, and group {group!r} has the members it "
                "began with: name them all at each of them (founders=[0, 1, 2], --founders 0,1,2)"
            ) from None
    log.info(
        "%s is not one of the founders %s that it names: it joins group %r once they have begun it",
        live.peers.called(me), named, group,
    )  # fmt: skip


async def numbers_of(live: LiveNode, group: str, founders: Sequence[int | str], timeout_s: float | None) -> list[int]:
    """Return the pids of a group's founders, and wait for those whose name is not known yet.

    Raises JoinTimeoutError that names them, UsageError for what is no name, and what stopped the node.
    """
    for name in founders:
        if isinstance(name, str) and not is_name(name):
            raise UsageError(f"founders are names or pids, and {name!r} is neither: a name has {NAME_FORM}")
    missing: list[str] = []
    try:
        async with asyncio.timeout(timeout_s):
            while absent := [name for name in founders if isinstance(name, str) and _unknown(live, name)]:
                if live.failure is not None:
                    raise live.failure
                if absent != missing:
                    missing = absent
                    live.unmet_founders[group] = [str(each) for each in founders if _away(live, each)]
                    log.info("group %r waits for its founders %s", group, ", ".join(live.unmet_founders[group]))
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise JoinTimeoutError(
            f"group {group!r} was not begun within {timeout_s:g} s: no process named {' or '.join(missing)} was met; "
            "start it, or give the address of one that knows it as a contact"
        ) from None
    finally:
        live.unmet_founders.pop(group, None)
    numbers = [number_of(live.peers, founder) for founder in founders]
    if len(dict.fromkeys(numbers)) < len(numbers):
        raise UsageError(f"founders are different processes, and of {list(founders)} two are the same")
    return numbers


def _away(live: LiveNode, founder: int | str) -> bool:
    """Tell whether a founder is neither known by its name nor connected under its number."""
    if isinstance(founder, str):
        return _unknown(live, founder)
    return founder != live.me.pid and not live.peers.is_connected(founder)


def _unknown(live: LiveNode, name: str) -> bool:
    return live.peers.names.number(name) is None
