"""Tickets as an application and an operator meet them: how a process stands, and how a dead one is named."""

from msgspec import Struct

from whence.limits import INCARNATION_MAX
from whence.types import Process

_INCARNATIONS = INCARNATION_MAX + 1


class OwnedTicket(Struct, frozen=True):
    """A ticket that somebody is said to own."""

    ticket: int
    epoch: int
    owner: Process
    lease_left_ns: int | None
    """Of its owner's lease, where it was lent here; None: others lent it."""


class TicketStatus(Struct, frozen=True, kw_only=True):
    """A process's standing in a cluster."""

    standing: str
    """none, joining, acquiring, active, suspended, leaving."""
    ticket: int | None = None
    epoch: int | None = None
    """(ticket, epoch) is a fencing token: a resource outside must refuse an epoch below the highest it has seen."""
    lease_left_ns: int = 0
    coordinates: int = 0
    """Tickets it may give away or uses itself."""
    why: str = ""
    """Why nothing may be published now; empty if something may."""
    retry_ns: int = 0
    """When to try again; 0 where waiting alone does not help."""
    waits_for: tuple[Process, ...] = ()
    """Witnesses whose answer is missing, to act or to take over. One that is gone for good can be declared dead."""
    owners: tuple[OwnedTicket, ...] = ()
    """The tickets of others, as far as this process has heard."""


def dead_argument(process: Process) -> int:
    """Return a process as the argument of the act `declare_dead`."""
    return process.pid * _INCARNATIONS + process.incarnation


def dead_process(argument: int) -> Process:
    """Return the process that such an argument names."""
    return Process(*divmod(argument, _INCARNATIONS))
