"""How a node calls others: peers with pending frames, and addresses that it was given.

Law: a peer is called once at a time; after a failed call it is called again no sooner than its pause allows, which
doubles with every failure. What is pending for a peer that cannot be reached is dropped, and its groups are notified.
"""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine

from whence.core.links.addresses import Address, asking
from whence.core.links.greeting import Why, host_port
from whence.errors import JoinError, NameTakenError, printable
from whence.net import tls
from whence.net.link import Link
from whence.net.outboxes import NODE, Outboxes
from whence.net.peers import Peer, PeerTable
from whence.net.presence import PresenceExchange
from whence.net.settings import NetSettings
from whence.types import Process

log = logging.getLogger("whence.net")


class OwnAddressError(JoinError):
    """The process that answers at an address is this process itself."""


def is_refusal(failed: JoinError) -> bool:
    """Tell whether a call failed because a process that is up refused it."""
    return isinstance(failed.__cause__, JoinError | ssl.SSLError)


class Dialer:
    """Calls peers and addresses, and greets the process that answers."""

    def __init__(
        self,
        me: Process,
        peers: PeerTable,
        outboxes: Outboxes,
        presence: PresenceExchange,
        settings: NetSettings,
        safety: tls.Safety | None,
        counts: "Counter[str]",
        new_link: Callable[[int | None], Link],
        on_name_refused: Callable[[str, int], None],
        name: str = "",
    ) -> None:
        """`new_link` makes a connection, to a given peer or to any process that answers; `on_name_refused` is called
        with the reason why this process cannot use its name or pid."""
        self._me, self._name = me, name
        self._peers, self._outboxes, self._presence = peers, outboxes, presence
        self._settings, self._safety, self._counts = settings, safety, counts
        self._new_link, self._on_name_refused = new_link, on_name_refused
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._own_nonces: dict[bytes, None] = {}
        """The nonces this process sent on connections that lead back to itself."""
        self._closed = False

    @property
    def is_idle(self) -> bool:
        """Tell whether no call is under way."""
        return not self._tasks

    def close(self) -> None:
        """End all calls, and begin no others."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()

    def note_own(self, nonce: bytes) -> None:
        """Note the nonce this process sent on a connection that leads back to itself."""
        self._own_nonces[nonce] = None

    # --- peers with pending frames ---

    def call(self, peer: Peer) -> None:
        """Call a peer with pending frames, unless a call is under way."""
        if peer.calling or self._closed:
            return
        peer.calling = True
        self._spawn(self._call(peer))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a bug in a call: %s", error, exc_info=error)

    async def _call(self, peer: Peer) -> None:
        settings = self._settings
        try:
            pause = peer.retry_at - self._loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            address = self._peers.book.find(peer.pid)
            if address is None:
                address = await self._ask_around(peer.pid)
            if peer.link is None:
                await self._dial(address, peer.pid)
        except (OSError, JoinError) as error:
            peer.failures += 1
            self._counts["call_failed"] += 1
            wait_ns = min(settings.retry_ns * 2 ** min(peer.failures - 1, 20), settings.retry_ns_max)
            peer.retry_at = self._loop.time() + wait_ns / 1e9
            log.debug("call to %s failed: %s", self._peers.called(peer.pid), error)
            self._presence.unreachable(peer.pid, peer.outbox.drop())
        finally:
            peer.calling = False

    async def _ask_around(self, pid: int) -> Address:
        """Ask every connected peer for another's address, and wait briefly; return it. Raises JoinError."""
        self._counts["asked_around"] += 1
        self._outboxes.send(NODE, self._peers.connected_pids(), asking([pid]))
        for _ in range(10):
            await asyncio.sleep(0.05)
            address = self._peers.book.find(pid)
            if address is not None:
                return address
        raise JoinError(f"nobody knows where {self._peers.called(pid)} lives")

    # --- addresses ---

    async def call_address(self, host: str, port: int) -> Process:
        """Call an address; return the process that answered. Raises JoinError."""
        link = await self._dial(Address(0, 0, host, port), None)
        assert link.peer is not None
        return link.peer

    async def _dial(self, address: Address, expected: int | None) -> Link:
        """Connect and greet. Raises JoinError."""
        context = self._safety.client if self._safety is not None else None
        up: asyncio.Future[None] = self._loop.create_future()
        link = self._new_link(expected)
        link.on_lost = lambda: None if up.done() else up.set_exception(JoinError(self._refused(link)))
        link.on_up = lambda: None if up.done() else up.set_result(None)
        deadline_s = self._settings.call_ns / 1e9
        where = host_port(address.host, address.port)
        try:
            async with asyncio.timeout(deadline_s):
                await self._loop.create_connection(
                    lambda: link, address.host, address.port, ssl=context,
                    server_hostname=tls.SERVER if context is not None else None,
                    ssl_handshake_timeout=deadline_s if context is not None else None,
                )  # fmt: skip
                await up
        except (OSError, TimeoutError, JoinError, ssl.SSLError, UnicodeError) as error:
            link.close("the call failed")
            self._check_name(link)
            if link.greeting.is_own or self._own_nonces.pop(link.greeting.nonce, 0) is None:
                raise OwnAddressError(f"{where} is this process itself") from None
            reason = self._in_words(error) or f"no answer in {deadline_s:g} s"
            raise JoinError(f"{where} cannot be reached: {reason}") from error
        finally:
            up.cancel()  # nothing waits for it any more, and the connection may be lost later
        return link

    def _check_name(self, link: Link) -> None:
        """Raise NameTakenError if a call failed because of this process's own name."""
        refusal = link.greeting.refusal
        if refusal is None or not refusal.is_final:
            return
        if refusal.why == Why.SUPERSEDED and self._peers.connected():
            log.error("%s; other peers go on with this one", link.reason)
            return
        self._on_name_refused(link.reason, refusal.why)
        raise NameTakenError(link.reason)

    def _in_words(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLError) and self._safety is not None:
            return self._safety.why_refused(error)
        return printable(str(error))

    def _refused(self, link: Link) -> str:
        if link.greeting.refusal is not None:
            return link.reason
        doubts = self._safety.doubts(self._me.pid, self._name) if self._safety is not None else ""
        why = f"; as seen from here, {doubts}" if doubts else "; its log may say more"
        if self._safety is None:
            why = "; it may demand a certificate, and this process has none" + why
        return f"it does not greet ({link.reason}{why})"
