"""A fault file: what goes wrong in a run, and how its network and clocks behave."""

import tomllib
from pathlib import Path

import msgspec

from whence.errors import UsageError
from whence.sim.network import NetworkModel
from whence.sim.scenario import Clocks, Fault


class FaultPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The faults of a run, its network and its clocks."""

    faults: list[Fault] = []
    network: NetworkModel = NetworkModel()
    clocks: Clocks = Clocks()


def read_fault_plan(file: str) -> FaultPlan:
    """Read a fault file, TOML or JSON by its suffix. Raises UsageError that names the file and what is wrong."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else msgspec.json.decode(text)
        return msgspec.convert(data, FaultPlan)
    except OSError as error:
        raise UsageError(f"--faults: cannot read {file}: {error.strerror}; give none, swarm or a file") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"--faults: {file} is no file of faults: {error}") from None


def check_fault_plan(file: str, plan: FaultPlan, nodes: int, heal_at: int) -> None:
    """Check a plan against the run it is for. Raises UsageError that names the file and the fault."""
    latency = plan.network.latency
    if latency.shape == "uniform" and latency.high_ns < latency.low_ns:
        raise UsageError(f"--faults: {file}: network.latency.high_ns must not be below low_ns")
    newcomers = [pid for fault in plan.faults if fault.kind == "join" for pid in fault.nodes]
    known = frozenset([*range(nodes), *newcomers])
    for at, fault in enumerate(plan.faults, 1):
        problem = _problem_with(fault, nodes, known, heal_at)
        if problem is not None:
            raise UsageError(f"--faults: {file}: fault {at} ({fault.kind}): {problem}")


def _problem_with(fault: Fault, nodes: int, known: frozenset[int], heal_at: int) -> str | None:
    """Return why a fault cannot take effect as written, or None."""
    unknown = [pid for pid in (*fault.nodes, *fault.others) if pid not in known]
    if fault.until_ns and fault.until_ns <= fault.at_ns:
        return "until_ns must be later than at_ns"
    if fault.at_ns >= heal_at:
        return f"at_ns must be before the run heals, at {heal_at:,}; more events make it heal later"
    if unknown:
        return f"nobody is numbered {unknown[0]}; founders are 0 to {nodes - 1}, others must join"
    if fault.kind == "join" and any(pid < nodes for pid in fault.nodes):
        return f"nodes that join are numbered from {nodes} on, after the founders"
    if not fault.nodes and fault.kind != "burst" and not fault.mergers:
        return "nodes must name some"
    if not fault.others and fault.kind == "cut":
        return "others must name those who do not hear the nodes"
    if not 0 < fault.amount <= 1 and fault.kind == "burst":
        return "amount is the part of copies that are lost, above 0 and at most 1"
    if fault.amount < 1 and fault.kind == "slow":
        return "amount is how many times slower, at least 1"
    return None
