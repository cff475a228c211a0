"""A message that was processed here and is still needed: as it was forwarded, and who has it.

Its closed vectors are a pattern and numbers; as vectors they are made only when somebody asks, which retransmissions,
look-ups and the thesis's coding do. What it says of the past is that of its forwarding, never today's.
"""

from typing import TypeAlias

from msgspec import Struct

from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.id_patterns import IdPattern, Numbers, Route, Vectors
from whence.core.levels.causal.tree.pairs import PairNumbers
from whence.types import Bundle

Uid: TypeAlias = tuple[int, int, int]
"""A message's name: publisher, its life, its first event. Opaque; nothing is kept per publisher."""


class Record(Struct, eq=False):
    """A message that was processed here and is still needed."""

    uid: Uid
    bundle: Bundle
    group: int
    last: int
    h: int
    """Hops from the origin, at most 2f+1."""
    route: Route
    targets: tuple[int, ...]
    pattern: IdPattern
    named: int
    """Forwarders within f+1 hops that have named it."""
    left: dict[int, None]
    """Targets that are not done."""
    numbers: Numbers = ()
    """Closed vectors, this member's own last: a pattern and its numbers."""
    extra: Vectors = {}
    """Further vectors that only name it."""
    deps: PairNumbers = {}
    mine: Numbers = ()
    """The numbers this member gave it, in the order of the targets."""
    have: dict[int, frozenset[int]] = {}
    """Per target, the forwarders it knows the message from. A target that is neither here nor left has all."""
    changes: int = 0
    """How many changes the past had seen when `deps` were taken."""
    changes_after: int = 0
    """And when its own numbers had been taken in, if they explain all changes since; else as `changes`."""
    name_bytes: int = 0
    """How many bytes its name takes in its bundle, once that was asked for."""
    raw: dict[int, Header] | None = None
    """Copies as they came, by forwarder, for replay."""
    _ids: Vectors | None = None

    @property
    def ids(self) -> Vectors:
        """Return the closed vectors."""
        ids = self._ids
        if ids is None:
            ids = self._ids = self.pattern.vectors(self.numbers)
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


def new_record(bundle: Bundle, group: int, last: int, h: int, route: Route) -> Record:
    """Return the record of a message that takes a route."""
    uid, targets = (bundle.pid, bundle.boot, bundle.first), route.targets
    return Record(uid, bundle, group, last, h, route, targets, route.onward, route.named, dict.fromkeys(targets))
