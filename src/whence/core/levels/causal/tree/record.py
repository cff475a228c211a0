"""The record of a message that was processed here and is still needed: as it was forwarded, and which targets have it.

Its closed vectors are kept as a pattern and numbers. They become vectors on first use: for retransmissions, lookups and
the thesis's coding. Its dependencies are the past at its forwarding, never a later one.
Source: LoCaMu, section 2.
"""

from typing import TypeAlias

from msgspec import Struct

from whence.core.levels.causal.tree.headers import Header
from whence.core.levels.causal.tree.id_patterns import IdPattern, Numbers, Route, Vectors
from whence.core.levels.causal.tree.pairs import PairNumbers
from whence.types import Bundle

Uid: TypeAlias = tuple[int, int, int]
"""A message's name: publisher, incarnation, first event. It is opaque: nothing is kept per publisher."""


class Record(Struct, eq=False):
    """A message that was processed here and is still needed."""

    uid: Uid
    bundle: Bundle
    group: int
    last: int
    h: int
    """Hops from the publisher, at most 2f+1."""
    route: Route
    targets: tuple[int, ...]
    pattern: IdPattern
    named: int
    """How many forwarders within f+1 hops have named it."""
    left: dict[int, None]
    """Targets that are not done."""
    numbers: Numbers = ()
    """The numbers of `pattern`: the closed vectors, this node's own last."""
    extra: Vectors = {}
    """Further vectors, which only identify it."""
    deps: PairNumbers = {}
    mine: Numbers = ()
    """The numbers that this node gave it, in the order of the targets."""
    have: dict[int, frozenset[int]] = {}
    """By target: the forwarders it knows the message from. A target that is neither here nor in `left` needs none."""
    changes: int = 0
    """The count of changes of the past when `deps` was taken."""
    changes_after: int = 0
    """The count after the message's own numbers had entered, if they alone made the changes; otherwise `changes`."""
    name_bytes: int = 0
    """The bytes of its name in its bundle; 0: not computed yet."""
    raw: dict[int, Header] | None = None
    """By forwarder: the header of its copy as it came, for replay."""
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
        """Return the forwarders that numbered it for this node: each gets an acknowledgement."""
        known = self.route.forwarders
        return (*known, *self.extra) if self.extra else known

    def number_for(self, target: int) -> int:
        """Return the number that this node gave it for a target."""
        return self.mine[self.targets.index(target)]


def new_record(bundle: Bundle, group: int, last: int, h: int, route: Route) -> Record:
    """Return the record of a message that takes a route."""
    uid, targets = (bundle.pid, bundle.incarnation, bundle.first), route.targets
    return Record(uid, bundle, group, last, h, route, targets, route.onward, route.named, dict.fromkeys(targets))
