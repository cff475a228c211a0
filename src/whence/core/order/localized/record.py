"""A message that was processed here and is still needed: as it was forwarded, and who has it.

Its closed vectors are a shape and numbers; as vectors they are made only when somebody asks, which retransmissions,
look-ups and the thesis's coding do. What it says of the past is that of its forwarding, never today's.
"""

from typing import TypeAlias

from whence.core.members.overlay import Cells
from whence.core.order.localized.heads import Head
from whence.core.order.localized.shapes import Numbers, Route, Vectors
from whence.types import Bundle

Uid: TypeAlias = tuple[int, int, int]
"""A message's name: publisher, its life, its first event. Opaque; nothing is kept per publisher."""


class Record:
    """A message that was processed here and is still needed."""

    __slots__ = (
        "_ids", "bundle", "changes", "changes_after", "deps", "extra", "group", "h", "have", "last", "left", "mine",
        "name_bytes", "named", "numbers", "raw", "route", "shape", "targets", "uid",
    )  # fmt: skip

    def __init__(self, uid: Uid, bundle: Bundle, group: int, last: int, h: int, route: Route) -> None:
        self.uid = uid
        self.bundle = bundle
        self.name_bytes = 0
        """How many bytes its name takes in its bundle, once that was asked for."""
        self.group = group
        self.last = last
        self.h = h
        """Hops from the origin, at most 2f+1."""
        self.route = route
        self.targets = route.targets
        self.shape = route.onward
        self.numbers: Numbers = ()
        """Closed vectors, this member's own last: a shape and its numbers."""
        self._ids: Vectors | None = None
        self.extra: Vectors = {}
        """Further vectors that only name it."""
        self.named = route.named
        """Forwarders within f+1 hops that have named it."""
        self.deps: Cells = {}
        self.mine: Numbers = ()
        """The numbers this member gave it, in the order of the targets."""
        self.have: dict[int, frozenset[int]] = {}
        """Per target, the forwarders it knows the message from. A target that is neither here nor left has all."""
        self.left: dict[int, None] = dict.fromkeys(route.targets)
        """Targets that are not done."""
        self.changes = 0
        """How many changes the past had seen when `deps` were taken."""
        self.changes_after = 0
        """And when its own numbers had been taken in, if they explain all changes since; else as `changes`."""
        self.raw: dict[int, Head] | None = None
        """Copies as they came, by forwarder, for replay."""

    @property
    def ids(self) -> Vectors:
        """Return the closed vectors."""
        ids = self._ids
        if ids is None:
            ids = self._ids = self.shape.vectors(self.numbers)
        return ids

    @property
    def names(self) -> Vectors:
        """Return all known vectors."""
        return self.ids | self.extra if self.extra else self.ids

    def forwarders(self) -> tuple[int, ...]:
        """Return who numbered it for this member: they wait for an acknowledgement."""
        known = self.route.forwarders
        return (*known, *self.extra) if self.extra else known

    def number_for(self, target: int) -> int:
        """Return the number this member gave it for a target."""
        return self.mine[self.targets.index(target)]
