"""Agreement after healing: what is owed to a member is delivered by it.

Who is owed what: see `owed`. Levels that promise with high probability state the part that must arrive
(`run.reach_min`), and the verdict is about that part. Costs one look per event and member.
"""

from whence.check.history import History
from whence.check.owed import (
    NO_MEMBERSHIP,
    NO_PHASES,
    owed_after_healing,
    owed_in_all,
    promises_all,
    unsure_in_all,
)
from whence.check.verdict import Findings, Verdict, counted, unknown, what, who

PROMISE = "agreement"


def judge(history: History) -> Verdict:
    """Judge whether enough of what is owed was delivered."""
    everything = promises_all(history)
    debts = owed_in_all(history) if everything else owed_after_healing(history)
    if debts is None:
        return unknown(PROMISE, NO_PHASES)
    unsure = unsure_in_all(history) if everything else 0
    findings = Findings(PROMISE, history.incomplete)
    owed = sum(map(len, debts.values()))
    missing = [
        (process, event)
        for process, events in debts.items()
        for event in events
        if event not in history.delivered[process]
    ]
    made = owed - len(missing)
    if made < history.run.reach_min * owed:
        for process, event in missing:
            name = history.id_of(event)
            node, inc = process[0], process[1] or history.last_lives.get(process[0], 1)
            sentence = f"{who(node, inc)} never delivered {what(name)}, though it stayed a member and up to the end"
            findings.add((node, inc), sentence, grp=history.group_of(event), ids=[name], rests_on_absence=True)
    return findings.verdict(
        f"{made:,} of {counted(owed, 'owed delivery', 'owed deliveries')} were made"
        + (f", at least {history.run.reach_min:.2%} as promised" if history.run.reach_min < 1 else ""),
        f"{len(missing):,} of {owed:,} owed deliveries were never made, and at least "
        f"{history.run.reach_min:.2%} of them were promised",
        at_stake=owed, nothing="nothing was owed to anybody",
        doubts=f"{NO_MEMBERSHIP}, and {counted(unsure, 'delivery', 'deliveries')} may be owed" if unsure else None,
    )  # fmt: skip
