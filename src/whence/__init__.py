"""Whence: ordered group communication with a consistency dial.

`join` a cluster, `Node.open` a group at a `Level`, `Group.publish` events and take each `Delivery`; `run` runs such a
program on the quickest loop. `whence.blocking` is the same for programs without a loop. Every error a caller may catch
is here, below `WhenceError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from whence.errors import (
    BackPressureError,
    ClosedError,
    EventsLostError,
    InternalError,
    JoinError,
    JoinTimeoutError,
    LeaseSuspendedError,
    LeaveTimeoutError,
    LeftOutError,
    LimitError,
    NameTakenError,
    NotCoordinatorError,
    NotMemberError,
    OutcomeUnknownError,
    PayloadError,
    QuorumError,
    RemovedError,
    SettingError,
    SlowConsumerError,
    StalledError,
    StorageError,
    TraceError,
    UsageError,
    WhenceError,
)
from whence.types import EventId, Level

if TYPE_CHECKING:
    from whence.api.delivery import Batch, Delivery, LateEvent
    from whence.api.group import Group
    from whence.api.members import Member
    from whence.api.node import Node, join
    from whence.api.receipts import Receipt
    from whence.core.links.detector import DetectorSettings
    from whence.net.membership import Removed, View
    from whence.net.run import run
    from whence.net.settings import NetSettings

__version__ = "0.1.0"

__all__ = [
    "BackPressureError",
    "Batch",
    "ClosedError",
    "Delivery",
    "DetectorSettings",
    "EventId",
    "EventsLostError",
    "Group",
    "InternalError",
    "JoinError",
    "JoinTimeoutError",
    "LateEvent",
    "LeaseSuspendedError",
    "LeaveTimeoutError",
    "LeftOutError",
    "Level",
    "LimitError",
    "Member",
    "NameTakenError",
    "NetSettings",
    "Node",
    "NotCoordinatorError",
    "NotMemberError",
    "OutcomeUnknownError",
    "PayloadError",
    "QuorumError",
    "Receipt",
    "Removed",
    "RemovedError",
    "SettingError",
    "SlowConsumerError",
    "StalledError",
    "StorageError",
    "TraceError",
    "UsageError",
    "View",
    "WhenceError",
    "__version__",
    "join",
    "run",
]

_LIVE = {
    "Batch": "api.delivery", "Delivery": "api.delivery", "DetectorSettings": "core.links.detector",
    "Group": "api.group", "LateEvent": "api.delivery", "Member": "api.members", "NetSettings": "net.settings",
    "Node": "api.node", "Receipt": "api.receipts", "Removed": "net.membership", "View": "net.membership",
    "join": "api.node", "run": "net.run",
}  # fmt: skip
"""The modules that hold the live system's names. They are imported on first use; simulations do without them."""


def __getattr__(name: str) -> Any:
    if name in _LIVE:
        return getattr(import_module(f"whence.{_LIVE[name]}"), name)
    raise AttributeError(f"module 'whence' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
