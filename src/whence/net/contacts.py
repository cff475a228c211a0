"""The addresses that a node was given: called until a process answers, and again whenever that connection is gone.

Law: a contact is an address, or a host name that may have several, which change. A name is resolved again each time
that this process looks, and every address that it has then is called. An address is reached while the process that
answered there last is connected; a contact is, when all its addresses are. An address that leads back to this process
is passed over.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from whence.core.links.greeting import host_port
from whence.errors import JoinError
from whence.net import resolver
from whence.net.dialer import OwnAddressError, is_refusal
from whence.net.peers import PeerTable
from whence.net.settings import NetSettings
from whence.types import Process

log = logging.getLogger("whence.net")

LOOK_S = 0.25
"""How often to check whether a contact is still connected."""

CALLS_AT_ONCE = 16
"""Addresses of one contact that are called at the same time."""

Call = Callable[[str, int], Awaitable[Process]]


class Contact:
    """One contact: a host, a port, and what became of each address that the host has."""

    def __init__(
        self, host: str, port: int, peers: PeerTable, call: Call, on_look: Callable[[], None], *, loopback_only: bool
    ) -> None:
        """`on_look` is called when more is known of an address; `loopback_only`: others are not called."""
        self.text = host_port(host, port)
        self.unreached: dict[str, str] = {}
        """Why each address that was called does not count as reached; the contact's own text: why it has none."""
        self.turned_away: dict[str, str] = {}
        """Why processes that are up at its addresses refuse this process."""
        self._host, self._port = host, port
        self._peers, self._call, self._on_look, self._loopback_only = peers, call, on_look, loopback_only
        self._answered: dict[str, int | None] = {}
        """The addresses that the host had last, and the pid that answered at each."""
        self._own: dict[str, None] = {}
        """The addresses that lead back to this process."""
        self._at_once = asyncio.Semaphore(CALLS_AT_ONCE)
        self._said = ""

    def missing(self) -> str:
        """Return which address is not connected now, and why; empty if all are, or lead back to this process."""
        for address, pid in self._answered.items():
            if address not in self._own and (pid is None or not self._peers.is_connected(pid)):
                return _to_answer(self._where(address), self.unreached.get(address))
        if not self._answered:
            return _to_answer(self.text, self.unreached.get(self.text))
        return ""

    def is_only_this_process(self) -> bool:
        """Tell whether every address that it has leads back to this process."""
        return bool(self._answered) and all(address in self._own for address in self._answered)

    def _where(self, address: str) -> str:
        where = host_port(address, self._port)
        return where if address == self._host else f"{where} ({self._host})"

    async def look(self) -> None:
        """Resolve the host, and call every address that is not connected; where it cannot be resolved, those it had."""
        try:
            found, why = await resolver.resolve(self._host, self._port), ""
        except JoinError as error:
            found, why = list(self._answered), f"{self.text} cannot be reached: {error}"
        self._answered = {address: self._answered.get(address) for address in found}
        self._own = {address: None for address in self._own if address in self._answered}
        for told in (self.unreached, self.turned_away):
            for address in [each for each in told if each not in self._answered]:
                del told[address]
        if why:
            self.unreached[self.text] = why
            self._on_look()
        self._say(why)
        await asyncio.gather(*[self._reach(address) for address in self._unconnected()])

    def is_lost(self) -> bool:
        """Tell whether it has an address that was reached, and whose process is no longer connected."""
        return any(self._answered[address] is not None for address in self._unconnected())

    def _unconnected(self) -> list[str]:
        return [
            address
            for address, pid in self._answered.items()
            if address not in self._own and (pid is None or not self._peers.is_connected(pid))
        ]

    async def _reach(self, address: str) -> None:
        async with self._at_once:
            try:
                if self._loopback_only and not resolver.is_loopback(address):
                    raise JoinError(f"{self._where(address)} is beyond loopback, and this node has no certificates")
                pid = (await self._call(address, self._port)).pid
            except OwnAddressError as error:
                log.info("a contact is passed over: %s", error)
                self._own[address] = None
                self.unreached.pop(address, None)
            except JoinError as error:
                self.unreached[address] = str(error)
                if is_refusal(error):
                    self.turned_away[address] = str(error)
            else:
                self.unreached.pop(address, None)
                self.turned_away.pop(address, None)
                if address in self._answered:
                    self._answered[address] = pid
            self._on_look()

    def _say(self, why: str) -> None:
        """Log once why the host cannot be resolved."""
        if why and why != self._said:
            log.warning("a contact is waited for: %s", why)
        self._said = why


def _to_answer(where: str, why: str | None) -> str:
    """Say that an answer is waited for, and why there was none so far."""
    _, is_known, reason = (why or "").partition(" cannot be reached: ")
    if is_known:
        return f"contact {where} to answer, which cannot be reached: {reason}"
    return f"contact {where} to answer" + (f" ({why})" if why else "")


class Contacts:
    """The contacts of one node."""

    def __init__(self, peers: PeerTable, settings: NetSettings, call: Call, *, loopback_only: bool = False) -> None:
        """`call` calls an address, and returns the process that answered or raises JoinError."""
        self._peers = peers
        self._call = call
        self._settings, self._loopback_only = settings, loopback_only
        self._given: list[Contact] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._looked = asyncio.Event()

    def call(self, contacts: Sequence[tuple[str, int]]) -> None:
        """Begin to call contacts, and continue until closed."""
        self._given = [
            Contact(*contact, self._peers, self._call, self._looked.set, loopback_only=self._loopback_only)
            for contact in dict.fromkeys(contacts)
        ]
        self._tasks = [asyncio.create_task(self._keep_calling(contact)) for contact in self._given]

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
                    self._looked.clear()
                    await self._looked.wait()
        refusals = [why for contact in self._given for why in contact.turned_away.values()]
        if self.unreached() and refusals:
            raise JoinError(f"no contact lets this process in: {'; '.join(dict.fromkeys(refusals))}")
        if self.unreached():
            log.warning("no contact answered within %g s, and all are called on: %s", deadline_s, self.unreached())

    def unreached(self) -> str:
        """Return why contacts that were called have not answered; empty when one has, or there are none."""
        others = [contact for contact in self._given if not contact.is_only_this_process()]
        if not others or self._peers.connected():
            return ""
        reasons = [why for contact in others for why in contact.unreached.values()]
        return "; ".join(dict.fromkeys(reasons)) or f"{', '.join(each.text for each in others)} did not answer yet"

    def missing(self) -> str:
        """Return which contact is not connected now, and why; empty if all are."""
        return next((why for contact in self._given if (why := contact.missing())), "")

    async def _keep_calling(self, contact: Contact) -> None:
        """Look again and again: soon at first, then less often; at once when a connection is lost."""
        settings = self._settings
        wait_ns = settings.retry_ns
        while True:
            await contact.look()
            if not contact.missing():
                wait_ns = settings.retry_ns
                await self._until_lost(contact)
                continue
            await asyncio.sleep(wait_ns / 1e9)
            wait_ns = min(2 * wait_ns, settings.retry_ns_max)

    async def _until_lost(self, contact: Contact) -> None:
        """Wait while all addresses are connected, and no longer than until the host is to be resolved again."""
        for _ in range(max(1, int(self._settings.retry_ns_max / 1e9 / LOOK_S))):
            await asyncio.sleep(LOOK_S)
            if contact.is_lost():
                return
