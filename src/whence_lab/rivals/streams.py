"""What two neighbours of Delta-Neighbourhood have sent each other: a reliable, ordered stream per direction.

Promises: copies are taken in the order in which they were sent, each once per incarnation of the two ends, however
often they are sent again. It stands for the connection that the authors take for granted.
Costs: a turn per copy, which is transport and not counted as metadata, as in the papers.
"""

from collections.abc import Iterator
from typing import Annotated, TypeAlias

from msgspec import Meta, structs

from whence.core.levels.causal.tree.overlay import GROUPS_MAX
from whence.core.ready import BundleItem
from whence.types import Bundle

TURN_END = 1 << 40

EARLY_MAX = 1 << 16
"""Copies of one peer that overtook others. Full: further ones are dropped, and sent again later."""

UNACKED_MAX = 1 << 12
"""Copies that are kept for a peer that does not answer. Full: the oldest is forgotten."""

Turn: TypeAlias = Annotated[int, Meta(ge=0, le=TURN_END - 1)]

Name: TypeAlias = tuple[int, int, int]
"""A message: its publisher, the publisher's incarnation, its first event."""


class NearCopy(BundleItem, frozen=True, tag=82):
    """A message and its last forwarders, with their numbers; `turn` is its place on the link."""

    group: Annotated[int, Meta(ge=0, le=GROUPS_MAX - 1)]
    turn: Turn
    only_pass: bool
    """It was sent to an earlier incarnation of the receiver: the later one begins with newer messages, and passes this
    one on to those beyond."""
    path: Annotated[bytes, Meta(max_length=256)]
    bundle: Bundle


def name_of(bundle: Bundle) -> Name:
    """Return the name of a message."""
    return bundle.pid, bundle.incarnation, bundle.first


class Stream:
    """Both directions of one link, as one end sees them."""

    __slots__ = ("acked", "early", "expected", "incarnation", "sent_at", "turn", "unacked")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        """The peer's; 0: not known yet, and nothing is sent before it is."""
        self.turn = 0
        self.unacked: dict[Name, NearCopy] = {}
        self.acked: dict[Name, None] = {}
        """Those of them that were acknowledged before they were taken in their turn."""
        self.expected = 0
        self.early: dict[int, NearCopy] = {}
        self.sent_at = 0
        """When something was last sent, or acknowledged."""

    def add(self, copy: NearCopy) -> NearCopy:
        """Give a copy its turn, and keep it until it is acknowledged."""
        numbered = structs.replace(copy, turn=self.turn)
        self.turn += 1
        self.unacked[name_of(copy.bundle)] = numbered
        if len(self.unacked) > UNACKED_MAX:
            oldest = next(iter(self.unacked))
            del self.unacked[oldest]
            self.acked.pop(oldest, None)
        return numbered

    def renew(self, incarnation: int) -> None:
        """Begin anew with a later incarnation of the peer: what it has not acknowledged is sent again from turn 0."""
        restarted = self.incarnation > 0
        self.incarnation = incarnation
        kept = [structs.replace(copy, only_pass=copy.only_pass or restarted)
                for name, copy in self.unacked.items() if name not in self.acked]  # fmt: skip
        self.turn, self.expected = 0, 0
        self.unacked, self.acked, self.early = {}, {}, {}
        for copy in kept:
            self.add(copy)

    def acknowledged(self, name: Name, taken: int) -> None:
        """Forget what was acknowledged, once the peer has taken it in its turn too.

        A message may be acknowledged because it came by another way; its copy must still fill its place here.
        """
        if name in self.unacked:
            self.acked[name] = None
        for each in [each for each in self.acked if self.unacked[each].turn < taken]:
            del self.acked[each], self.unacked[each]

    def arrived(self, copy: NearCopy) -> Iterator[NearCopy]:
        """Yield the copies that are in their turn now that this one is here."""
        if len(self.early) < EARLY_MAX:
            self.early[copy.turn] = copy
        while (found := self.early.pop(self.expected, None)) is not None:
            self.expected += 1
            yield found
