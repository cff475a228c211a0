"""Agreement over views: members of the latest view that stay are handed the same events, from the later of their joins
on (views 1, *agreement*).

A member stays if it is in the latest view of its group and up at the end; see `owed` for groups that were closed. An
event that one of them was handed, or published, is handed to every one of them that is in the view it was published in
(traps T1 to T4, T6, T7, T9, T14, T19 to T21, T26, T27). Nothing is said of what only removed members had. A joiner of a
strict group is owed what follows its first event in the sequences of the others. When a missing delivery counts: see
`owed`. One mask operation per member, and one look per missing event.
"""

from whence.check.living.members import Living
from whence.check.living.owed import Owed
from whence.check.verdict import Verdict, counted, what, who

PROMISE = "agreement"


def judge(living: Living) -> Verdict:
    """Judge whether all who stay were handed the same."""
    owed = Owed(living, PROMISE)
    expected = missed = 0
    for process, membership in living.judged.items():
        mask = owed.effective & living.due[process]
        expected += mask.bit_count()
        for event in owed.missing(process, mask):
            missed += 1
            owed.add_missing(
                membership, event,
                f"{who(*membership.name)} was never handed {what(living.id_of(event))}, which took effect in a view "
                "it is in",
            )  # fmt: skip
    owed.doubt_views()
    return owed.verdict(
        f"{counted(expected, 'expected delivery', 'expected deliveries')} at members that stay, and all were made",
        at_stake=expected, nothing="nobody who stays was handed anything",
    )  # fmt: skip
