"""Who uses which name and number: two running processes never share one, and the second to come is refused with the
reason.

Laws: a connected process that answers is not replaced by another of its name (or of its number, where it has no name),
whatever incarnation that one has. One that was lost is followed only by a later incarnation. A number that is known as
a name's is that name's also while its process is away: groups may know it by that number. A process that asks gets a
reason, not silence.

A connected process is itself asked whether it still runs: only an answer to a question that was asked after the second
one came counts. Until then the second is asked to call again: it may be a restart of the first, whose connection is not
known to be broken yet.
"""

from whence.core.links.greeting import Hello, Refused, Why
from whence.errors import NameTakenError
from whence.net.peers import Peer, PeerTable
from whence.types import Instant, Process

REMEMBERED_NS = 600_000_000_000
"""How long a lost process is remembered: one that comes back has a later incarnation, and one that has not is
refused."""

ANSWERED_NS = 2_000_000_000
"""How long the answer of a connected process counts against others that come in its name."""


class NumberUsedError(NameTakenError):
    """The number of this process is another name's, and it may still take another number."""


def check_claim(peers: PeerTable, process: Process, hello: Hello, now: Instant) -> tuple[Refused, int] | None:
    """Return why a process cannot use the name and number that it gives, and the pid of the one that has them; None if
    it can. CALL_AGAIN: ask that one whether it still runs."""
    peer, owner = peers.by_pid.get(process.pid), peers.names.name(process.pid)
    if owner and owner != hello.name:
        known = peer.process if peer is not None else None
        return Refused(Why.NUMBER_USED, known.incarnation if known is not None else 0), process.pid
    if peer is not None and peer.name in ("", hello.name):  # else whoever used the number has moved to another
        why = refusal(peer, process, hello.instance, now)
        if why is not None and why.why == Why.TAKEN and peer.name != hello.name:
            why = Refused(Why.NUMBER_USED, why.incarnation)
        if why is not None:
            return why, process.pid
    namesake = peers.by_name(hello.name)
    if namesake is None or namesake.pid == process.pid or namesake.process is None or namesake.lost_at is not None:
        return None
    return _while_connected(namesake, namesake.process, now), namesake.pid  # incarnations of two numbers say nothing


def refusal(peer: Peer | None, process: Process, instance: bytes, now: Instant) -> Refused | None:
    """Return why a process cannot use a peer's pid; None if it can. CALL_AGAIN: ask the one that is connected."""
    known = peer.process if peer is not None else None
    if peer is None or known is None or _is_same(peer, process, instance):
        return None
    if peer.lost_at is not None:
        if process.incarnation > known.incarnation or now - peer.lost_at > REMEMBERED_NS:
            return None
        return Refused(Why.SUPERSEDED if process.incarnation < known.incarnation else Why.REUSED, known.incarnation)
    if process.incarnation < known.incarnation:
        return Refused(Why.SUPERSEDED, known.incarnation)
    return _while_connected(peer, known, now)


def _while_connected(peer: Peer, known: Process, now: Instant) -> Refused:
    """Refuse another process of a connected one's name: for good once that one has answered, before that for now."""
    if peer.answered_at is not None and now - peer.answered_at <= ANSWERED_NS:
        return Refused(Why.TAKEN, known.incarnation)
    if peer.asked_at is None:
        peer.asked_at = now
    return Refused(Why.CALL_AGAIN, known.incarnation)


def answered(peer: Peer, asked: Instant, now: Instant) -> None:
    """Note that the process of a pid has answered a question that was asked at a given time."""
    if peer.asked_at is not None and asked >= peer.asked_at:
        peer.answered_at, peer.asked_at = now, None


def _is_same(peer: Peer, process: Process, instance: bytes) -> bool:
    if peer.process != process:
        return False
    return not (peer.instance and instance) or peer.instance == instance
