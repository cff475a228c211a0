"""Where others call a node: its listening socket, with TLS or without.

Law: with TLS, connections are counted before they are encrypted, which is what costs most. A stranger that does not
finish its handshake occupies one place among the strangers until the deadline, no more; one too many is closed before
anything is spent on it.
"""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine

from whence.core.links.greeting import host_port
from whence.net.tls import Safety

log = logging.getLogger("whence.net")

BACKLOG = 256

BREATH_S = 0.1
"""Pause after the system could not accept a connection: it is out of file descriptors, most likely."""


class Listener:
    """Accepts connections as they are."""

    handshakes = 0
    """Always zero: no connection is encrypted."""

    def __init__(self, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._protocol = protocol
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; return the address. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, host, port, backlog=BACKLOG)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    def close(self) -> None:
        """Accept nothing more."""
        if self._server is not None:
            self._server.close()


class TlsListener:
    """Accepts connections and encrypts them."""

    def __init__(
        self,
        safety: Safety,
        deadline_s: float,
        protocol: Callable[[], asyncio.BaseProtocol],
        is_full: Callable[[], bool],
        counts: "Counter[str]",
    ) -> None:
        self.handshakes = 0
        """Accepted connections that are not encrypted yet."""
        self._safety, self._deadline_s = safety, deadline_s
        self._protocol, self._is_full, self._counts = protocol, is_full, counts
        self._loop = asyncio.get_running_loop()
        self._listener: socket.socket | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; return the address. Raises OSError."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        self._listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        self._listener.setblocking(False)
        self._begin(self._accept_all(self._listener))
        bound = self._listener.getsockname()
        return bound[0], bound[1]

    def close(self) -> None:
        """Accept nothing more, and end what is not encrypted yet."""
        for task in list(self._tasks):
            task.cancel()
        if self._listener is not None:
            self._listener.close()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _accept_all(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, caller = await self._loop.sock_accept(listener)
            except OSError as error:
                self._counts["accept_failed"] += 1
                log.warning("a connection could not be accepted: %s", error.strerror or error)
                await asyncio.sleep(BREATH_S)
                continue
            if self._is_full():
                accepted.close()
            else:
                self.handshakes += 1
                self._begin(self._encrypt(accepted, host_port(*caller[:2])))

    async def _encrypt(self, accepted: socket.socket, where: str) -> None:
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                self._protocol, accepted, ssl=self._safety.server, ssl_handshake_timeout=self._deadline_s
            )
        except (OSError, TimeoutError) as error:
            self._counts["handshake_failed"] += 1
            log.info("the TLS handshake with a caller from %s failed: %s", where, self._in_words(error))
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise
        finally:
            self.handshakes -= 1

    def _in_words(self, error: Exception) -> str:
        """Say why a handshake failed; a caller that objects often says nothing."""
        if isinstance(error, ssl.SSLError):
            return self._safety.why_refused(error)
        if isinstance(error, TimeoutError):
            return f"it was not finished in {self._deadline_s:g} s"
        return f"the caller ended it ({type(error).__name__}); it may not accept the certificate of this process"
