"""Tickets as an application and an operator see them: the status of a process, and how to name a dead one."""

from msgspec import Struct

from whence.limits import INCARNATION_MAX
from whence.types import Process

_INCARNATIONS = INCARNATION_MAX + 1


class OwnedTicket(Struct, frozen=True):
    """A ticket that another process is reported to own."""

    ticket: int
    epoch: int
    owner: Process
    lease_left_ns: int | None
    """What is left of its owner's lease, if this process granted it; None: another process did."""


class TicketStatus(Struct, frozen=True, kw_only=True):
    """The status of a process in a cluster."""

    state: str
    """none, joining, acquiring, active, suspended, leaving."""
    ticket: int | None = None
    epoch: int | None = None
    """(ticket, epoch) is a fencing token: a resource outside must refuse an epoch below the highest it has seen."""
    lease_left_ns: int = 0
    coordinates: int = 0
    """The number of tickets that it may give away or uses itself."""
    why: str = ""
    """Why nothing may be published now; empty if something may."""
    retry_ns: int = 0
    """How long to wait before trying again; 0 if waiting alone does not help."""
    waits_for: tuple[Process, ...] = ()
    """Witnesses whose answer is missing, to act or to take over. One that is gone for good can be declared dead."""
    owners: tuple[OwnedTicket, ...] = ()
    """The tickets of others, as far as this process knows."""

    @property
    def standing(self) -> str:
        """Return the state, under its former name."""
        return self.state


def dead_argument(process: Process) -> int:
    """Return a process as the argument of the act `declare_dead`."""
    return process.pid * _INCARNATIONS + process.incarnation


def dead_process(argument: int) -> Process:
    """Return the process that an argument of `declare_dead` names."""
    return Process(*divmod(argument, _INCARNATIONS))
