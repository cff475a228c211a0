"""The level `causal`: its settings, and how its members are made, on a tree or in a mesh on views.

A planted bug is a level with one part replaced by a wrong one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from whence.core.level import BuildContext
from whence.core.levels.causal.reliability import LIVE_TIMERS
from whence.core.levels.causal.settings import Settings
from whence.core.levels.causal.tree.coding import HeaderCoding
from whence.core.levels.causal.tree.fence import TRAIL_BYTES, Fence
from whence.core.levels.causal.tree.headers import largest
from whence.core.levels.causal.tree.inbox import Inbox
from whence.core.levels.causal.tree.items import HEADER_BYTES_MAX
from whence.core.levels.causal.tree.member import TreeMember
from whence.core.levels.causal.tree.outbox import Outbox
from whence.core.levels.causal.tree.overlay import Overlay
from whence.core.levels.causal.tree.place import Place
from whence.core.levels.causal.tree.predicted import PredictedCoding
from whence.core.levels.causal.tree.processing import Processing
from whence.core.levels.causal.tree.state import State
from whence.core.levels.causal.tree.topology import OverlaySettings, overlay_of
from whence.core.membership.suspects import Suspects
from whence.core.offsets import Offsets
from whence.core.settings import parse
from whence.core.views.member import ViewMember
from whence.core.views.settings import AS_THE_GROUP, LIVE_VIEWS, shared_by_members
from whence.errors import SettingError
from whence.limits import CLOCK_NODES_MAX, MESH_MEMBERS_MAX, PEER_ID_MAX
from whence.types import Process

CODINGS: dict[str, type[HeaderCoding]] = {"whole": HeaderCoding, "predicted": PredictedCoding}
"""How headers are coded, by setting."""


MESH_HELD_MAX = 2048
"""Messages that a member of a mesh holds back: as many as eight members with full windows have under way to it."""

MESH = ("mesh", "direct")
"""The mesh in settings; `direct` is its earlier name."""

FIXED_MESH = (
    "membership=fixed: the members of a mesh join, leave and are removed; leave membership out, or take spread=tree, "
    "whose members are fixed"
)

OF_TREES = ("tree", "groups", "f", "identity", "coding", "replay", "retain", "ordered_links")
"""Settings that have a meaning only on a tree. A group that is given one of them uses a tree."""


def _named_as_now(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the mesh by its present name, and with membership and spread if one says the other. Raises
    SettingError where they do not go together."""
    spread, membership = given.get("spread"), given.get("membership")
    if spread not in MESH and (spread is not None or membership != "living"):
        return dict(given)
    if membership == "fixed":
        raise SettingError(FIXED_MESH)
    return {**given, "spread": "mesh", "membership": "living"}


def _of_tree(founders: Sequence[int], membership: object) -> dict[str, object]:
    """Return the settings of a live group on a tree. Raises SettingError."""
    if membership == "living":
        raise SettingError(
            f"membership=living: a living group is a mesh of at most {MESH_MEMBERS_MAX} members; leave spread and the "
            "settings of trees out and name fewer founders, or leave membership out"
        )
    if not founders:
        raise SettingError(
            "a group on a tree has the members it begins with: name them all, the same list at each of them "
            "(founders=[0, 1, 2], --founders 0,1,2)"
        )
    return {**LIVE_TIMERS, "processes": " ".join(map(str, sorted(founders)))}


class CausalLevel(NamedTuple):
    """The level `causal`, by its parts."""

    member: type[TreeMember] = TreeMember
    state: type[State] = State
    coding: type[HeaderCoding] | None = None
    """None: the one that the setting `coding` names."""
    codings: Mapping[str, type[HeaderCoding]] = CODINGS
    outbox: type[Outbox] = Outbox
    inbox: type[Inbox] = Inbox
    processing: type[Processing] = Processing
    overlay: Callable[[OverlaySettings], Overlay] = overlay_of
    offsets: type[Offsets] = Offsets
    view_member: type[ViewMember] = ViewMember

    @property
    def durable(self) -> bool:
        """Return True: a member remembers across crashes; it is restored and does not join again."""
        return True

    def settings_from(self, given: Mapping[str, Any]) -> Settings:
        """Make settings from values by name. Raises SettingError."""
        settings = parse(_named_as_now(given), Settings)
        if settings.tree.coding not in self.codings:
            raise SettingError("coding: the thesis's format is for simulations with whence-lab: pip install whence-lab")
        overlay = overlay_of(settings.overlay)
        if settings.is_living:
            if overlay.group_count != 1 or len(overlay.table(0).members) != overlay.size:
                raise SettingError("spread: a mesh is one group of all; leave groups out, or take spread=tree")
            if overlay.size > CLOCK_NODES_MAX:
                raise SettingError(f"spread: a mesh has at most {CLOCK_NODES_MAX} nodes, not {overlay.size}")
        return settings

    def build(self, me: Process, settings: Settings, around: BuildContext) -> TreeMember | ViewMember:
        """Compose a member that has not started yet. Raises SettingError if the process has no place."""
        if settings.is_living:
            remembers = around.remembers and settings.living.journal
            return self.view_member(me, settings.views, settings.limits, around.rng, remembers=remembers)
        self._check_member(me.pid, settings)
        return self.compose(me, settings, self.overlay(settings.overlay), remembers=around.remembers)

    def live_settings(self, founders: Sequence[int], given: Mapping[str, object], *, data: bool) -> dict[str, object]:
        """Return the settings of a live group: a living one, or a tree with the members it begins with.

        Raises SettingError for a tree without founders, and for settings that do not go together.
        """
        membership = given.get("membership")
        if membership not in (None, "fixed", "living"):
            raise SettingError(f"membership must be fixed or living, not {membership!r}")
        if self._is_tree(founders, given):
            return _of_tree(founders, membership)
        if membership == "fixed":
            raise SettingError(FIXED_MESH)
        return {
            **LIVE_VIEWS, "spread": "mesh", "membership": "living", "held_copies_max": MESH_HELD_MAX, "journal": data,
            "remove_after_ns": AS_THE_GROUP,
        }  # fmt: skip

    def _is_tree(self, founders: Sequence[int], given: Mapping[str, object]) -> bool:
        """Tell whether a live group is a tree: that is asked for, or it is too large for a mesh."""
        if "spread" in given:
            return given["spread"] not in MESH
        return len(founders) > MESH_MEMBERS_MAX or any(name in given for name in OF_TREES)

    @property
    def with_views(self) -> dict[str, object]:
        """Return the settings of groups whose members change by views."""
        return {"membership": "living"}

    def has_views(self, settings: Settings) -> bool:
        """Tell whether the members may change."""
        return settings.is_living

    def check_place(self, process: int, settings: Settings) -> None:
        """Raise SettingError for a process that has no place in the group, or whose messages no other could read. In a
        living group every process may have one."""
        if settings.is_living:
            return
        self._check_member(process, settings)
        overlay = overlay_of(settings.overlay)
        place = Place(overlay, overlay.place_of[process])
        size = max(largest(place), TRAIL_BYTES * len(place.pairs) if place.f > 1 else 0)
        if size > HEADER_BYTES_MAX:
            raise SettingError(
                f"tree: with {len(place.near) - 1} nodes within {overlay.radius} hops of process {process}, what "
                f"it says of a message may take {size} bytes, and no other reads more than {HEADER_BYTES_MAX}: "
                "take a tree of smaller degree (tree=binary), or a smaller f"
            )

    def _check_member(self, process: int, settings: Settings) -> None:
        overlay = overlay_of(settings.overlay)
        if process not in overlay.place_of:
            raise SettingError(
                f"process {process} is not one of the founders {', '.join(map(str, overlay.processes))}: a group at "
                "this level has the members it began with; name them all at each of them (founders=[0, 1, 2], "
                "--founders 0,1,2)"
            )

    def compose(self, me: Process, settings: Settings, overlay: Overlay, *, remembers: bool) -> TreeMember:
        """Compose a member at its place in an overlay."""
        given = settings.tree
        place = Place(overlay, overlay.place_of[me.pid])
        state = self.state(place, paper=given.identity == "paper", retain=given.retain)
        coding = (self.coding or self.codings[given.coding])(state, given)
        outbox = self.outbox(state, coding, given, Suspects())
        fence = Fence(state, given)
        processing = self.processing(state, coding, outbox, fence, remembers=remembers)
        passes = fence.passes if fence.on else None
        inbox = self.inbox(state, outbox, given, processing.first, processing.duplicate, passes)
        return self.member(me, settings, processing, inbox)

    def shared(self, settings: Settings) -> dict[str, object]:
        """Return what all members must agree on: who they are, and how messages get to them and are named."""
        if settings.is_living:
            return {"spread": "mesh", "membership": "living", **shared_by_members(settings.views)}
        members = list(overlay_of(settings.overlay).processes)
        names = ("identity", "coding", "ordered_links")
        tree = structs.asdict(settings.overlay) | {"spread": "tree", "processes": members}
        return tree | {name: getattr(settings.tree, name) for name in names}

    def destinations(self, settings: Settings, group: int) -> tuple[int, ...]:
        """Return the members of a group."""
        if settings.is_living:
            return ()
        return overlay_of(settings.overlay).members_of(group)

    def first_peers(self, settings: Settings) -> int:
        """Return 0 where every member knows the tree; in a living group a founder knows all founders."""
        return PEER_ID_MAX if settings.is_living else 0

    def remembers_with(self, settings: Settings | None) -> bool:
        """Tell whether a later incarnation of a simulated member continues where it was."""
        return settings is None or settings.living.journal

    def reads_wall_clock(self, settings: Settings) -> bool:
        """Return False: timers must not jump."""
        return False
