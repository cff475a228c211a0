"""Tickets alone: a fencing token for a resource outside, with a worker that is paused at the worst moment.

Two workers write to a store that knows nothing of Whence but this: every write carries (ticket, epoch), and a write
with a smaller epoch than the store has seen is refused. The first worker is paused for longer than its lease, between
looking at its lease and writing; its ticket is fenced and given to the second; the first wakes up and writes. Run in
the simulated world: `python examples/fencing.py` prints what the store let in.
"""

from whence.sim import SECOND_NS, Act, Fault, Kind, Publish, Scenario, simulate

TICKETS = 2


class Store:
    """A resource outside: keeps the highest epoch per ticket, and refuses what is older."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.lines: list[str] = []

    def write(self, ticket: int, epoch: int, line: str) -> bool:
        """Take a write unless a later owner of the ticket has written."""
        if epoch < self.epochs.get(ticket, 0):
            return False
        self.epochs[ticket] = epoch
        self.lines.append(line)
        return True


def scenario() -> Scenario:
    """Make a cluster of five: 0 and 4 work, the others only witness; 4 is paused before its write leaves it."""
    second = SECOND_NS
    return Scenario(
        level="optimistic", seed=5, nodes=6,
        settings={"tickets": TICKETS, "rounds": 3, "view": "full"},
        acts=[
            Act(at_ns=1, node=0, name="acquire_ticket"),
            Act(at_ns=3 * second, node=4, name="acquire_ticket"),
            Act(at_ns=10 * second, node=5, name="acquire_ticket"),
        ],
        faults=[Fault(kind="pause", at_ns=7 * second, until_ns=20 * second, nodes=[4], between_effects=True)],
        publishes=[
            Publish(at_ns=at * second // 2 + node, node=node) for at in range(4, 60, 5) for node in (0, 4, 5)
        ],
        end_at_ns=30 * second,
    )  # fmt: skip


def main() -> None:
    """Run the cluster and let the store see every write when it arrives."""
    trace = simulate(scenario()).trace
    store, refused = Store(), 0
    writes: dict[tuple[int, int], tuple[int, int, int]] = {}
    for fields in trace.records(Kind.DELIVER):
        name = (fields["m_pid"], fields["m_seq"])
        if fields["node"] == fields["m_pid"]:  # the writer's own write leaves it now, however late it is
            writes[name] = (fields["t_true"], fields["ticket"], fields["epoch"])
    for (worker, number), (at, ticket, epoch) in sorted(writes.items(), key=lambda each: each[1]):
        line = f"worker {worker} write {number:2} with token (ticket {ticket}, epoch {epoch})"
        taken = store.write(ticket, epoch, line)
        refused += not taken
        print(f"{at / SECOND_NS:6.2f} s  {'taken  ' if taken else 'REFUSED'}  {line}")
    print(f"{len(store.lines)} writes taken, {refused} refused: no two owners' writes ever mixed")


if __name__ == "__main__":
    main()
