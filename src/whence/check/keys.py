"""Keys: an event has one key, the same everywhere and its own, and keys order deliveries and causes.

Per group, on rows that have a key (k_hi, k_mid, k_lo): a delivery shows the key that was published; no two events have
the same; each process delivers in increasing key; and what a process publishes has a greater key than everything it
published or delivered before. Readers of the merged order sort by the key alone, so a wrong one is a wrong order. Where
some rows have a key and others lack it, or all lack it at a level that gives keys, the verdict is unknown. One look at
every publication and first delivery.
"""

from typing import TypeAlias

from whence.check.history import AT_GRP, History
from whence.check.levels import KEYED
from whence.check.verdict import Findings, Verdict, counted, what, who
from whence.trace.memory import Row
from whence.trace.schema import COLUMNS_OF, K_HI, K_LO, Kind

PROMISE = "keys"

Key: TypeAlias = tuple[int, int, int]

_OF = {
    kind: slice(COLUMNS_OF[kind].index(K_HI), COLUMNS_OF[kind].index(K_LO) + 1) for kind in (Kind.PUBLISH, Kind.DELIVER)
}


def judge(history: History) -> Verdict:
    """Judge whether keys are one per event, and in order wherever events are."""
    findings = Findings(PROMISE, history.incomplete)
    own = [key_of(Kind.PUBLISH, row) for row in history.published]
    keyed = sum(key is not None for key in own)
    rows = len(own) + history.deliveries
    _judge_unique(history, findings, own)
    for process in history.lines:
        keyed += _judge_deliveries(history, findings, own, history.delivered[process])
        _judge_publications(history, findings, own, process)
    return findings.verdict(
        f"{counted(keyed, 'key')} are one per event and grow along every delivery and cause",
        at_stake=keyed, nothing="no row has a key",
        doubts=without_key(keyed, rows) if keyed < rows and (keyed or history.run.level in KEYED) else None,
    )  # fmt: skip


def without_key(keyed: int, rows: int) -> str:
    """Return the sentence about rows without a key where others have one, or all should."""
    return f"{rows - keyed:,} of {counted(rows, 'publication and delivery', 'publications and deliveries')} have no key"


def key_of(kind: Kind, row: Row) -> Key | None:
    """Return the key of a publication or delivery, or None where it has none; its lower parts may be left out as 0."""
    high, middle, low = row[_OF[kind]]
    return None if high is None else (high, middle or 0, low or 0)


def _judge_unique(history: History, findings: Findings, own: list[Key | None]) -> None:
    first: dict[tuple[str, Key], int] = {}
    for event, key in enumerate(own):
        if key is None:
            continue
        earlier = first.setdefault((history.group_of(event), key), event)
        if earlier != event:
            row, name, other = history.published[event], history.id_of(event), history.id_of(earlier)
            sentence = f"{what(name)} was published with the key of {what(other)}"
            findings.add(row[:2], sentence, grp=row[AT_GRP], ids=[name, other], evs=[row[2]])


def _judge_deliveries(history: History, findings: Findings, own: list[Key | None], rows: dict[int, Row]) -> int:
    """Judge one process's deliveries; return how many have a key."""
    highest: dict[str, tuple[Key, int]] = {}
    keyed = 0
    for event, row in rows.items():
        key, grp = key_of(Kind.DELIVER, row), row[AT_GRP]
        if key is None:
            continue
        keyed += 1
        name, published = history.id_of(event), own[event]
        if published is not None and published != key:
            sentence = f"{who(row[0], row[1])} delivered {what(name)} with another key than it was published with"
            findings.add(row[:2], sentence, grp=grp, ids=[name], evs=[row[2]])
        if grp in highest and key <= highest[grp][0]:
            before = highest[grp][1]
            sentence = f"{who(row[0], row[1])} delivered {what(name)} after {what(history.id_of(before))}, "
            evs = [rows[before][2], row[2]]
            findings.add(
                row[:2], sentence + "whose key is not smaller", grp=grp, ids=[name, history.id_of(before)], evs=evs
            )
        if grp not in highest or key > highest[grp][0]:
            highest[grp] = key, event
    return keyed


def _judge_publications(history: History, findings: Findings, own: list[Key | None], process: tuple[int, int]) -> None:
    """Judge whether what a process published has a greater key than all it knew then."""
    highest: dict[str, tuple[Key, int]] = {}
    delivered = history.delivered[process]
    for _, _, kind, event, row in history.lines[process]:
        if event < 0 or (kind is Kind.DELIVER and delivered[event] is not row) or (key := own[event]) is None:
            continue
        grp = row[AT_GRP]
        if kind is Kind.PUBLISH and grp in highest and key <= highest[grp][0]:
            name, before = history.id_of(event), history.id_of(highest[grp][1])
            sentence = f"{who(row[0], row[1])} published {what(name)} with a key that is not greater than that of "
            findings.add(row[:2], sentence + what(before), grp=grp, ids=[name, before], evs=[row[2]])
        if grp not in highest or key > highest[grp][0]:
            highest[grp] = key, event
