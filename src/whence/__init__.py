"""Whence: ordered group communication with a consistency dial."""

from typing import TYPE_CHECKING, Any

from whence.errors import WhenceError
from whence.types import EventId, Level

if TYPE_CHECKING:
    from whence.group import Batch, Delivery, Group, Node, Receipt, join

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Delivery",
    "EventId",
    "Group",
    "Level",
    "Node",
    "Receipt",
    "WhenceError",
    "__version__",
    "join",
]

_OF_GROUP = ("Batch", "Delivery", "Group", "Node", "Receipt", "join")


def __getattr__(name: str) -> Any:
    """Import the live system when it is first asked for: simulations and pipelines do without it."""
    if name in _OF_GROUP:
        from whence import group

        return getattr(group, name)
    raise AttributeError(f"module 'whence' has no attribute {name!r}")
