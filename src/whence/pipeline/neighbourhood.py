"""The neighbourhood of trouble: of a run that the certificate's pass could walk and not prove, the events that matter.

The pass tells which events are as they should be. The others are few, and what they broke is found among them and
those they stepped over: a run of any size is judged on these alone, by the same code as a small run. Added to an event
that is not as it should be are, for each process that delivered it out of turn, the events of its publisher from where
the process was to where it went; and, where a process had not heard of all that the event directly follows, what it
lacked.

Nothing is missed. Take a cause that a process lacks at the first delivery of anything that follows it. If its
publisher, or a process that had delivered the cause, published the effect, the pass saw that the receiver had not come
so far, and both are in the neighbourhood. Otherwise the effect's publisher had delivered, before, something that
follows the cause and not the cause: it lacked that cause itself, earlier in happened-before, and so on back to the case
above. This needs an order without circles, which true time shows, or that nothing was out of order; other runs are
judged in full.

By keys it is an interval: a sequence that is out of order steps back somewhere, and everything that it steps over lies
between the two ends of the step.
"""

from typing import Any

from msgspec import structs

from whence.check.verdict import Outcome, Verdict
from whence.pipeline.certificate import (
    AT,
    IS_PUBLISH,
    NEEDS,
    OK,
    OWN_SLOT,
    SLOT,
    Certified,
    FaultFreeRun,
    events_table,
    lines_table,
    proof,
    slots_of,
    with_slots,
)
from whence.pipeline.columns import KIND, RUN_ID, in_spans, merged_spans, sent_if_few
from whence.pipeline.events import Events
from whence.pipeline.frames import Column, DataFrame, F
from whence.pipeline.promises import arrival, causal, duplicates, fifo, integrity, keys, total
from whence.trace.schema import K_HI, M_SEQ, Kind

_EVENT = (RUN_ID, SLOT, AT)
_STEPS = (Kind.PUBLISH.value, Kind.DELIVER.value)
_BY_KEY = {total.PROMISE, keys.PROMISE}
_ARRIVALS = {arrival.AGREEMENT, arrival.LIVENESS}


def can_be_judged_nearby(promise: str, seen: dict[str, Any]) -> bool:
    """Return whether a promise of a run that the pass walked can be judged on the neighbourhood of its trouble."""
    # How far a process came is not what it seems where it was handed what nobody published.
    in_order, untimed = seen.get("in_order", False), seen.get("untimed", 1) or seen["strangers"]
    if promise in (duplicates.PROMISE, fifo.PROMISE):
        return True
    if promise == integrity.PROMISE:
        return bool(in_order or not untimed)
    if promise in (causal.CAUSAL, causal.OPTIMISTIC):
        return bool(in_order or (not untimed and seen["after_sent"]))
    if promise in _ARRIVALS:
        return bool(seen["reach_min"] >= 1)
    if promise in _BY_KEY:
        everywhere = promise == total.PROMISE or seen["least"] == seen["run"].members
        return bool(not seen["keyless"] and seen["one_key"] and everywhere)
    return False


def nearby_events(events: Events, walked: Certified, promises: dict[str, list[str]]) -> DataFrame:
    """Return the rows of some runs that their promises rest on: all but the publications and deliveries of events that
    are as they should be."""
    runs = {run_id: walked.runs[run_id] for run_id in promises}
    wanted = {promise for names in promises.values() for promise in names}
    near = _spread(_troubled(events, runs, wanted))
    if wanted & _BY_KEY:
        near = near.unionByName(_around_keys(events, runs, wanted))
    near = near.distinct().withColumn("is_near", F.lit(True)).localCheckpoint(eager=True)
    is_step = F.col(KIND).isin(*_STEPS)
    here = events.events.filter(F.col(RUN_ID).isin(list(runs)))
    steps = with_slots(here.filter(is_step), runs).withColumn(AT, F.col(M_SEQ) - F.col("first"))
    kept = steps.join(sent_if_few(near), list(_EVENT), "left").filter(F.col(SLOT).isNull() | F.col("is_near"))
    rows = kept.select(*here.columns).unionByName(here.filter(~is_step))
    return rows.localCheckpoint(eager=True)


def _troubled(events: Events, runs: dict[str, FaultFreeRun], wanted: set[str]) -> DataFrame:
    """Return the publications and deliveries of events that are not as they should be, each with what its process had
    come to before (as `lines_table` tells) and what the event directly follows."""
    slots = slots_of(runs)
    lines = lines_table(events.events, runs, wanted, slots)
    each = events_table(lines, wanted, slots)
    spark = events.runs.sparkSession
    sizes = spark.createDataFrame([(run_id, run.members) for run_id, run in runs.items()], f"{RUN_ID} string, n int")
    about = events.runs.select(RUN_ID, "live_from", "live_until", "deadline_ns").join(sizes, RUN_ID)
    known = each.join(F.broadcast(about), RUN_ID)
    wrong = ~F.col(OK) | (F.col("published") != 1)
    for name in ("in_order", "handed_in_order", "as_sent", "one_key"):
        wrong = wrong | ~F.col(name) if name in each.columns else wrong
    if "sent_at" in each.columns:
        wrong = wrong | F.coalesce(F.col("first_at") < F.col("sent_at"), F.lit(False))
    if wanted & _ARRIVALS:
        slow = F.coalesce(F.col("last_at") - F.col("sent_at") > F.col("deadline_ns"), F.lit(False))
        live = F.coalesce(F.col("sent_at").between(F.col("live_from"), F.col("live_until")), F.lit(False))
        wrong = wrong | (F.col("delivered") < F.col("n")) | (live & (slow | (F.col("whenever") > 0)))
    needs = F.col(NEEDS) if NEEDS in each.columns else F.array().cast("array<bigint>")
    found = known.filter(wrong).select(*_EVENT, needs.alias(NEEDS)).localCheckpoint(eager=True)
    return lines.join(sent_if_few(found), list(_EVENT))


def _spread(rows: DataFrame) -> DataFrame:
    """Return the events that troubled ones stepped over, and themselves."""
    slots = sum(name.startswith("reach_") for name in rows.columns) - 1
    reaches = F.array(*(F.col(f"reach_{at}") for at in range(slots)))
    delivers = ~F.col(IS_PUBLISH)
    here = F.when(delivers & F.col("is_own"), F.col("reach_own")).otherwise(F.get(reaches, F.col(SLOT)))
    spans = [_span(F.col(SLOT), F.least(here, AT), F.greatest(here, AT))]
    for at in range(slots):
        need, reach = F.get(NEEDS, F.lit(at)), F.col(f"reach_{at}")
        spans.append(F.when(delivers & (need > reach), _span(F.lit(at), reach, need - 1)))
    need, reach = F.get(NEEDS, F.col(OWN_SLOT)), F.col("reach_own")
    spans.append(F.when(delivers & (need > reach), _span(F.col(OWN_SLOT), reach, need - 1)))
    each = rows.select(RUN_ID, F.explode(F.array_compact(F.array(*spans))).alias("span")).distinct()
    return each.select(
        RUN_ID, F.col(f"span.{SLOT}").alias(SLOT), F.explode(F.sequence("span.low", "span.high")).alias(AT)
    )


def _span(slot: Column, low: Column, high: Column) -> Column:
    return F.struct(
        slot.cast("int").alias(SLOT), low.cast("bigint").alias("low"), high.cast("bigint").alias("high")
    )  # fmt: skip


def _around_keys(events: Events, runs: dict[str, FaultFreeRun], wanted: set[str]) -> DataFrame:
    """Return the events whose keys lie between the two ends of a step backwards."""
    lines = lines_table(events.events, runs, wanted & _BY_KEY, slots_of(runs))
    steps = []
    for before, of_publications in (("heard", False), ("heard", True), ("said", True)):
        is_back = (F.col(IS_PUBLISH) == of_publications) & (F.col("key") <= F.col(before))
        ends = F.struct(F.col(f"key.{K_HI}").alias("low"), F.col(f"{before}.{K_HI}").alias("high"))
        steps.append(F.when(is_back, ends))
    each = lines.select(RUN_ID, F.explode(F.array_compact(F.array(*steps))).alias("step"))
    back = each.select(RUN_ID, F.col("step.low").alias("low"), F.col("step.high").alias("high"))
    spans = merged_spans(back, (RUN_ID,)).localCheckpoint(eager=True)
    published = events.events.filter(F.col(RUN_ID).isin(list(runs)) & (F.col(KIND) == Kind.PUBLISH.value))
    named = with_slots(published, runs).select(RUN_ID, SLOT, (F.col(M_SEQ) - F.col("first")).alias(AT), K_HI)
    return in_spans(named, F.col(K_HI), spans, (RUN_ID,)).select(*_EVENT)


def settled(promise: str, nearby: Verdict, seen: dict[str, Any]) -> Verdict | None:
    """Return the verdict about a run from the one about the neighbourhood of its trouble; None: it stays open."""
    if nearby.outcome is Outcome.BROKEN and promise in _ARRIVALS:
        return structs.replace(nearby, sentence=_fell_short(promise, nearby.count, seen))
    if nearby.outcome in (Outcome.BROKEN, Outcome.UNKNOWN):
        return nearby
    everywhere = seen["least"] == seen["run"].members > 1 and seen["events"] > 1
    if promise == total.PROMISE and not everywhere and nearby.outcome is not Outcome.HOLDS:
        return None  # it is not known whether any two processes can be compared
    return proof(promise, seen, settled=True)


def _fell_short(promise: str, missing: int, seen: dict[str, Any]) -> str:
    everything = promise == arrival.AGREEMENT and seen["expects_all"]
    expected = (seen["events"] if everything else seen["live_events"]) * seen["run"].members
    promised = f"at least {seen['reach_min'] * 100:,.2f}% of them were promised"
    if promise == arrival.AGREEMENT:
        return f"{missing:,} of {expected:,} expected deliveries were never made, and {promised}"
    deadline = f"{seen['deadline_ns'] / 1_000_000:,.0f} ms"
    return f"{missing:,} of {expected:,} expected deliveries did not come within {deadline}, and {promised} to"
