"""Whence: ordered group communication with a consistency dial."""

from whence.errors import WhenceError
from whence.types import EventId, Level

__version__ = "0.1.0"

__all__ = ["EventId", "Level", "WhenceError", "__version__"]
