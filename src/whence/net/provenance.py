"""Which bundles cannot be their publisher's: those that contradict what is known from the publisher itself.

Law: while a publisher is connected and a member, what it published in this incarnation comes from itself where
publishers send to every member at once (`spread = direct`): a copy from any other peer is refused, and the publisher
itself is asked for it. Nothing in this process's own name that it has not published is accepted from any peer.
Where bundles are relayed on purpose (`spread = gossip`, trees, mergers), other peers must be trusted: SECURITY.md.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from whence.core.dissemination.direct import Push
from whence.core.dissemination.gossip import Gossip
from whence.core.ready import Item
from whence.types import Bundle, Process
from whence.wire.items import Packet

Lookup = Callable[[int], Process | None]


HEARSAY = (Push, Gossip)
"""Items that may carry bundles of processes other than their sender."""


def without_contradicted(packet: Packet, me: Process, published: int, connected: Lookup) -> tuple[Packet | None, int]:
    """Return a packet without the bundles that cannot be genuine, None if nothing is left, and how many were removed.

    `published`: the number of events this process has published. `connected` returns a peer's name, if it is connected
    and a member.
    """
    items: list[Item] = []
    refused = 0
    for item in packet.items:
        if not isinstance(item, Push | Gossip):
            items.append(item)
            continue
        direct = connected if isinstance(item, Push) else _nobody
        allowed = [not _contradicted(bundle, packet.pid, me, published, direct) for bundle in item.bundles]
        refused += allowed.count(False)
        if all(allowed):
            items.append(item)
        elif any(allowed) or isinstance(item, Gossip):
            items.append(_only(item, allowed))
    return replace(packet, items=items) if items else None, refused


def _contradicted(bundle: Bundle, sender: int, me: Process, published: int, connected: Lookup) -> bool:
    if bundle.pid == me.pid:
        return (bundle.incarnation, bundle.last) > (me.incarnation, published)
    if bundle.pid == sender:
        return False
    origin = connected(bundle.pid)
    return origin is not None and bundle.incarnation >= origin.incarnation


def _only(item: Push | Gossip, allowed: Sequence[bool]) -> Item:
    bundles = [bundle for bundle, keep in zip(item.bundles, allowed, strict=True) if keep]
    if isinstance(item, Push):
        return Push(bundles)
    return replace(
        item, bundles=bundles, ages=bytes([age for age, keep in zip(item.ages, allowed, strict=True) if keep])
    )


def _nobody(pid: int) -> None:
    """Return None: no peer is known."""
