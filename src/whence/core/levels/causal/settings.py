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
    """tree: hop by hop, metadata of a neighbourhood, any size. mesh: from the publisher to everybody at once, with a
    number per member; for small groups whose members can all connect. What shapes a tree has no effect then."""


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of the level `causal`. Names are unique across the parts."""

    variant: VariantSettings = VariantSettings()
    overlay: OverlaySettings = OverlaySettings()
    tree: TreeSettings = TreeSettings()
    limits: Limits = Limits()

    @property
    def is_mesh(self) -> bool:
        """Tell whether publishers send to everybody themselves."""
        return self.variant.spread == "mesh"

    @property
    def mesh(self) -> ReliabilitySettings:
        """Return what a mesh needs of them."""
        names = [field.name for field in structs.fields(ReliabilitySettings)]
        return ReliabilitySettings(**{name: getattr(self.tree, name) for name in names})

    @property
    def layout(self) -> str:
        """Return what numbers in a journal rest on, beside the processes."""
        if self.is_mesh:
            return "spread=mesh"
        overlay = self.overlay
        return f"spread=tree tree={overlay.tree} groups={overlay.groups} f={overlay.f} identity={self.tree.identity}"
