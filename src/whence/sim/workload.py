"""The workload of a run: how much is published, by how many members, over which links."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from whence.errors import UsageError
from whence.limits import BUNDLE_BYTES_MAX
from whence.sim.network import Chance, Latency, NetworkModel
from whence.sim.scenario import MS, SECOND_NS, Publish, Scenario


class Workload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run has to carry; None leaves the level's default."""

    rate: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Events per second of the whole group."""
    payload: Annotated[int, Meta(ge=0, le=BUNDLE_BYTES_MAX)] | None = None
    """Bytes of every event."""
    publishers: Annotated[int, Meta(ge=1)] | None = None
    """The number of members that publish; at level optimistic, of those with a ticket."""
    coordinators: Annotated[int, Meta(ge=1)] | None = None
    """The number of members that ask for a ticket, at level optimistic."""
    bandwidth: Annotated[int, Meta(ge=1)] | None = None
    """Bits per second that a member can send, over all its links."""
    latency_ms: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    """What every link takes, always the same."""
    loss: Chance | None = None
    """The part of all copies that the network loses until the run heals; without faults, until it ends."""

    def spacing_ns(self, usual_ns: int) -> int:
        """Return the time between two publications of the whole group."""
        return usual_ns if self.rate is None else max(1, int(SECOND_NS / self.rate))

    def applied_to(self, scenario: Scenario) -> Scenario:
        """Return the scenario with these publishers, payloads and links. Raises UsageError."""
        publishers = sorted({publish.node for publish in scenario.publishes})
        chosen = publishers if self.publishers is None else publishers[: self.publishers]
        if self.publishers is not None and self.publishers > max(len(chosen), scenario.nodes):
            raise UsageError(
                f"publishers: the group has {scenario.nodes} members, and {self.publishers} were asked for"
            )
        instead = {node: chosen[at % len(chosen)] for at, node in enumerate(publishers)}
        return structs.replace(
            scenario, network=self._network(scenario.network),
            publishes=[self._publish(publish, instead[publish.node]) for publish in scenario.publishes],
        )  # fmt: skip

    def _publish(self, publish: Publish, node: int) -> Publish:
        size = publish.size if self.payload is None else self.payload
        return structs.replace(publish, node=node, size=size)

    def _network(self, network: NetworkModel) -> NetworkModel:
        if self.bandwidth is not None:
            network = structs.replace(network, bandwidth_bps=self.bandwidth)
        if self.latency_ms is not None:
            fixed = int(self.latency_ms * MS)
            network = structs.replace(network, latency=Latency(shape="constant", low_ns=fixed, high_ns=fixed))
        return network if self.loss is None else structs.replace(network, loss=self.loss)


NAMES = Workload.__struct_fields__


def workload_from(given: dict[str, Any]) -> Workload:
    """Return a workload from values by name, as text or typed. Raises UsageError that names a wrong value."""
    values = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(values, Workload, strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        name = where.rstrip("`")
        wrong = f"--{name.replace('_', '-')} {given[name]}" if name in given else "workload"
        raise UsageError(f"{wrong}: {what}") from None
