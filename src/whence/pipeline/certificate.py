"""Certificates: one pass proves that a run without faults is correct, however large it is.

The pass walks every process's line once, publications and deliveries in program order, and keeps how far the process
has come with each publisher: one running maximum per publisher. Where every delivery is the next one of its publisher,
nothing was skipped, repeated or turned round. What a publisher had reached when it published is then what the event
directly follows; where every receiver had reached as much before it delivered the event, every cause came before its
effect, first the direct ones and by induction along them all others. So happened-before is rebuilt and never taken
from a stamp. The same pass sees whether the n-th delivery is the same event everywhere, whether keys grow, whether
payloads arrive as they were published, and whether everybody got everything.

A run with more than SLOTS_AT_ONCE publishers is walked once for each so many of them. A walk shows that the events of
its publishers came in line, and of every event that those of its direct causes came first that they published. Together
the walks show it of all direct causes, and the induction is the same.

This settles runs of one group in which only the founders take part, nobody leaves, crashes or gives anything up, every
event is for all, and at most PUBLISHERS_MAX processes publish. It never finds a promise broken: what it does not prove
is judged in full, run by run.
"""

from functools import reduce
from operator import and_, or_
from typing import Any, Final, NamedTuple

from whence.check.expected import NO_PHASES
from whence.check.integrity import UNCOMPARED
from whence.check.verdict import Outcome, Verdict, counted, unknown, vacuous
from whence.pipeline.columns import KIND, RUN_ID
from whence.pipeline.events import Events, incomplete_runs
from whence.pipeline.frames import Column, DataFrame, F, Row, Window
from whence.pipeline.promises import arrival, causal, duplicates, fifo, integrity, keys, total
from whence.pipeline.verdicts import NOTHING
from whence.trace.schema import (
    DESTS,
    EV,
    GRP,
    INC,
    K_HI,
    K_LO,
    K_MID,
    M_INC,
    M_PID,
    M_SEQ,
    NODE,
    PAYLOAD_BYTES,
    PAYLOAD_CRC,
    T_TRUE,
    Kind,
)

SLOTS_AT_ONCE: Final = 32
"""Running maxima per row; runs with more publishers are walked once for each so many."""
PUBLISHERS_MAX: Final = 96
"""With more, a delivery costs more than where every promise is judged by itself (decision 42)."""

_FAULT_KINDS: Final = (Kind.LEAVE, Kind.CRASH, Kind.RESTART, Kind.GAP)
_KEY: Final = (K_HI, K_MID, K_LO)
SLOT, OWN_SLOT, AT, IS_PUBLISH, OK = "slot", "own_slot", "place", "is_publish", "ok"
NEEDS = "needs"
"""What an event directly follows: how far its publisher had come with each publisher, by slot."""
_ORDERS: Final = (causal.CAUSAL, causal.OPTIMISTIC)


class FaultFreeRun(NamedTuple):
    """A run that the pass can prove: its publishers' slots with their first numbers, and how many members it has."""

    grp: str
    slots: dict[tuple[int, int], tuple[int, int]]
    members: int


# --- which runs ---


def fault_free_runs(events: Events) -> dict[str, FaultFreeRun]:
    """Return the runs without faults: only publications, deliveries and traffic among founders."""
    holes = {row[RUN_ID] for row in incomplete_runs(events.lives, events.runs).select(RUN_ID).collect()}
    members: dict[str, dict[str, set[int]]] = {}
    for row in events.founders.collect():
        members.setdefault(row[RUN_ID], {}).setdefault(row[GRP], set()).add(row[NODE])
    lives: dict[str, set[tuple[int, int]]] = {}
    for row in events.lives.select(RUN_ID, NODE, INC).collect():
        lives.setdefault(row[RUN_ID], set()).add((row[NODE], row[INC]))
    unrest = {
        row[RUN_ID]
        for row in events.events.filter(_is_one_of(*_FAULT_KINDS)).select(RUN_ID).distinct().collect()
    }  # fmt: skip
    publishers: dict[str, list[Row]] = {}
    for row in publishers_table(events.events).collect():
        publishers.setdefault(row[RUN_ID], []).append(row)
    fault_free = {}
    for run_id, groups in members.items():
        rows = publishers.get(run_id, [])
        alone = len(groups) == 1 and len(lives.get(run_id, ())) == len({node for node, _ in lives.get(run_id, ())})
        if not alone or run_id in holes | unrest or not 0 < len(rows) <= PUBLISHERS_MAX:
            continue
        ((grp, nodes),) = groups.items()
        plain = all(row["grp_low"] == row["grp_high"] == grp and row["is_plain"] for row in rows)
        for_all = all(row[name] in (None, sorted(nodes)) for row in rows for name in ("dests_low", "dests_high"))
        if plain and for_all and {node for node, _ in lives[run_id]} <= nodes:
            slots = {(row[M_PID], row[M_INC]): (at, row["first"]) for at, row in enumerate(rows)}
            fault_free[run_id] = FaultFreeRun(grp, slots, len(nodes))
    return fault_free


def publishers_table(events: DataFrame) -> DataFrame:
    """Return every publisher: its first number, and for whom, and whether it numbers without gaps in its own name."""
    own = (F.col(NODE) == F.col(M_PID)) & (F.col(INC) == F.col(M_INC))
    return (
        events.filter(_is_one_of(Kind.PUBLISH))
        .groupBy(RUN_ID, M_PID, M_INC)
        .agg(
            F.min(M_SEQ).alias("first"), F.min(GRP).alias("grp_low"), F.max(GRP).alias("grp_high"),
            F.min(F.array_sort(DESTS)).alias("dests_low"), F.max(F.array_sort(DESTS)).alias("dests_high"),
            (F.bool_and(own) & (F.max(M_SEQ) - F.min(M_SEQ) + 1 == F.count("*"))).alias("is_plain"),
        )
        .orderBy(RUN_ID, M_PID, M_INC)
    )  # fmt: skip


def _is_one_of(*kinds: Kind) -> Column:
    return F.col(KIND).isin([kind.value for kind in kinds])


# --- the pass ---


def lines_table(
    events: DataFrame, fault_free: dict[str, FaultFreeRun], wanted: set[str], slots: range
) -> DataFrame:  # fmt: skip
    """Return publications and deliveries of the fault-free runs, each with how far its process had come before it with
    the publishers of some slots."""
    extra = [*_about_payloads(wanted), *_about_keys(wanted)]
    rows = with_slots(
        events.filter(_is_one_of(Kind.PUBLISH, Kind.DELIVER) & F.col(RUN_ID).isin(list(fault_free))), fault_free
    )
    known = rows.select(
        RUN_ID, NODE, EV, SLOT, OWN_SLOT, (F.col(M_SEQ) - F.col("first")).alias(AT),
        (F.col(KIND) == Kind.PUBLISH.value).alias(IS_PUBLISH), (F.col(NODE) == F.col(M_PID)).alias("is_own"),
        *extra,
    )  # fmt: skip
    line = Window.partitionBy(RUN_ID, NODE).orderBy(EV).rowsBetween(Window.unboundedPreceding, -1)
    came = F.col(AT) + 1
    delivers = ~F.col(IS_PUBLISH)
    walked = {
        **{f"reach_{at}": _or_zero(F.max(F.when(F.col(SLOT) == at, came)).over(line)) for at in slots},
        "reach_own": _or_zero(F.max(F.when(delivers & F.col("is_own"), came)).over(line)),
    }
    if total.PROMISE in wanted:
        walked["at"] = F.count(F.when(delivers, F.lit(1))).over(line)
    if _about_keys(wanted):
        key = F.struct(*(F.coalesce(name, F.lit(0)).alias(name) for name in _KEY))
        walked["heard"] = F.last(F.when(delivers, key), ignorenulls=True).over(line)
        walked["said"] = F.last(F.when(F.col(IS_PUBLISH), key), ignorenulls=True).over(line)
        walked["key"] = key
    return known.withColumns(walked)


def _or_zero(count: Column) -> Column:
    return F.coalesce(count, F.lit(0))


def with_slots(rows: DataFrame, fault_free: dict[str, FaultFreeRun]) -> DataFrame:
    """Return rows with their publisher's slot and first number, null for unknown publishers."""
    slots = [
        (run_id, run.grp, pid, inc, at, first)
        for run_id, run in fault_free.items()
        for (pid, inc), (at, first) in run.slots.items()
    ]
    if len(fault_free) == 1 and all((pid, inc, first) == (at, slots[0][3], 1) for _, _, pid, inc, at, first in slots):
        # One large run whose publishers are numbered like slots: no look-up for each of its rows.
        known = F.col(M_PID).between(0, len(slots) - 1) & (F.col(M_INC) == slots[0][3]) & (F.col(GRP) == slots[0][1])
        of_node = F.when(F.col(NODE).between(0, len(slots) - 1), F.col(NODE))
        return rows.withColumns({SLOT: F.when(known, F.col(M_PID)), "first": F.lit(1), OWN_SLOT: of_node})
    shape = f"{RUN_ID} string, {GRP} string, {M_PID} int, {M_INC} int, {SLOT} int, first bigint"
    table = rows.sparkSession.createDataFrame(slots, shape)
    own = table.select(RUN_ID, F.col(M_PID).alias(NODE), F.col(SLOT).alias(OWN_SLOT))
    return rows.join(F.broadcast(table), [RUN_ID, GRP, M_PID, M_INC], "left").join(
        F.broadcast(own), [RUN_ID, NODE], "left"
    )


def _about_payloads(wanted: set[str]) -> list[str]:
    times = wanted & {integrity.PROMISE, arrival.AGREEMENT, arrival.LIVENESS}
    return [*([T_TRUE] if times else []), *([PAYLOAD_CRC, PAYLOAD_BYTES] if integrity.PROMISE in wanted else [])]


def _about_keys(wanted: set[str]) -> list[str]:
    return [*_KEY] if wanted & {total.PROMISE, keys.PROMISE} else []


def events_table(lines: DataFrame, wanted: set[str], slots: range) -> DataFrame:
    """Return every event with what its publication and its deliveries show of the publishers of some slots."""
    publish = F.col(IS_PUBLISH)
    reach = F.get(F.array(*(F.col(f"reach_{at}") for at in slots)), F.col(SLOT) - slots.start)
    is_next = F.when(publish, F.col("is_own") & (F.col(AT) == reach)).otherwise(
        F.when(F.col("is_own"), (F.col(AT) == F.col("reach_own")) & (F.col(AT) < reach)).otherwise(F.col(AT) == reach)
    )
    elsewhere = F.coalesce(~F.col(SLOT).between(slots.start, slots.stop - 1), F.lit(False))
    shown = [
        F.bool_and(elsewhere | F.coalesce(is_next, F.lit(False))).alias(OK),
        F.count_if(publish).alias("published"), F.count_if(~publish).alias("delivered"),
    ]  # fmt: skip
    if wanted & {*_ORDERS, integrity.PROMISE}:
        follows = reduce(or_, [F.col(f"reach_{at}") > 0 for at in slots])
        shown.append(F.bool_or(F.when(publish, follows)).alias("follows"))
        needs = [F.max(F.when(publish, F.col(f"reach_{at}"))) for at in slots]
        haves = [F.min(F.when(~publish, F.col(f"reach_{at}"))) for at in slots]
        enough = [F.coalesce(have >= need, F.lit(True)) for have, need in zip(haves, needs, strict=True)]
        shown += [reduce(and_, enough).alias("in_order"), F.array(*needs).alias(NEEDS)]
        if causal.OPTIMISTIC in wanted:
            # A publisher knows its own events, but causes must be delivered to it first, as to others.
            handed = [
                F.min(
                    F.when(~publish, F.when(F.col(OWN_SLOT) == at, F.col("reach_own")).otherwise(F.col(f"reach_{at}")))
                )
                for at in slots
            ]
            enough = [F.coalesce(have >= need, F.lit(True)) for have, need in zip(handed, needs, strict=True)]
            shown.append(reduce(and_, enough).alias("handed_in_order"))
    if T_TRUE in _about_payloads(wanted):
        shown += [
            F.max(F.when(publish, F.col(T_TRUE))).alias("sent_at"),
            F.min(F.when(~publish, F.col(T_TRUE))).alias("first_at"),
            F.max(F.when(~publish, F.col(T_TRUE))).alias("last_at"),
            F.count_if(~publish & F.col(T_TRUE).isNull()).alias("whenever"),
        ]
    if integrity.PROMISE in wanted:
        summed = F.count(PAYLOAD_CRC).isin(F.lit(0), F.count("*"))
        shown.append(F.count(PAYLOAD_CRC).alias("sums"))
        shown.append((_is_one(PAYLOAD_CRC) & _is_one(PAYLOAD_BYTES) & summed).alias("as_sent"))
    if _about_keys(wanted):
        grows = F.coalesce(F.col("key") > F.col("heard"), F.lit(True)) & F.col(K_HI).isNotNull()
        # Word by word: over structs, Spark sorts all rows before it takes a minimum.
        one_key = reduce(and_, [F.min(f"key.{name}") == F.max(f"key.{name}") for name in _KEY])
        shown += [
            (F.bool_and(F.when(~publish, grows)) & one_key).alias("by_key"),
            one_key.alias("one_key"),
            F.count_if(F.col(K_HI).isNull()).alias("keyless"),
        ]
    if total.PROMISE in wanted:
        shown += [
            (F.min(F.when(~publish, F.col("at"))) == F.max(F.when(~publish, F.col("at")))).alias("by_place"),
        ]
    if keys.PROMISE in wanted:
        above = F.coalesce(F.col("key") > F.col("heard"), F.lit(True)) & F.coalesce(
            F.col("key") > F.col("said"), F.lit(True)
        )
        shown.append(F.bool_and(F.when(publish, above & F.col(K_HI).isNotNull())).alias("above"))
    return lines.repartition(RUN_ID, SLOT, AT).groupBy(RUN_ID, SLOT, AT).agg(*shown)


def _is_one(name: str) -> Column:
    """Return whether all rows of an event that say something say the same."""
    return F.coalesce(F.min(name) == F.max(name), F.lit(True))


def run_facts(each: DataFrame, runs: DataFrame, wanted: set[str]) -> DataFrame:
    """Return, for every run, what all of its events show."""
    known = each.join(F.broadcast(runs.select(RUN_ID, "live_from", "live_until", "deadline_ns")), RUN_ID)
    timed = T_TRUE in _about_payloads(wanted)
    live = F.col("sent_at").between(F.col("live_from"), F.col("live_until")) if timed else F.lit(False)
    # What was delivered and never published is no event: nothing is at stake in it, and it lacks no time.
    is_event = F.col("published") > 0
    shown = [
        (F.bool_and(OK) & F.bool_and(F.col("published") == 1)).alias("in_line"),
        F.sum(F.when(is_event, F.col("delivered")).otherwise(0)).alias("deliveries"),
        F.count_if(is_event).alias("events"), F.count_if(~is_event).alias("strangers"),
        F.sum(F.when(is_event & (F.col(AT) > 0), F.col("delivered")).otherwise(0)).alias("successors"),
        F.min("delivered").alias("least"), F.count_if(live).alias("live_events"),
        F.min(F.when(live, F.col("delivered"))).alias("live_least"),
    ]  # fmt: skip
    if timed:
        took = F.col("last_at") - F.col("sent_at")
        shown += [
            F.count_if(is_event & F.col("sent_at").isNull()).alias("untimed"),
            F.bool_and(F.coalesce(F.col("first_at") >= F.col("sent_at"), F.lit(True))).alias("after_sent"),
            F.bool_and(F.when(live, (took <= F.col("deadline_ns")) & (F.col("whenever") == 0))).alias("in_time"),
        ]
    if integrity.PROMISE in wanted:
        shown.append(F.sum("sums").alias("sums"))
    if "keyless" in each.columns:
        shown.append(F.sum("keyless").alias("keyless"))
    if "follows" in each.columns:
        shown.append(F.sum(F.when(F.col("follows"), F.col("delivered")).otherwise(0)).alias("followers"))
    flags = [
        name
        for name in ("in_order", "handed_in_order", "as_sent", "by_key", "one_key", "by_place", "above")
        if name in each.columns
    ]
    return known.groupBy(RUN_ID).agg(*shown, *(F.bool_and(name).alias(name) for name in flags))


# --- what it proves ---


class Certified(NamedTuple):
    """What the pass proved, by run and promise; and what it saw of every run that it could walk at once."""

    verdicts: dict[str, dict[str, Verdict]]
    seen: dict[str, dict[str, Any]]
    runs: dict[str, FaultFreeRun]
    wanted: set[str]


def certified(events: Events, promises: dict[str, list[str]]) -> Certified:
    """Walk all fault-free runs among those given, and return the verdicts that the pass can prove."""
    fault_free = {
        run_id: run for run_id, run in fault_free_runs(events).items() if set(promises.get(run_id, ())) & set(PROVABLE)
    }
    wanted = {promise for run_id in fault_free for promise in promises[run_id]} & set(PROVABLE)
    if not fault_free:
        return Certified({}, {}, {}, wanted)
    facts = {row[RUN_ID]: row.asDict() for row in events.runs.collect()}
    seen = {
        run_id: {**facts[run_id], **shown, "run": fault_free[run_id]}
        for run_id, shown in _walked(events, fault_free, wanted).items()
    }
    proved: dict[str, dict[str, Verdict]] = {}
    for run_id, shown in seen.items():
        verdicts = (proof(promise, shown) for promise in promises[run_id] if promise in PROVABLE)
        proved[run_id] = {verdict.promise: verdict for verdict in verdicts if verdict is not None}
    narrow = {run_id: shown for run_id, shown in seen.items() if len(shown["run"].slots) <= SLOTS_AT_ONCE}
    return Certified(proved, narrow, fault_free, wanted)


def slots_of(fault_free: dict[str, FaultFreeRun], first: int = 0) -> range:
    """Return the slots, from one on, for which a walk keeps running maxima."""
    most = max(len(run.slots) for run in fault_free.values())
    return range(first, min(first + SLOTS_AT_ONCE, most))


def _walked(events: Events, fault_free: dict[str, FaultFreeRun], wanted: set[str]) -> dict[str, dict[str, Any]]:
    """Return what all events of each run show, in one walk for each SLOTS_AT_ONCE publishers.

    A walk sees of each event whether those of its direct causes came first that these publishers published, and of
    these publishers' events whether they came in line. The rest is seen by the first walk. A run that is not in line
    is walked no further.
    """
    seen: dict[str, dict[str, Any]] = {}
    left, asked = fault_free, wanted
    for first in range(0, PUBLISHERS_MAX, SLOTS_AT_ONCE):
        left = {run_id: run for run_id, run in left.items() if len(run.slots) > first}
        left = {run_id: run for run_id, run in left.items() if seen.get(run_id, {"in_line": True})["in_line"]}
        if not left:
            break
        slots = slots_of(left, first)
        each = events_table(lines_table(events.events, left, asked, slots), asked, slots)
        for row in run_facts(each, events.runs, asked).collect():
            shown = row.asDict()
            before = seen.setdefault(row[RUN_ID], shown)
            for name in [name for name in _OF_SLOTS if name in shown]:
                before[name] = before[name] and shown[name]
            if "followers" in shown:
                before["followers"] = max(before["followers"], shown["followers"])
        asked = (wanted & set(_ORDERS)) | ({causal.CAUSAL} if integrity.PROMISE in wanted else set())
    return seen


_OF_SLOTS: Final = ("in_line", "in_order", "handed_in_order")
"""What every walk has to show."""


PROVABLE: Final = {
    integrity.PROMISE: "", duplicates.PROMISE: "no process delivered an event twice",
    fifo.PROMISE: "every process delivered every publisher's events in order and reported what it skipped",
    causal.CAUSAL: "every event was delivered after everything it follows",
    causal.OPTIMISTIC: "no event was delivered after one that follows it",
    total.PROMISE: "all processes delivered in one order", arrival.AGREEMENT: "", arrival.LIVENESS: "",
    keys.PROMISE: "",
}  # fmt: skip
"""What can be proved here, and the sentence that says so where it has no numbers."""


def proof(promise: str, shown: dict[str, Any], *, settled: bool = False) -> Verdict | None:
    """Return the verdict about a promise of a run, or None where the pass leaves it open.

    `settled`: whatever the pass leaves open was judged otherwise, and nothing is wrong.
    """
    members, sentence = shown["run"].members, PROVABLE[promise]
    if not shown["in_line"] and not settled:
        return None
    holds, at_stake = True, shown["deliveries"]
    if promise == integrity.PROMISE:
        holds = shown["as_sent"] and shown["after_sent"] and (not shown["untimed"] or shown["in_order"])
        sentence = f"{counted(shown['deliveries'], 'delivery', 'deliveries')} of events as they were published"
        sentence += "" if shown["sums"] else UNCOMPARED
    elif promise == fifo.PROMISE:
        at_stake = shown["successors"]
    elif promise in _ORDERS:
        holds = shown["in_order"] if promise == causal.CAUSAL else shown["handed_in_order"]
        at_stake = shown["followers"]
    elif promise in (total.PROMISE, keys.PROMISE):
        # Where every member delivered everything, keys that grow along deliveries are also different.
        everywhere = shown["least"] == members > 1 and shown["events"] > 1
        by_keys = shown["by_key"] and shown["above"] if promise == keys.PROMISE else shown["by_key"]
        holds = everywhere and (by_keys or (promise == total.PROMISE and shown["by_place"]))
        keyed = shown["events"] + shown["deliveries"]
        if promise == keys.PROMISE:
            sentence = f"{counted(keyed, 'key')} are one per event and grow along every delivery and cause"
    elif promise in (arrival.AGREEMENT, arrival.LIVENESS):
        everything = promise == arrival.AGREEMENT and shown["expects_all"]
        if not everything and (shown["live_from"] is None or shown["untimed"]):
            return unknown(promise, NO_PHASES)
        reach = shown["least"] if everything else shown["live_least"]
        at_stake = (shown["events"] if everything else shown["live_events"]) * members
        holds = reach in (members, None) and (promise == arrival.AGREEMENT or shown["in_time"] is not False)
        sentence = _arrived(promise, at_stake, shown)
    if not holds and not settled:
        return None
    if not at_stake:
        return vacuous(promise, NOTHING[promise][1])
    return Verdict(promise=promise, outcome=Outcome.HOLDS, sentence=sentence)


def _arrived(promise: str, expected: int, shown: dict[str, Any]) -> str:
    if promise == arrival.LIVENESS:
        return (
            f"{expected:,} of {expected:,} expected deliveries came within {shown['deadline_ns'] / 1_000_000:,.0f} ms"
        )
    part = f", at least {shown['reach_min'] * 100:,.2f}% as promised"
    made = f"{expected:,} of {counted(expected, 'expected delivery', 'expected deliveries')} were made"
    return made + (part if shown["reach_min"] < 1 else "")
