"""What a level is to a driver: settings by name, and members made from them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from whence.core.member import Member
from whence.core.membership.full_view import Directory
from whence.core.offsets import Offsets
from whence.core.ready import Item, RandomSource
from whence.types import Instant, Process


class BuildContext(Struct, frozen=True):
    """What the driver lends a member."""

    rng: RandomSource
    now: Instant
    directory: Directory
    remembers: bool = True
    """Whether what a Ready persists is kept for a later life; where it is not, members need not write it out."""
    epoch_floor: int = 0
    """Where nothing is kept: epochs up to here may have been given before. Time stands in for memory."""
    is_first_life: bool = False
    """The driver knows that no life came before this one, whatever its incarnation: nothing of one is under way."""


class LevelSpec(Protocol):
    """How a driver makes the members of a level, whatever they consist of."""

    def settings_from(self, given: Mapping[str, Any]) -> Any:
        """Make the level's settings from values by name. Raises SettingError."""

    def build(self, me: Process, settings: Any, around: BuildContext) -> Member:
        """Compose a member that has not joined yet."""

    def first_peers(self, settings: Any) -> int:
        """Return how many others a founder is told of at most."""

    def reads_wall_clock(self) -> bool:
        """Tell whether `now` is the clock on the wall, which may jump; else the steady one, for rounds and leases."""


# --- what a level may be able to do beyond that, each asked for by its type ---


@runtime_checkable
class Remembering(Protocol):
    """Its members go on in a later life where the application was. Else a crash loses what was not handed out."""

    offsets: type[Offsets]

    @property
    def durable(self) -> bool:
        """Tell whether they do."""


@runtime_checkable
class Live(Protocol):
    """Its members run in live groups: every level of the registry. Rivals run in the simulator alone."""

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


@runtime_checkable
class Speaking(Protocol):
    """Its members exchange items that are on no live wire. Else all of theirs are in wire/items.py."""

    items: tuple[type[Item], ...]


def remembers(spec: object) -> bool:
    """Tell whether the members of a recipe go on in a later life where the application was."""
    return isinstance(spec, Remembering) and spec.durable


def offsets_of(spec: object) -> type[Offsets]:
    """Return how the members of a recipe count what was taken."""
    return spec.offsets if isinstance(spec, Remembering) else Offsets
