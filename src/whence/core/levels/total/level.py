"""Level `total` as a driver sees it: its settings, and members made from them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from whence.core.level import BuildContext
from whence.core.levels.total.member import TotalMember
from whence.core.levels.total.settings import TotalSettings
from whence.core.levels.total.strict import StrictMember, StrictTotalSettings
from whence.core.offsets import Offsets
from whence.core.settings import names_in, parse
from whence.core.views.settings import AS_THE_GROUP, LIVE_VIEWS, shared_by_members
from whence.errors import SettingError
from whence.limits import MESH_MEMBERS_MAX, PEER_ID_MAX
from whence.types import Instant, Process

OF_MERGE = frozenset(names_in(TotalSettings)) - frozenset(names_in(StrictTotalSettings))
"""Settings that have a meaning only where the paper's merge orders the group."""


class TotalLevel(NamedTuple):
    """Makes members of level `total`. A planted bug is its member replaced by a wrong one."""

    member: Callable[[Process, TotalSettings, Instant], TotalMember] = TotalMember
    strict: type[StrictMember] = StrictMember
    offsets: type[Offsets] = Offsets

    def settings_from(self, given: Mapping[str, Any]) -> TotalSettings | StrictTotalSettings:
        """Make settings from values by name. Raises SettingError."""
        if (order := given.get("order", "timed")) not in ("timed", "strict"):
            raise SettingError(f"order must be timed or strict, not {order!r}")
        if order == "strict":
            return parse(given, StrictTotalSettings)
        return parse({name: value for name, value in given.items() if name != "order"}, TotalSettings)

    @property
    def durable(self) -> bool:
        """Return True: members of strict groups remember."""
        return True

    def remembers_with(self, settings: TotalSettings | StrictTotalSettings | None) -> bool:
        """Tell whether a later incarnation of a member continues where the application was."""
        return settings is None or (isinstance(settings, StrictTotalSettings) and settings.views.journal)

    def build(
        self, me: Process, settings: TotalSettings | StrictTotalSettings, around: BuildContext
    ) -> TotalMember | StrictMember:
        """Compose a member that has not joined yet."""
        if isinstance(settings, StrictTotalSettings):
            remembers = around.remembers and settings.views.journal
            return self.strict(me, settings, around.rng, remembers=remembers)
        member = self.member(me, settings, around.now)
        if around.is_first_incarnation:
            member.clock.is_first_incarnation()
        return member

    @property
    def with_views(self) -> dict[str, object]:
        """Return the settings of groups whose members change by views."""
        return {"order": "strict"}

    def has_views(self, settings: TotalSettings | StrictTotalSettings) -> bool:
        """Tell whether members change by views: those of strict groups do."""
        return isinstance(settings, StrictTotalSettings)

    def has_late_events(self, settings: TotalSettings | StrictTotalSettings) -> bool:
        """Tell whether an event may come after its place: a strict group leaves nothing out."""
        return not isinstance(settings, StrictTotalSettings)

    def held_bytes_max(self, settings: TotalSettings | StrictTotalSettings) -> int | None:
        """Return how many payload bytes members hold back by design, until it is their turn. A strict group has a
        window of its own."""
        return None if isinstance(settings, StrictTotalSettings) else settings.limits.buffer_bytes_max

    def first_peers(self, settings: TotalSettings | StrictTotalSettings) -> int:
        """Return more than there can be: every founder chooses the mergers among all founders."""
        return PEER_ID_MAX

    def why_data(self, settings: TotalSettings | StrictTotalSettings) -> str:
        """Say why members need a data directory; those of a strict group do not."""
        if isinstance(settings, StrictTotalSettings):
            return ""
        return "with order=timed, level total counts the incarnations of a process; give data=…, a directory that lasts"

    def live_settings(self, founders: Sequence[int], given: Mapping[str, object], *, data: bool) -> dict[str, object]:
        """Return the settings of a live group, which is strict unless the paper's merge is asked for. Connections lose
        nothing while they last, and the failure detector reports who is gone, so that retransmission is for rare cases.

        Raises SettingError for what a strict group cannot have.
        """
        if given.get("order", "strict") != "strict":
            return {"patience_beats": 40, "resends": 1}
        if "order" not in given and (of_merge := [name for name in given if name in OF_MERGE]):
            raise SettingError(
                f"{of_merge[0]} is a setting of the timed merge, and a live group at level total is strict: leave "
                f"{of_merge[0]} out, or give order=timed, which bounds the wait and leaves out what comes later"
            )
        if len(founders) > MESH_MEMBERS_MAX:
            raise SettingError(
                f"a strict group has at most {MESH_MEMBERS_MAX} members, and {len(founders)} founders are named: give "
                "order=timed, or name fewer"
            )
        return {
            **LIVE_VIEWS, "order": "strict", "journal": data, "remove_after_ns": AS_THE_GROUP,
        }  # fmt: skip

    def shared(self, settings: TotalSettings | StrictTotalSettings) -> dict[str, object]:
        """Return what all members must agree on: stamps, ticks, and who the mergers and relays are; in a strict group,
        what the order promises."""
        if isinstance(settings, StrictTotalSettings):
            return {"order": "strict", "uniform": settings.strict.uniform, **shared_by_members(settings.views)}
        merge = {
            name: getattr(settings.merge, name) for name in ("stamp", "tick_ns", "mergers", "relays", "merger_pids")
        }
        return structs.asdict(settings.timing) | merge

    def reads_wall_clock(self, settings: TotalSettings | StrictTotalSettings) -> bool:
        """Tell whether stamps are in wall-clock time, which all members share; in a strict group, clocks only count."""
        return not isinstance(settings, StrictTotalSettings)
