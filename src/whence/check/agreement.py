"""Agreement after healing: a member delivers every event that is expected of it.

Which events are expected: see `expected`. Levels that promise with high probability state the part that must arrive
(`run.reach_min`), and the verdict is about that part. Costs one look per event and member.
"""

from whence.check.expected import (
    NO_MEMBERSHIP,
    NO_PHASES,
    NOTHING_EXPECTED,
    expected_after_healing,
    expected_in_whole_run,
    expects_all,
    possibly_expected,
)
from whence.check.history import History
from whence.check.verdict import Findings, Verdict, counted, unknown, what, who

PROMISE = "agreement"


def judge(history: History) -> Verdict:
    """Judge whether enough of the expected deliveries were made."""
    everything = expects_all(history)
    by_process = expected_in_whole_run(history) if everything else expected_after_healing(history)
    if by_process is None:
        return unknown(PROMISE, NO_PHASES)
    unsure = possibly_expected(history) if everything else 0
    findings = Findings(PROMISE, history.incomplete)
    expected = sum(map(len, by_process.values()))
    missing = [
        (process, event)
        for process, events in by_process.items()
        for event in events
        if event not in history.delivered[process]
    ]
    made = expected - len(missing)
    if made < history.run.reach_min * expected:
        for process, event in missing:
            name = history.id_of(event)
            node, inc = process[0], process[1] or history.last_incarnations.get(process[0], 1)
            sentence = f"{who(node, inc)} never delivered {what(name)}, though it stayed a member and up to the end"
            findings.add((node, inc), sentence, grp=history.group_of(event), ids=[name], rests_on_absence=True)
    return findings.verdict(
        f"{made:,} of {counted(expected, 'expected delivery', 'expected deliveries')} were made"
        + (f", at least {history.run.reach_min:.2%} as promised" if history.run.reach_min < 1 else ""),
        f"{len(missing):,} of {expected:,} expected deliveries were never made, and at least "
        f"{history.run.reach_min:.2%} of them were promised",
        at_stake=expected, nothing=NOTHING_EXPECTED,
        doubts=f"{NO_MEMBERSHIP}, and {counted(unsure, 'delivery', 'deliveries')} may be expected" if unsure else None,
    )  # fmt: skip
