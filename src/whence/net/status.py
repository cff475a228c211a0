"""What a running node reports about itself: one dictionary. It reveals nothing of payloads or keys.

Some fields are there under their former names too: `boot` is the incarnation, `standing` the state of a ticket.
"""

from typing import Any

import msgspec

from whence.core.links.greeting import host_port
from whence.core.member import Living, Measured, Member, OnOverlay
from whence.core.ready import Metric
from whence.core.ticket_status import TicketStatus
from whence.net.clock import steady_ns
from whence.net.driver import Driver
from whence.net.membership import with_names
from whence.net.node import LiveNode
from whence.net.peers import Peer


def status(live: LiveNode) -> dict[str, Any]:
    """Return the present state of a node."""
    return {
        "pid": live.me.pid,
        "incarnation": live.me.incarnation,
        "name": live.name,
        "names": live.peers.names.all(),
        "boot": live.me.incarnation,
        "cluster": live.settings.cluster,
        "address": list(live.connections.endpoint),
        "uptime_s": round((steady_ns() - live.started_ns) / 1e9, 3),
        "counts": dict(sorted(live.counts.items())),
        "peers": [_peer(live, peer) for _, peer in sorted(live.peers.by_pid.items())],
        "groups": [_group(live, driver) for _, driver in sorted(live.drivers.items())],
        "unopened": {group: f"its founders {', '.join(names)}" for group, names in sorted(live.unmet_founders.items())},
    }


def _peer(live: LiveNode, peer: Peer) -> dict[str, Any]:
    address = live.peers.book.find(peer.pid)
    rtt_ns = live.peers.rtt_ns(peer.pid)
    incarnation = peer.process.incarnation if peer.link is not None and peer.process is not None else None
    return {
        "pid": peer.pid,
        "name": live.peers.names.name(peer.pid),
        "connected": peer.link is not None,
        "incarnation": incarnation,
        "boot": incarnation,
        "address": host_port(address.host, address.port) if address is not None else None,
        "rtt_ms": round(rtt_ns / 1e6, 3) if rtt_ns is not None else None,
        "waiting_bytes": peer.waiting_bytes(),
        "dropped_frames": peer.outbox.dropped,
    }


def _group(live: LiveNode, driver: Driver) -> dict[str, Any]:
    return {
        "name": driver.group,
        "level": driver.context.level,
        "member": driver.joined,
        "waits_for": "" if driver.joined and not driver.is_out else live.opening_waits_for(driver.group),
        "failure": str(driver.failure or driver.verdict or ""),
        "members": list(driver.others()),
        "delivered": driver.offsets.position,
        "published": driver.flow.published_events,
        "settled": driver.settling.settled(),
        "skipped": driver.counts["skipped"],
        "late": driver.counts["late"],
        "counts": dict(sorted(driver.counts.items())),
        "gauges": {gauge.name: [gauge.value, gauge.bound] for gauge in driver.member.gauges()},
        "ticket": _ticket(driver.ticket()),
        "metrics": _by_name(metrics_of(driver.member)),
        "overlay": _overlay(driver.member),
        "credit": [driver.flow.credit.away_bytes, driver.flow.credit.limit_bytes()],
        **_view(live, driver.member),
    }


def metrics_of(member: Member) -> list[Metric]:
    """Return what a member counts and measures beyond its gauges; nothing where it does not."""
    return member.metrics() if isinstance(member, Measured) else []


def _overlay(member: Member) -> dict[str, Any] | None:
    """Return a member's neighbours, None where its level has none."""
    return msgspec.structs.asdict(member.overlay_status()) if isinstance(member, OnOverlay) else None


def _view(live: LiveNode, member: Member) -> dict[str, Any]:
    """Return the view that a member is in, None before it is in one; nothing where members do not change by views."""
    if not isinstance(member, Living):
        return {}
    return {"view": msgspec.to_builtins(with_names(member.view_status(), live.peers))}


def _ticket(ticket: TicketStatus | None) -> dict[str, Any] | None:
    """Return the status of a process's ticket; processes as pid:incarnation."""
    if ticket is None:
        return None
    fields: dict[str, Any] = msgspec.structs.asdict(ticket)
    owners = [
        msgspec.structs.asdict(owned) | {"owner": f"{owned.owner.pid}:{owned.owner.incarnation}"}
        for owned in ticket.owners
    ]
    fields["standing"] = ticket.standing
    return fields | {"waits_for": [f"{pid}:{incarnation}" for pid, incarnation in ticket.waits_for], "owners": owners}


def _by_name(metrics: list[Metric]) -> dict[str, Any]:
    """Return metrics as name to value, or to values by label."""
    values: dict[str, Any] = {}
    for metric in metrics:
        if metric.label:
            values.setdefault(metric.name, {})[metric.of] = metric.value
        else:
            values[metric.name] = metric.value
    return values
