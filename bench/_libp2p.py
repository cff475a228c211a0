"""py-libp2p's gossipsub as a contender of bench/live.py. It needs trio, so it runs in a thread of its own.

Its protobuf and ours may differ, so it may have an interpreter of its own: LIBP2P_PYTHON names one that has libp2p,
msgspec and uvloop installed.
"""

import asyncio
import threading
from functools import partial
from typing import Any

import multiaddr
import trio
from _live_kinds import Ports, Take, free_port
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service

PROTOCOL = TProtocol("/meshsub/1.0.0")
TOPIC = "bench"
BATCH = 32
"""Events of one publish call: at some hundreds a second, more would only queue."""


class Libp2p:
    """One host with gossipsub, connected to all others."""

    def __init__(self) -> None:
        self._token: Any = None
        self._pubsub: Any = None
        self._end = trio.Event()
        self._thread: threading.Thread | None = None

    async def start(self, index: int, nodes: int, ports: Ports, take: Take) -> None:
        """Listen, connect to everybody with a lower number, subscribe, and let the mesh form."""
        loop, port = asyncio.get_running_loop(), free_port()
        listens, meshed = asyncio.Event(), asyncio.Event()
        known: list[int] = []
        connect = threading.Event()

        def came(payload: bytes) -> None:
            loop.call_soon_threadsafe(take, (payload,))

        async def host() -> None:
            self._token = trio.lowlevel.current_trio_token()
            here = new_host(key_pair=_key(index))
            router = GossipSub(
                [PROTOCOL], degree=8, degree_low=6, degree_high=12, heartbeat_interval=1,
                spam_protection_enabled=False, eclipse_protection_enabled=False,
            )  # fmt: skip
            self._pubsub = pubsub = Pubsub(here, router, strict_signing=False)
            address = multiaddr.Multiaddr(f"/ip4/127.0.0.1/tcp/{port}")
            async with (
                here.run(listen_addrs=[address]),
                background_trio_service(pubsub),
                background_trio_service(router),
                trio.open_nursery() as nursery,
            ):
                await pubsub.wait_until_ready()
                subscription = await pubsub.subscribe(TOPIC)
                loop.call_soon_threadsafe(listens.set)
                await trio.to_thread.run_sync(connect.wait)
                for other in range(index):
                    peer = ID.from_pubkey(_key(other).public_key)
                    await here.connect(PeerInfo(peer, [multiaddr.Multiaddr(f"/ip4/127.0.0.1/tcp/{known[other]}")]))
                nursery.start_soon(_listen, subscription, came)
                await trio.sleep(5.0)  # some heartbeats, until everybody is in everybody's mesh
                loop.call_soon_threadsafe(meshed.set)
                await self._end.wait()
                nursery.cancel_scope.cancel()

        def run() -> None:
            try:
                trio.run(host)
            except Exception:
                if not self._end.is_set():  # its streams complain when others end first
                    raise

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        await listens.wait()
        known += await ports(port)
        connect.set()
        await meshed.wait()

    async def publish(self, batch: list[bytes]) -> None:
        """Publish events one by one, as the library requires."""

        async def all_of_them() -> None:
            for payload in batch[:BATCH]:
                await self._pubsub.publish(TOPIC, payload)

        run = partial(trio.from_thread.run, all_of_them, trio_token=self._token)
        await asyncio.get_running_loop().run_in_executor(None, run)

    def facts(self) -> dict[str, float]:
        """Return nothing."""
        return {}

    async def close(self) -> None:
        """End."""
        self._token.run_sync_soon(self._end.set)
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join, 5.0)


def _key(index: int) -> Any:
    return create_new_key_pair(seed=bytes([index + 1]) * 32)


async def _listen(subscription: Any, came: Any) -> None:
    while True:
        message = await subscription.get()
        came(message.data)
