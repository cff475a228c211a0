"""How far an application is: reported to the publishers of a group, so that they neither outrun the slowest nor guess.

Promises: a publisher has at most a stated number of bytes under way that some connected member has not taken; a member
whose application stops taking therefore stops the publishers of that group, and nothing else.
The sentence that decides: a member reports to each publisher the last of its events that the application here has
taken; a publisher waits while too many bytes lie beyond the lowest such report of the members it is connected to.
Costs: one small item per publisher and member every LAZY_NS while little is published, every REPORT_NS while much is.
"""

from typing import Annotated

from msgspec import Meta, field

from whence.core.ready import Item
from whence.limits import SEQ_MAX
from whence.types import Seq

REPORT_NS, LAZY_NS = 20_000_000, 50_000_000
"""Reports to publishers are delayed this long to be sent together: the first once much was taken, the second otherwise.
A delayed report of little holds no publisher up, and every process that is woken for a report pays."""

REPORT_BYTES = 64 << 10
"""Bytes of one publisher that count as much."""

WAITED_US_MAX = 1 << 32
"""More than an hour: a longer delay is reported as this."""

LEFT_OUT_MAX = 64
"""Spans of events in one report that never come. More go into further reports."""


class Reached(Item, frozen=True, tag=119):
    """The application here has taken your events in this group up to this one; 0: none yet."""

    last: Annotated[int, Meta(ge=0, le=SEQ_MAX)]
    waited_us: Annotated[int, Meta(ge=0, le=WAITED_US_MAX)] = 0
    """How long ago it did, in microseconds: the report was delayed to be sent with others."""
    left_out: Annotated[list[tuple[Seq, Seq]], Meta(max_length=LEFT_OUT_MAX)] = field(default_factory=list)
    """Your events (first to last) that the application here will never get in order, as far as that is news."""
