"""The trace's columns, spelled once, and which of them each kind of row fills.

In memory a trace is one list of plain tuples per kind, in the order things happened, with the columns of `COLUMNS_OF`;
on disk it is Parquet with all `COLUMNS`, null where a kind has none.
"""

from enum import StrEnum
from typing import Final

NODE, INC, EV, T_CLK, T_TRUE = "node", "inc", "ev", "t_clk", "t_true"
GRP, M_PID, M_INC, M_SEQ = "grp", "m_pid", "m_inc", "m_seq"
DESTS, POS, PEER = "dests", "pos", "peer"
L, K_HI, K_MID, K_LO = "l", "k_hi", "k_mid", "k_lo"
STAMP_BYTES, PAYLOAD_BYTES, PAYLOAD_CRC = "stamp_bytes", "payload_bytes", "payload_crc"
HOLD_NS, LATE_NS = "hold_ns", "late_ns"
TICKET, EPOCH = "ticket", "epoch"
IDS, REASON, VALUE, BOUND, PAYLOAD = "ids", "reason", "value", "bound", "payload"


class Kind(StrEnum):
    """What a row records."""

    PUBLISH = "publish"
    SEND = "send"
    RECV = "recv"
    DELIVER = "deliver"
    GAP = "gap"
    LATE = "late"
    DROP = "drop"
    REJECT = "reject"
    RESET = "reset"
    JOIN = "join"
    LEAVE = "leave"
    TICKET_ACQUIRE = "ticket_acquire"
    TICKET_RELEASE = "ticket_release"
    TICKET_SUSPEND = "ticket_suspend"
    CRASH = "crash"
    RESTART = "restart"
    VIEW = "view"
    NOTE = "note"


WHO: Final = (NODE, INC, EV, T_CLK, T_TRUE)
"""Every row: which process, the number of its row, its own clock and true time (null live)."""

ACK_MANUAL: Final = "ack_manual"
"""The reason of a note: the application of this incarnation itself acknowledges what it has taken, some time later."""

CLOSED: Final = "closed"
"""The reason of a note: the process closed the group in order, and did not leave it. Who neither left nor closed it was
killed, or still runs."""

KEY: Final = (L, K_HI, K_MID, K_LO)

_ID = (GRP, M_PID, M_INC, M_SEQ)
_PUBLISH = (*WHO, *_ID, DESTS, *KEY, STAMP_BYTES, PAYLOAD_BYTES, PAYLOAD_CRC, TICKET, EPOCH, PAYLOAD)
_DELIVER = (*WHO, *_ID, POS, HOLD_NS, *KEY, PAYLOAD_BYTES, PAYLOAD_CRC, TICKET, EPOCH, PAYLOAD)
_PASSAGE = (*WHO, GRP, PEER, STAMP_BYTES, PAYLOAD_BYTES)
_OTHER = (*WHO, *_ID, PEER, DESTS, LATE_NS, TICKET, EPOCH, IDS, REASON, VALUE, BOUND)

COLUMNS_OF: Final[dict[Kind, tuple[str, ...]]] = {
    kind: {
        Kind.PUBLISH: _PUBLISH,
        Kind.DELIVER: _DELIVER,
        Kind.SEND: _PASSAGE,
        Kind.RECV: _PASSAGE,
    }.get(kind, _OTHER)
    for kind in Kind
}
"""The columns of a row of each kind, in order. What may differ between two rows of one kind is null in some.

crash, restart: `reason` says how (a crash that wiped the disk: "wiped"). restart, live: `value` is the number of events
that the application took in all earlier incarnations, where the process remembers.
drop: a copy that was thrown away; `reason` is one word. reject: bytes or a call refused. reset: state repaired.
gap: `ids` are the events skipped for good at this member; later deliveries of them would be a broken promise.
view: `dests` is the member's whole view of the group after a change.
note: a measurement; `reason` names it, `value` is what was seen and `bound` the limit it must respect (or null).

A run whose members come and go by views (docs/papers/views.md; the parameter membership = "living") says more:
publish, deliver: `epoch` is that of the view the event was published in.
view, when a member enters a view (reason "entered"), and again after a restart: `epoch`; `dests`, the pids of all its
members in the view's order, the owner's too; `ids`, for each member (pid, the incarnation that asked to join, the epoch
that added it); `value`, where given, the voters as bits by place.
join, when the member is live, and perhaps again after a restart: `epoch` is the one that added it, `value` the
incarnation that asked. Founders have one at the start.
leave, when the process learns that it is out: `reason` "left" or "removed"; `epoch` is that of the view without it; the
event is its last own one that took effect, null if none did. Reason "removed_unknown": it learns only that it is out.
note, with an own event and the reason "stored", "majority" or "settled": the application was told that this event and
all earlier own ones came that far. Reason "unsuppliable": nobody has what the next view needs (keep = "own" only).
Reason "outside": a member learns of a view that it is not in, as a view row would tell it; nobody may have entered it.
Reason "forced": an operator's view, which replaces that of the epoch in `value` and begins a generation.
"""

COLUMNS: Final = (
    *WHO, GRP, M_PID, M_INC, M_SEQ, DESTS, POS, PEER, *KEY, STAMP_BYTES, PAYLOAD_BYTES, PAYLOAD_CRC,
    HOLD_NS, LATE_NS, TICKET, EPOCH, IDS, REASON, VALUE, BOUND, PAYLOAD,
)  # fmt: skip
"""All columns in the order they have on disk; `run_id` and `kind` are the partition."""
