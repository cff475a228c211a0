"""OpenTelemetry: nothing unless asked for, and then per bundle what a group published and delivered."""

import sys
from collections import Counter
from types import ModuleType

import pytest

from tests.net.live import take, within
from whence.api.node import join
from whence.errors import UsageError
from whence.net.settings import NetSettings


class Instrument:
    """Counts like one of the interface's; `calls` tells that it is asked per bundle."""

    def __init__(self) -> None:
        self.total: Counter[tuple[str, int]] = Counter()
        self.calls = 0

    def add(self, amount: float, about: dict[str, object]) -> None:
        assert about["whence.level"] == "eventual"
        self.total[str(about["whence.group"]), int(str(about["whence.pid"]))] += amount  # type: ignore[assignment]
        self.calls += 1

    record = add


class Meter:
    """Hands out instruments by name."""

    def __init__(self) -> None:
        self.made: dict[str, Instrument] = {}

    def create_counter(self, name: str, unit: str, description: str) -> Instrument:
        return self.made.setdefault(name, Instrument())

    create_histogram = create_counter


def test_a_node_that_is_told_to_counts_what_its_groups_publish_and_deliver(monkeypatch: pytest.MonkeyPatch) -> None:
    meter, package, metrics = Meter(), ModuleType("opentelemetry"), ModuleType("opentelemetry.metrics")
    metrics.get_meter = lambda name: meter  # type: ignore[attr-defined]
    package.metrics = metrics  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", metrics)

    async def main() -> None:
        async with join(1, settings=NetSettings(otel=True)) as node:
            group = await node.open("alps", "eventual")
            await group.publish_many([b"one", b"three", b"five"])
            assert len(await take(group, 3)) == 3

    within(main())
    counted = {name: instrument.total["alps", 1] for name, instrument in meter.made.items()}
    assert counted["whence.published"] == counted["whence.delivered"] == 3
    assert counted["whence.published.bytes"] == counted["whence.delivered.bytes"] == 12
    assert counted["whence.late"] == counted["whence.skipped"] == 0
    assert meter.made["whence.held"].calls == meter.made["whence.delivered"].calls == 1


def test_without_the_extra_a_node_that_is_told_to_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    async def main() -> None:
        async with join(1, settings=NetSettings(otel=True)) as node:
            with pytest.raises(UsageError, match=r"whence\[otel\]"):
                await node.open("alps", "eventual")

    within(main())


def test_a_node_that_is_not_told_to_imports_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    async def main() -> None:
        async with join(1) as node:
            group = await node.open("alps", "eventual")
            await group.publish(b"x")

    within(main())
