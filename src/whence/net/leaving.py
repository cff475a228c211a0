"""How a member of a living group that is closed gets out of it: the others let it go, or it says who did not.

Law: whoever leaves waits as long as the others need to remove a member that is silent. With two of three gone at once
the last one would have no quorum, and could not even remove the dead.
"""

import asyncio
import logging
from functools import partial

from whence.core.member import Living
from whence.net.driver import Driver
from whence.net.membership import leaving_waits_for
from whence.net.wait_log import log_long_wait

log = logging.getLogger("whence.net")

LEAVE_S, LEAVE_S_MAX = 5.0, 60.0
"""How long it waits besides the time in which a silent member is removed, and how long in all."""

SAY_S = 2.0
"""When it begins to say what it waits for."""


def patience_s(driver: Driver) -> float:
    """Return how long a member that leaves waits for the others."""
    silence_ns = driver.member.silence_ns_max if isinstance(driver.member, Living) else 0
    return min(LEAVE_S + silence_ns / 1e9, LEAVE_S_MAX)


async def let_go(driver: Driver) -> None:
    """Wait until a member that leaves is out; say for whom it waits and, where that takes too long, what it means."""
    limit_s, waits_for = patience_s(driver), partial(leaving_waits_for, driver)
    try:
        with log_long_wait(
            lambda: f"group {driver.group!r} is being left, for {limit_s:g} s at most: it waits for {waits_for()}",
            SAY_S,
        ):
            async with asyncio.timeout(limit_s):
                await driver.until(lambda: driver.left)
    except TimeoutError:
        log.warning(
            "group %r was closed after %g s, before the others let this process go; it waited for %s. It counts as one "
            "of them until they remove it (remove_after_s, whence remove)",
            driver.group, limit_s, waits_for(),
        )  # fmt: skip
