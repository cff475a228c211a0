"""The same scenario in slow motion, for settings with longer durations."""

from msgspec import structs

from whence.sim.scenario import Scenario


def with_time_scaled(scenario: Scenario, factor: float) -> Scenario:
    """Return a scenario in which everything happens later by a factor; latencies stay as they are."""

    def later(at_ns: int) -> int:
        return int(at_ns * factor)

    ends = ("heal_at_ns", "live_from_ns", "live_until_ns", "deadline_ns", "rest_at_ns", "end_at_ns")
    return structs.replace(
        scenario,
        faults=[
            structs.replace(fault, at_ns=later(fault.at_ns), until_ns=later(fault.until_ns))
            for fault in scenario.faults
        ],
        acts=[structs.replace(act, at_ns=later(act.at_ns)) for act in scenario.acts],
        publishes=[structs.replace(publish, at_ns=later(publish.at_ns)) for publish in scenario.publishes],
        **{name: later(getattr(scenario, name)) for name in ends},
    )  # fmt: skip
