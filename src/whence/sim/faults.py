"""Plans a scenario's faults and publications on a cluster's loop, and heals it.

A fault counts as effective only when it did something: a crash of a process that was up, a cut that a copy ran into.
"""

from whence.sim.cluster import Cluster
from whence.sim.mergers import serving
from whence.sim.process import SimProcess
from whence.sim.scenario import Act, Fault, Publish, Scenario
from whence.types import Bundle


class ScenarioScheduler:
    """Schedules the faults, publications and acts of a scenario."""

    def __init__(self, cluster: Cluster, scenario: Scenario) -> None:
        self._cluster = cluster
        self._scenario = scenario
        self._healed = False
        self._reacted: dict[int, int] = {}
        """How often each reaction has happened."""
        self._returning: dict[int, Fault] = {}
        """Crashed processes that restart when their fault ends, at the latest when the run heals."""

    def plan(self) -> None:
        """Put everything in the scenario on the loop."""
        loop, scenario = self._cluster.loop, self._scenario
        for fault in scenario.faults:
            loop.at(fault.at_ns, self._begin, fault)
            if fault.until_ns:
                loop.at(fault.until_ns, self._end, fault)
        for publish in scenario.publishes:
            loop.at(publish.at_ns, self._publish, publish)
        for act in scenario.acts:
            loop.at(act.at_ns, self._act, act)
        if scenario.reactions:
            self._cluster.on_delivery(self._heard)
        if scenario.heal_at_ns:
            loop.at(scenario.heal_at_ns, self._heal)
        if scenario.rest_at_ns:
            loop.at(scenario.rest_at_ns, self._record_rest)
        for time in (scenario.live_from_ns, scenario.live_until_ns, scenario.rest_at_ns, scenario.end_at_ns):
            if time:
                loop.at(time, self._record_views)

    def _publish(self, publish: Publish) -> None:
        process = self._cluster.processes.get(publish.node)
        if process is None:
            return
        label = f"{publish.node}@{publish.at_ns}".encode()
        payloads = [(b"%s#%d" % (label, at)).ljust(publish.size, b".")[: publish.size] for at in range(publish.events)]
        if process.publish(payloads, publish.group) is None:
            self._cluster.effective["publish_refused"] += 1

    def _heard(self, node: int, bundle: Bundle) -> None:
        """Let a node that reacts publish."""
        loop = self._cluster.loop
        for at, reaction in enumerate(self._scenario.reactions):
            done = self._reacted.get(at, 0)
            if reaction.node == node and bundle.pid != node and done < reaction.times:
                self._reacted[at] = done + 1
                later = loop.now + reaction.after_ns
                loop.at(later, self._publish, Publish(at_ns=later, node=node, group=reaction.group))

    def _act(self, act: Act) -> None:
        process = self._cluster.processes.get(act.node)
        self._count(act.name, process is not None and process.act(act.name, act.argument))

    def _begin(self, fault: Fault) -> None:
        if self._healed and not fault.lasting:
            return
        match fault.kind:
            case "crash":
                self._crash(fault)
            case "pause":
                for process in self._present(fault):
                    if fault.between_effects:
                        process.stall()
                    else:
                        process.pause()
                        self._count("pause", process.up)
            case "clock_jump":
                for process in self._present(fault):
                    self._cluster.jump_clock(process.pid, int(fault.amount))
                    self._count("clock_jump", process.up)
            case "join":
                for pid in fault.nodes:
                    self._count("join", self._cluster.join(pid))
            case "leave":
                for process in self._present(fault):
                    self._count("leave", process.leave())
            case _:
                self._switch(fault, on=True)

    def _end(self, fault: Fault) -> None:
        if self._healed and not fault.lasting:
            return
        match fault.kind:
            case "crash":
                for pid in [pid for pid, why in self._returning.items() if why is fault]:
                    self._cluster.processes[pid].spare()
                    self._restart(pid)
            case "pause":
                for process in self._present(fault):
                    process.resume()
            case "clock_jump" | "join" | "leave":
                pass
            case _:
                self._switch(fault, on=False)

    def _switch(self, fault: Fault, *, on: bool) -> None:
        """Turn a network fault on or off. The network counts it, for each copy that runs into it."""
        network = self._cluster.network
        match fault.kind:
            case "cut":
                network.cut(fault.nodes, fault.others, on=on)
            case "partition":
                network.partition(fault.nodes, on=on)
                self._count("partition_healed", not on and self._cluster.effective["partition"] > 0)
            case "slow":
                network.slow(fault.nodes, fault.amount, fault.others, on=on)
            case "burst":
                network.burst(fault.amount, on=on)

    def _crash(self, fault: Fault) -> None:
        merging = serving(self._cluster.processes.values())[: fault.mergers]
        self._count("merger_crash", bool(merging))
        for process in dict.fromkeys((*self._present(fault), *merging)):
            if process.up:
                self._returning.pop(process.pid, None)
                if fault.until_ns:
                    self._returning[process.pid] = fault
            if fault.between_effects and process.up:
                process.doom(fault.disk)
            else:
                self._count(f"crash_{fault.disk}", process.crash(fault.disk))

    def _restart(self, pid: int) -> None:
        fault = self._returning.pop(pid)
        self._count("restart", self._cluster.restart(pid, fault.settings))

    def _heal(self, _: None) -> None:
        """End every fault that is not lasting: links work, paused processes run, and processes due to restart do."""
        self._cluster.network.heal()
        for fault in self._scenario.faults:
            if fault.lasting and fault.at_ns <= self._cluster.loop.now < fault.until_ns:
                self._switch(fault, on=True)
        for pid in sorted(self._cluster.processes):
            self._cluster.processes[pid].spare()
            self._cluster.processes[pid].resume()
        self._cluster.hurry()
        self._cluster.ask_again()
        for pid in sorted(self._returning):
            self._restart(pid)
        self._healed = True

    def _record_views(self, _: None) -> None:
        self._cluster.record_views()

    def _record_rest(self, _: None) -> None:
        self._cluster.record_rest()

    def _present(self, fault: Fault) -> list[SimProcess]:
        processes = self._cluster.processes
        return [processes[pid] for pid in fault.nodes if pid in processes]

    def _count(self, kind: str, happened: bool) -> None:
        if happened:
            self._cluster.effective[kind] += 1
