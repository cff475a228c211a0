"""How far an application is: told to the publishers of a group, so that they neither outrun the slowest nor guess.

Promises: a publisher has at most a stated number of bytes under way that some connected member has not taken; a member
whose application stops taking therefore stops the publishers of that group, and nothing else.
The sentence that decides: a member tells each publisher the last of its events that the application here has taken;
a publisher waits while too many bytes lie beyond the lowest such word of the members it is connected to.
Costs: one small item per publisher and member every LAZY_NS while little is published, every REPORT_NS while much is.
"""

from typing import Annotated

from msgspec import Meta

from whence.core.ready import Item
from whence.types import Seq

REPORT_NS, LAZY_NS = 20_000_000, 50_000_000
"""Words to publishers wait so long for company: the first once much was taken, the second else. Nobody is held up for
want of word of little, and everybody woken for it pays."""

REPORT_BYTES = 64 << 10
"""So many bytes of one publisher are much."""

WAITED_US_MAX = 1 << 32
"""More than an hour: whoever waited longer says so much."""


class Reached(Item, frozen=True, tag=119):
    """The application here has taken your events in this group up to this one."""

    last: Seq
    waited_us: Annotated[int, Meta(ge=0, le=WAITED_US_MAX)] = 0
    """How long ago it did, in microseconds: word of it waited for company."""
