"""What a running node reports about itself, as text in Prometheus's format."""

from typing import Any

from whence.net.node import LiveNode
from whence.net.status import metrics_of, status


def metrics(live: LiveNode) -> str:
    """Return the status of a node, and what its levels measure, as metrics."""
    state = status(live)
    lines = [
        "# TYPE whence_uptime_seconds gauge", f"whence_uptime_seconds {state['uptime_s']}",
        "# TYPE whence_peers_connected gauge", f"whence_peers_connected {sum(p['connected'] for p in state['peers'])}",
        "# TYPE whence_link_events_total counter",
    ]  # fmt: skip
    lines += [f'whence_link_events_total{{kind="{_safe(name)}"}} {count}' for name, count in state["counts"].items()]
    for name, key, kind in (
        ("whence_peer_waiting_bytes", "waiting_bytes", "gauge"),
        ("whence_peer_dropped_frames_total", "dropped_frames", "counter"),
        ("whence_peer_rtt_milliseconds", "rtt_ms", "gauge"),
    ):
        lines.append(f"# TYPE {name} {kind}")
        lines += [f'{name}{{peer="{p["pid"]}"}} {p[key]}' for p in state["peers"] if p[key] is not None]
    for key in ("delivered", "published", "skipped", "late"):
        lines.append(f"# TYPE whence_{key}_events_total counter")
        lines += [f"whence_{key}_events_total{_of(group)} {group[key]}" for group in state["groups"]]
    lines.append("# TYPE whence_buffer gauge")
    for group in state["groups"]:
        for name, (value, bound) in group["gauges"].items():
            lines.append(f"whence_buffer{_of(group, buffer=name)} {value}")
            lines.append(f"whence_buffer_bound{_of(group, buffer=name)} {bound}")
    lines += _ticket_lines(state["groups"])
    lines += _level_lines(live)
    lines.append("# TYPE whence_member_events_total counter")
    for group in state["groups"]:
        lines += [f"whence_member_events_total{_of(group, kind=k)} {count}" for k, count in group["counts"].items()]
    return "\n".join(lines) + "\n"


def _ticket_lines(groups: list[dict[str, Any]]) -> list[str]:
    """Return who holds which ticket, with which epoch and for how much longer."""
    lines = []
    for name, key, scale in (
        ("whence_ticket_lease_left_seconds", "lease_left_ns", 1e9),
        ("whence_ticket_epoch", "epoch", 1),
        ("whence_tickets_coordinated", "coordinates", 1),
    ):
        lines.append(f"# TYPE {name} gauge")
        for group in groups:
            ticket = group["ticket"]
            if ticket is not None:
                number = "none" if ticket["ticket"] is None else str(ticket["ticket"])
                labels = _of(group, ticket=number, state=ticket["state"], standing=ticket["standing"])
                lines.append(f"{name}{labels} {(ticket[key] or 0) / scale:g}")
    return lines


def _level_lines(live: LiveNode) -> list[str]:
    """Return what levels count and measure about themselves."""
    by_name: dict[str, list[str]] = {}
    for _, driver in sorted(live.drivers.items()):
        group = {"name": driver.group, "level": driver.context.level}
        for metric in metrics_of(driver.member):
            labels = _of(group, **{metric.label: metric.of}) if metric.label else _of(group)
            by_name.setdefault(f"whence_{metric.name}", []).append(f"whence_{metric.name}{labels} {metric.value}")
    lines = []
    for name, values in by_name.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        if name.endswith("_bucket"):
            lines.append(f"# TYPE {name.removesuffix('_bucket')} histogram")
        elif not name.endswith(("_sum", "_count")):
            lines.append(f"# TYPE {name} {kind}")
        lines += values
    return lines


def _of(group: dict[str, Any], **more: str) -> str:
    labels = {"group": group["name"], "level": group["level"], **more}
    return "{" + ",".join(f'{name}="{_safe(value)}"' for name, value in labels.items()) + "}"


def _safe(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
