"""Parts of a member, ready to be tested alone: dice from a seed, views with known peers, gossip over them."""

from collections.abc import Iterable
from random import Random

from whence.core.dissemination.gossip import Gossip, GossipSettings, PrCast
from whence.core.level import BuildContext
from whence.core.levels.gossip.level import GOSSIP, settings_from
from whence.core.membership.full_view import Directory
from whence.core.membership.items import NEWS, Subscribe
from whence.core.membership.partial_view import PartialView
from whence.core.membership.settings import ViewSettings
from whence.core.ready import Delivery, RandomSource, Ready
from whence.core.staged import StagedMember
from whence.types import Bundle, Process, packed

ME = Process(1, 5)
ROUND_NS = 1_000_000
STEADY = {"round_ns": ROUND_NS, "jitter": 0.0}


def rng_of(seed: object) -> RandomSource:
    return Random(str(seed)).random


def view_of(peers: Iterable[int] = (), seed: object = 0, **settings: int) -> PartialView:
    """Make a view that knows these peers, each in its first life."""
    view = PartialView(ME, ViewSettings(**settings), ROUND_NS, rng_of(seed), lambda: b"snapshot")  # type: ignore[arg-type]
    view.found([Process(pid, 1) for pid in peers], 0)
    return view


def gossip_of(view: PartialView, seed: object = 0, **settings: float) -> PrCast:
    """Make gossip with rounds of even length over a view."""
    return PrCast(view, GossipSettings(**{**STEADY, **settings}), rng_of(seed), 0)  # type: ignore[arg-type]


def news_of(*peers: tuple[int, int, int]) -> bytes:
    """Pack news: pid, incarnation, rounds left."""
    return b"".join(NEWS.pack(*peer) for peer in peers)


def heard(news: bytes) -> dict[int, tuple[int, int]]:
    """Unpack news: incarnation and rounds left by pid."""
    return {pid: (incarnation, rounds) for pid, incarnation, rounds in NEWS.iter_unpack(news)}


def one(pid: int, first: int = 1, payload: bytes = b"x") -> Bundle:
    return packed(Process(pid, 1), first, [payload])


def ball(*aged: tuple[int, Bundle]) -> Gossip:
    """Make a gossip message of bundles with their ages and no news."""
    return Gossip(bytes(age for age, _ in aged), [bundle for _, bundle in aged], b"", b"")


def round_of(gossip: PrCast) -> Ready:
    """Let the next round come."""
    ready = Ready()
    due = gossip.wake_at()
    assert due is not None
    gossip.tick(due, ready)
    return ready


def balls_in(ready: Ready) -> list[Gossip]:
    return [send.item for send in ready.send if isinstance(send.item, Gossip)]


def asked_in(ready: Ready) -> list[int]:
    return [pid for send in ready.send if isinstance(send.item, Subscribe) for pid in send.to]


def node_of(level: str = "fifo", me: Process = ME, seed: object = 0, **settings: object) -> StagedMember:
    """Build a member that has not joined yet."""
    around = BuildContext(rng_of(seed), 0, Directory())
    return GOSSIP[level].build(me, settings_from({**STEADY, **settings}), around)


def delivered_in(ready: Ready) -> list[Bundle]:
    return [out.bundle for out in ready.deliver if isinstance(out, Delivery)]
