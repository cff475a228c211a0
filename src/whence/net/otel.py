"""OpenTelemetry, where it is switched on (`NetSettings.otel`): what groups publish and deliver, counted per bundle.

Needs the extra `otel`. Only its interface is used: where the application has set up no SDK, counting does nothing.
Nothing of it is imported unless asked for, and nothing is done per event.
"""

from typing import Any

from whence.errors import UsageError
from whence.types import Bundle


class Telemetry:
    """The instruments of one group of one node."""

    __slots__ = ("_about", "_delivered", "_delivered_bytes", "_held", "_late", "_published", "_published_bytes",
                 "_skipped")  # fmt: skip

    def __init__(self, group: str, level: str, pid: int) -> None:
        """Make the instruments. Raises UsageError where the extra is not installed."""
        meter = _meter()
        self._about = {"whence.group": group, "whence.level": level, "whence.pid": pid}
        self._published = meter.create_counter("whence.published", "{event}", "Events published here")
        self._published_bytes = meter.create_counter("whence.published.bytes", "By", "Their payloads")
        self._delivered = meter.create_counter("whence.delivered", "{event}", "Events delivered here")
        self._delivered_bytes = meter.create_counter("whence.delivered.bytes", "By", "Their payloads")
        self._held = meter.create_histogram("whence.held", "s", "How long each bundle waited here for its turn")
        self._skipped = meter.create_counter("whence.skipped", "{event}", "Events given up for good")
        self._late = meter.create_counter("whence.late", "{event}", "Events that came after their place")

    def published(self, bundle: Bundle) -> None:
        """Count an own bundle."""
        self._published.add(bundle.count, self._about)
        self._published_bytes.add(len(bundle.body), self._about)

    def delivered(self, bundle: Bundle, hold_ns: int) -> None:
        """Count a delivered bundle, and how long it was held back."""
        self._delivered.add(bundle.count, self._about)
        self._delivered_bytes.add(len(bundle.body), self._about)
        self._held.record(hold_ns / 1e9, self._about)

    def skipped(self, events: int) -> None:
        """Count events that will never come."""
        self._skipped.add(events, self._about)

    def late(self, events: int) -> None:
        """Count events that came after their place in the order had passed."""
        self._late.add(events, self._about)


def _meter() -> Any:
    try:
        from opentelemetry import metrics
    except ImportError:
        raise UsageError("otel needs OpenTelemetry: pip install 'whence[otel]'") from None
    return metrics.get_meter("whence")
