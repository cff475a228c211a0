"""Whence: ordered group communication with a consistency dial."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from whence.errors import WhenceError
from whence.types import EventId, Level

if TYPE_CHECKING:
    from whence.group import Batch, Delivery, Group, Receipt
    from whence.node import Node, join

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

_LIVE = {"Batch": "group", "Delivery": "group", "Group": "group", "Node": "node", "Receipt": "group", "join": "node"}


def __getattr__(name: str) -> Any:
    """Import the live system when it is first asked for: simulations and pipelines do without it."""
    if name in _LIVE:
        return getattr(import_module(f"whence.{_LIVE[name]}"), name)
    raise AttributeError(f"module 'whence' has no attribute {name!r}")
