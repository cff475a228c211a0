"""The addresses that a node was given: called until a process answers, and again whenever that connection is gone.

Law: a contact is reached while the process that answered there last is connected. An address that leads back to this
process is not a contact.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from whence.errors import JoinError
from whence.net.dialer import OwnAddressError, is_refusal
from whence.net.peers import PeerTable
from whence.net.settings import NetSettings
from whence.types import Process

log = logging.getLogger("whence.net")

LOOK_S = 0.25
"""How often to check whether a contact is still connected."""


class Contacts:
    """The contacts of one node."""

    def __init__(self, peers: PeerTable, settings: NetSettings, call: Callable[[str, int], Awaitable[Process]]) -> None:
        """`call` calls an address, and returns the process that answered or raises JoinError."""
        self._peers = peers
        self._call = call
        self._settings = settings
        self._given: dict[tuple[str, int], int | None] = {}
        """Each contact, and the pid that answered there last."""
        self._unreached: dict[tuple[str, int], str] = {}
        """Why the last call of each contact failed."""
        self._turned_away: dict[tuple[str, int], str] = {}
        """Why contacts that are up refuse this process."""
        self._tasks: list[asyncio.Task[None]] = []
        self._answered = asyncio.Event()

    def call(self, contacts: Sequence[tuple[str, int]]) -> None:
        """Begin to call contacts, and continue until closed."""
        self._given = dict.fromkeys(contacts)
        self._tasks = [asyncio.create_task(self._keep_calling(*contact)) for contact in self._given]

    def close(self) -> None:
        """Stop calling."""
        for task in self._tasks:
            task.cancel()

    async def any(self) -> None:
        """Wait until one has answered, or for a while: contacts that are not up yet are called again and again.

        Raises JoinError where those that are up refuse this process: calling again would not change that.
        """
        deadline_s = self._settings.call_ns / 1e9
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                while self.unreached():
                    self._answered.clear()
                    await self._answered.wait()
        if self.unreached() and self._turned_away:
            raise JoinError(f"no contact lets this process in: {'; '.join(dict.fromkeys(self._turned_away.values()))}")
        if self.unreached():
            log.warning("no contact answered within %g s, and all are called on: %s", deadline_s, self.unreached())

    def unreached(self) -> str:
        """Return why contacts that were called have not answered; empty when one has, or there are none."""
        if not self._given or self._peers.connected():
            return ""
        return "; ".join(dict.fromkeys(self._unreached.values())) or f"{_listed(list(self._given))} did not answer yet"

    def missing(self) -> str:
        """Return which contact is not connected now, and why; empty if all are."""
        for contact, pid in self._given.items():
            if pid is None or not self._peers.is_connected(pid):
                return f"contact {self._unreached.get(contact) or _listed([contact]) + ' to answer'}"
        return ""

    async def _keep_calling(self, host: str, port: int) -> None:
        contact, settings = (host, port), self._settings
        wait_ns = settings.retry_ns
        while True:
            pid = self._given[contact]
            if pid is not None and self._peers.is_connected(pid):
                await asyncio.sleep(LOOK_S)
                continue
            try:
                self._given[contact] = (await self._call(host, port)).pid
                self._unreached.pop(contact, None)
                wait_ns = settings.retry_ns
            except OwnAddressError as error:
                log.info("a contact is passed over: %s", error)
                del self._given[contact]
                self._answered.set()
                return
            except JoinError as error:
                self._unreached[contact] = str(error)
                if is_refusal(error):
                    self._turned_away[contact] = str(error)
                await asyncio.sleep(wait_ns / 1e9)
                wait_ns = min(2 * wait_ns, settings.retry_ns_max)
            self._answered.set()


def _listed(contacts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{host}:{port}" for host, port in contacts)
