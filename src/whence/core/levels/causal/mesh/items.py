"""The items that members of a mesh exchange, besides the questions they share with the localized overlay."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from whence.core.levels.causal.items import Number
from whence.core.ready import BundleItem, Item
from whence.limits import CLOCK_NODES_MAX
from whence.types import Bundle

Clock: TypeAlias = Annotated[list[Number], Meta(min_length=1, max_length=CLOCK_NODES_MAX)]
"""Per place in the list of members, the number of messages of that member that were processed."""


class CausalMessage(BundleItem, frozen=True, tag=84):
    """A message as its publisher sent it, even if another member passes it on: what it follows, what its publisher had,
    the bundle.

    In `past`, the publisher's own entry is the number of messages it had published before. `taken` is as in Has; if
    empty, as `past`.
    """

    past: Clock
    taken: Annotated[list[Number], Meta(max_length=CLOCK_NODES_MAX)]
    bundle: Bundle

    def is_valid(self) -> bool:
        """Tell whether the clocks agree and the bundle is valid."""
        return len(self.taken) in (0, len(self.past)) and self.bundle.is_valid()


class Has(Item, frozen=True, tag=85):
    """The number of messages of each node that the application here has taken, for good, and the number that were
    delivered to it: an acknowledgement to all of them. What was delivered and not taken need not be sent again, but
    must be retained."""

    taken: Clock
    delivered: Clock
