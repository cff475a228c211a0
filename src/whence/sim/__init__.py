"""A deterministic world to run members in: the same seed gives the same run, to the byte.

Programs `simulate` a `Scenario` of publications (`Publish`), acts (`Act`) and faults (`Fault`), and read the `trace` of
what it returns: `trace.records(Kind.DELIVER)` are the deliveries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.sim.run import run as simulate
    from whence.sim.scenario import SECOND_NS, Act, Fault, Publish, Scenario
    from whence.trace.schema import Kind

__all__ = ["SECOND_NS", "Act", "Fault", "Kind", "Publish", "Scenario", "simulate"]

_OF = {
    "Act": ("sim.scenario", "Act"), "Fault": ("sim.scenario", "Fault"), "Kind": ("trace.schema", "Kind"),
    "Publish": ("sim.scenario", "Publish"), "SECOND_NS": ("sim.scenario", "SECOND_NS"),
    "Scenario": ("sim.scenario", "Scenario"), "simulate": ("sim.run", "run"),
}  # fmt: skip
"""The module that holds each name, and its name there. They are imported on first use: parts of this package are used
without the rest."""


def __getattr__(name: str) -> Any:
    if name in _OF:
        module, there = _OF[name]
        return getattr(import_module(f"whence.{module}"), there)
    raise AttributeError(f"module 'whence.sim' has no attribute {name!r}")
