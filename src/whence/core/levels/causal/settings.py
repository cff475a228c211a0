"""Everything that can be set for a group at level `causal`: which variant, and what each of them needs."""

from typing import Literal

from msgspec import Struct

from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.topology import OverlaySettings
from whence.core.views.settings import ViewSettings
from whence.limits import Limits


class VariantSettings(Struct, frozen=True, kw_only=True):
    """How messages get to the members."""

    spread: Literal["tree", "mesh"] = "tree"
    """tree: hop by hop, metadata of a neighbourhood, groups of any size. mesh: from the publisher to every member at
    once, with a number per member, in views; for small groups whose members can all connect. A mesh ignores settings
    that shape a tree."""


class LivingSettings(Struct, frozen=True, kw_only=True):
    """How the members of a mesh change."""

    membership: Literal["fixed", "living"] = "fixed"
    """living: members join, leave and are removed; so it is in a mesh. fixed: the members that the group began with,
    for ever; so it is on a tree."""
    journal: bool = True
    """Simulations of living groups: whether members remember across crashes. A live one does if it has a data
    directory."""
    keep: Literal["own", "all"] = "own"
    """What a member with a journal stores of others. own: what a change or a majority needs; what only crashed members
    had cannot be supplied then, and is refused or reported. all: every message, before it counts as received."""
    majority: bool = False
    """Whether every publication asks the voters to store it."""
    remove_after_ns: int = 0
    """A member that is suspected for this long is removed. 0: never by itself."""
    lag_max_ns: int = 0
    """A member whose application has not taken, for this long, what another one took is removed. 0: never."""
    join_timeout_ns: int = 10_000_000_000
    """A newcomer that gave no sign of life within this time is removed again."""
    attempt_ns: int = 300_000_000
    """An attempt at a change that does not move for this long is begun anew."""


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of the level `causal`. Names are unique across the parts."""

    variant: VariantSettings = VariantSettings()
    living: LivingSettings = LivingSettings()
    overlay: OverlaySettings = OverlaySettings()
    tree: TreeSettings = TreeSettings()
    limits: Limits = Limits()

    @property
    def is_living(self) -> bool:
        """Tell whether publishers send to every member themselves, and the members may change."""
        return self.variant.spread == "mesh"

    @property
    def views(self) -> ViewSettings:
        """Return the settings that a living group uses."""
        tree, living = self.tree, self.living
        return ViewSettings(
            journal=living.journal, keep=living.keep, majority=living.majority,
            remove_after_ns=living.remove_after_ns, lag_max_ns=living.lag_max_ns,
            join_timeout_ns=living.join_timeout_ns, attempt_ns=living.attempt_ns,
            ack_ns=tree.ack_ns, retry_ns=tree.retry_ns, retry_ns_max=tree.retry_ns_max,
            ask_ns=tree.ask_ns, suspect_ns=tree.suspect_ns, window=tree.window, held_max=tree.held_copies_max,
            records_max=tree.records_max, retained_bytes_max=tree.retained_bytes_max,
        )  # fmt: skip

    @property
    def layout(self) -> str:
        """Return what numbers in the journal of a tree depend on, besides the processes."""
        overlay = self.overlay
        return f"spread=tree tree={overlay.tree} groups={overlay.groups} f={overlay.f} identity={self.tree.identity}"
