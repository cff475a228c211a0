"""Who merges in a simulated group at level `total` right now: a fault may be aimed at them, whoever they are."""

from collections.abc import Iterable

from whence.core.levels.total.member import TotalMember
from whence.sim.process import SimProcess


def serving(processes: Iterable[SimProcess]) -> list[SimProcess]:
    """Return the processes that merge and serve followers, by number; none at another level."""
    return sorted([process for process in processes if _serves(process)], key=lambda process: process.pid)


def _serves(process: SimProcess) -> bool:
    member = process.member
    merger = member.roles.merger if isinstance(member, TotalMember) else None
    return merger is not None and merger.server is not None
