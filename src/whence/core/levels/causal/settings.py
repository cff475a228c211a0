"""Everything that can be set for a group at level `causal`: which variant, and what each of them needs."""

from typing import Literal

from msgspec import Struct, structs

from whence.core.levels.causal.reliability import ReliabilitySettings
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.topology import OverlaySettings
from whence.limits import Limits


class VariantSettings(Struct, frozen=True, kw_only=True):
    """How messages get to the members."""

    spread: Literal["tree", "mesh"] = "tree"
    """tree: hop by hop, metadata of a neighbourhood, groups of any size. mesh: from the publisher to every member at
    once, with a number per member; for small groups whose members can all connect. A mesh ignores settings that shape a
    tree."""


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of the level `causal`. Names are unique across the parts."""

    variant: VariantSettings = VariantSettings()
    overlay: OverlaySettings = OverlaySettings()
    tree: TreeSettings = TreeSettings()
    limits: Limits = Limits()

    @property
    def is_mesh(self) -> bool:
        """Tell whether publishers send to every member themselves."""
        return self.variant.spread == "mesh"

    @property
    def mesh(self) -> ReliabilitySettings:
        """Return the settings that a mesh uses."""
        names = [field.name for field in structs.fields(ReliabilitySettings)]
        return ReliabilitySettings(**{name: getattr(self.tree, name) for name in names})

    @property
    def layout(self) -> str:
        """Return what numbers in a journal depend on, besides the processes."""
        if self.is_mesh:
            return "spread=mesh"
        overlay = self.overlay
        return f"spread=tree tree={overlay.tree} groups={overlay.groups} f={overlay.f} identity={self.tree.identity}"
