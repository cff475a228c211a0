"""A level as a driver sees it: settings by name, and members made from them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from whence.core.member import Member
from whence.core.membership.full_view import Directory
from whence.core.offsets import Offsets
from whence.core.ready import Item, RandomSource
from whence.types import Instant, Process


class BuildContext(Struct, frozen=True):
    """What the driver provides to a member."""

    rng: RandomSource
    now: Instant
    directory: Directory
    remembers: bool = True
    """Whether what a Ready persists is retained for a later incarnation. If not, members need not write it."""
    epoch_floor: int = 0
    """Where nothing is retained: epochs up to here may have been given before. Time stands in for memory."""
    is_first_incarnation: bool = False
    """The driver knows that there was no earlier incarnation, whatever the number of this one: none of its messages can
    be under way."""


class LevelSpec(Protocol):
    """How a driver makes the members of a level."""

    def settings_from(self, given: Mapping[str, Any]) -> Any:
        """Make the level's settings from values by name. Raises SettingError."""

    def build(self, me: Process, settings: Any, around: BuildContext) -> Member:
        """Compose a member that has not joined yet."""

    def first_peers(self, settings: Any) -> int:
        """Return the largest number of other processes that a founder is given."""

    def reads_wall_clock(self, settings: Any) -> bool:
        """Tell whether `now` is the wall clock, which may jump; else it is monotonic, for rounds and leases."""


# --- capabilities that a level may have beyond that; a driver asks for each by its type ---


@runtime_checkable
class Remembering(Protocol):
    """A later incarnation of its members continues where the application was. Else a crash loses what was not handed
    out."""

    offsets: type[Offsets]

    @property
    def durable(self) -> bool:
        """Tell whether its members do."""


@runtime_checkable
class Live(Protocol):
    """Its members run in live groups: every level of the registry. Rivals run in the simulator alone."""

    def live_settings(self, founders: Sequence[int], given: Mapping[str, object], *, data: bool) -> dict[str, object]:
        """Return the settings of a live group unless the caller gives others, and those that follow from its founders,
        and from whether its members have a data directory.

        Raises SettingError if the level needs founders and there are none.
        """


@runtime_checkable
class ByViews(Protocol):
    """Its members change by views, at least with some settings: they join, leave and are removed. Else a group has the
    members that are there, or those that it began with."""

    @property
    def with_views(self) -> dict[str, object]:
        """Return the settings that choose this."""

    def has_views(self, settings: Any) -> bool:
        """Tell whether they do with these settings."""


@runtime_checkable
class NeedsData(Protocol):
    """Its members need a data directory, at least with some settings."""

    def why_data(self, settings: Any) -> str:
        """Return why, and what to do; empty if they do not."""


@runtime_checkable
class HoldingBytes(Protocol):
    """Its members hold events back before they deliver them, and need room for that. Else publishers share all room."""

    def held_bytes_max(self, settings: Any) -> int | None:
        """Return the most bytes that a member holds back; None: with these settings it holds none back by design."""


@runtime_checkable
class ClockWatching(Protocol):
    """Its members must not act on a clock that stood still. Else nobody watches the clock."""

    def clock_slip_ns_max(self, settings: Any) -> int:
        """Return how far a clock may be behind."""


@runtime_checkable
class Shared(Protocol):
    """Some of its settings must be the same at all members."""

    def shared(self, settings: Any) -> dict[str, object]:
        """Return those settings, by name."""


@runtime_checkable
class Placed(Protocol):
    """Its members have places that not every process can take."""

    def check_place(self, process: int, settings: Any) -> None:
        """Raise SettingError if a process has no place."""


@runtime_checkable
class Addressed(Protocol):
    """One overlay serves several groups."""

    def destinations(self, settings: Any, group: int) -> tuple[int, ...]:
        """Return the members of a group."""


@runtime_checkable
class Speaking(Protocol):
    """Its members exchange items that no live group uses. Else all its items are in wire/items.py."""

    items: tuple[type[Item], ...]


@runtime_checkable
class Forgetful(Protocol):
    """Its members remember only with some settings, where nothing else decides that."""

    def remembers_with(self, settings: Any) -> bool:
        """Tell whether they do; None stands for the settings of a live group."""


@runtime_checkable
class Retained(Protocol):
    """A level whose members store no events, and whose publications the driver may retain for them (`durable=True`)."""

    @property
    def may_be_retained(self) -> bool:
        """Tell whether a later incarnation may publish again what an earlier one published."""


@runtime_checkable
class Timed(Protocol):
    """Its members go on without an event that does not come in time, at least with some settings, and hand it out at
    the side when it comes. Else no event is ever late."""

    def has_late_events(self, settings: Any) -> bool:
        """Tell whether they do with these settings."""


@runtime_checkable
class Unordered(Protocol):
    """A level that may deliver a publisher's events in any order: what comes after a hole says nothing about it."""

    @property
    def is_unordered(self) -> bool:
        """Tell whether it does."""


def remembers(spec: object, settings: object = None) -> bool:
    """Tell whether a later incarnation of a level's members continues where the application was."""
    if isinstance(spec, Forgetful):
        return spec.remembers_with(settings)
    return isinstance(spec, Remembering) and spec.durable


def offsets_of(spec: object) -> type[Offsets]:
    """Return the class that counts what was taken from the members of a level."""
    return spec.offsets if isinstance(spec, Remembering) else Offsets
