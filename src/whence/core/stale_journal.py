"""A member whose journal is not the newest: it stops before it reuses the numbers of its own messages, and rather than
wait for messages that it once acknowledged and nobody retains."""

from whence.errors import StorageError

OWN_LOST = "own_lost"
"""Why a member must stop: a peer has more of its messages than its journal. It would reuse their numbers."""

TAKEN_LOST = "taken_lost"
"""Why a member must stop: it acknowledged events that it does not know of, and a peer retains them no longer."""


def own_lost(group: str, peer: int | None) -> StorageError:
    """Return the error for a member that must stop because of OWN_LOST."""
    return StorageError(
        f"process {peer} has events that this one published to group {group!r}, and its journal does not know of them: "
        "an older data directory, or one whose end is lost. Give it the newest (data=…, --data). Else, where members "
        "change by views, remove this one, move its directory away, and open the group again as a new member; on a "
        "tree, begin a group of another name"
    )


def taken_lost(group: str, peer: int | None) -> StorageError:
    """Return the error for a member that must stop because of TAKEN_LOST."""
    return StorageError(
        f"process {peer} knows that the application here had taken events of group {group!r} that its data directory "
        "does not know of, and nobody retains them: an older directory, or one whose end was lost with the machine. "
        "Give it the newest (data=…, --data); or remove this member, move its directory away, and open the group again "
        "as a new member"
    )
