"""A member whose journal is not the newest: it stops before it reuses the numbers of its own messages."""

from whence.errors import StorageError

OWN_LOST = "own_lost"
"""Why a member must stop: a peer has more of its messages than its journal. It would reuse their numbers."""


def own_lost(group: str, peer: int | None) -> StorageError:
    """Return the error for a member that must stop because of OWN_LOST."""
    return StorageError(
        f"process {peer} has events that this one published to group {group!r}, and its journal does not know of them: "
        "an older data directory, or one whose end is lost. Give it the newest (data=…, --data), or begin a group of "
        "another name"
    )
