"""What a member or a recipe may be able to do beyond its door: each capability is declared, and asked for by its type.

A driver that meets a member without one does what stands beside it here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from whence.core.offsets import Offsets
from whence.core.ready import Metric, Ready
from whence.errors import Refusal
from whence.types import Instant, Process

# --- members ---


@runtime_checkable
class Checkpointed(Protocol):
    """Knows records that stand for all it ever persisted. Else its journal is never rewritten."""

    def checkpoint(self) -> list[bytes]:
        """Return the records."""


@runtime_checkable
class Sized(Protocol):
    """Knows how large its checkpoint is at least, without making it. Else that counts as nothing."""

    def checkpoint_bytes(self) -> int:
        """Return so many bytes."""


@runtime_checkable
class Settled(Protocol):
    """Knows itself who has which of its events. Else members tell each other how far their applications are."""

    def settled(self) -> int | None:
        """Return the last own event that every other member has; None: who has what must be asked elsewhere."""

    def missing(self, last: int) -> tuple[int, ...] | None:
        """Return the members that may not have the own events up to this one; None: as above."""


@runtime_checkable
class Refusing(Protocol):
    """May refuse to publish for reasons that pass: a ticket, a lease, a clock. Else it always may."""

    def refusal(self, now: Instant) -> Refusal | None:
        """Return the error that publishing now would raise, if it would."""


@runtime_checkable
class FlowControlled(Protocol):
    """Publishing more can make something come too late. Else only what others have taken holds publishers back."""

    def held_back(self) -> bool:
        """Tell whether publishers should wait."""

    def full_window(self) -> tuple[str, int, int] | None:
        """Return the limit that is reached, its value and what was asked for; None if none is."""


@runtime_checkable
class Dynamic(Protocol):
    """Learns from connected peers that they are members, or no more. Else it need not know."""

    def meet(self, peer: Process, now: Instant) -> Ready:
        """Learn of a member."""

    def parted(self, peer: Process, now: Instant) -> Ready:
        """Learn that a peer is none any more."""


@runtime_checkable
class Leased(Protocol):
    """Acts under a ticket with a lease. Else it has no ticket to tell of."""

    def status(self, now: Instant) -> Any:
        """Return how it stands in its cluster."""


@runtime_checkable
class Measured(Protocol):
    """Counts more than its gauges tell."""

    def metrics(self) -> list[Metric]:
        """Return what it counts and measures."""


@runtime_checkable
class Founded(Protocol):
    """Is of a group whose members are fixed when it begins."""

    founders: list[Process]


# --- recipes ---


@runtime_checkable
class Remembering(Protocol):
    """Its members go on in a later life where the application was. Else a crash loses what was not handed out."""

    offsets: type[Offsets]

    @property
    def durable(self) -> bool:
        """Tell whether they do."""


@runtime_checkable
class Live(Protocol):
    """Its members run in live groups. Else they are there to be compared with, in the simulator."""

    def live_settings(self, founders: Sequence[int], given: Mapping[str, object]) -> dict[str, object]:
        """Return what a live group is opened with unless the caller says otherwise, and what follows from its founders.

        Raises SettingError where the level cannot do without founders.
        """


@runtime_checkable
class NeedsData(Protocol):
    """Its members need a data directory."""

    @property
    def why_data(self) -> str:
        """Say why, and what to do."""


@runtime_checkable
class HoldingBytes(Protocol):
    """Its members hold what they deliver back, and so need room for it. Else publishers share all there is."""

    def held_bytes_max(self, settings: Any) -> int:
        """Return how much a member holds at most."""


@runtime_checkable
class ClockWatching(Protocol):
    """Its members must not act on a clock that stood still. Else nobody watches it."""

    def clock_slip_ns_max(self, settings: Any) -> int:
        """Return by how much a clock may be behind."""


@runtime_checkable
class Shared(Protocol):
    """Some of its settings must be the same at all members."""

    def shared(self, settings: Any) -> dict[str, object]:
        """Return those, by name."""


@runtime_checkable
class Placed(Protocol):
    """Its members have places that not every process can take."""

    def check_place(self, process: int, settings: Any) -> None:
        """Raise SettingError where a process has none."""


@runtime_checkable
class Addressed(Protocol):
    """One overlay serves several groups."""

    def destinations(self, settings: Any, group: int) -> tuple[int, ...]:
        """Return the members of a group."""


def remembers(recipe: object) -> bool:
    """Tell whether the members of a recipe go on in a later life where the application was."""
    return isinstance(recipe, Remembering) and recipe.durable


def offsets_of(recipe: object) -> type[Offsets]:
    """Return how the members of a recipe count what was taken."""
    return recipe.offsets if isinstance(recipe, Remembering) else Offsets
