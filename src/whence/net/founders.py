"""Founders that are given by name: a group is opened once the number of each of them is known.

A name's number is known from its process, from others that met it, or from the data directory: a founder that was met
once need not be up when this process starts again.
"""

import asyncio
import logging
from collections.abc import Sequence

from whence.core.links.process_names import NAME_FORM, is_name
from whence.errors import JoinTimeoutError, UsageError
from whence.net.node import LiveNode
from whence.net.peers import PeerTable

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
                    log.info("group %r waits for its founders %s", group, ", ".join(absent))
                    live.unmet_founders[group] = missing = absent
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


def _unknown(live: LiveNode, name: str) -> bool:
    return live.peers.names.number(name) is None
