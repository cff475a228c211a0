"""Ticket exclusivity: at most one process acts for a ticket at any instant, epochs only grow, only its owner uses it.

An interval of ownership runs from a ticket_acquire row to the process's next mark for that ticket: acquire, release,
suspend or crash; a suspend row may say how long ago the lease had ended. Its owner acts for the tickets below its own
that the row counts, too. Sorted by their start, each interval is compared with the one before it that lasts longest: a
running maximum. Where rows have no true time the processes' own clocks are compared: they show an overlap for certain
when it is longer than clocks may differ and both intervals have a known end, and otherwise only that one is
possible.

Ticket coverage: after healing, every ticket has somebody who acts for it, nobody loses one that it did not give back,
and who asked in time has one unless all are taken; all that unless more processes ended within one repair than the
cluster plans for.
"""

from whence.check.ticket_coverage import ASKED, GIVEN_BACK, WIPED
from whence.pipeline.columns import (
    AFTER_ALL,
    KIND,
    LIFE,
    PLACE,
    PROCESS,
    RUN_ID,
    message,
    text,
    union,
    violations,
    what,
    who,
)
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.trace.layout import TIME_MAX
from whence.trace.schema import (
    EPOCH,
    EV,
    GRP,
    INC,
    LATE_NS,
    M_INC,
    M_PID,
    M_SEQ,
    NODE,
    REASON,
    T_CLK,
    T_TRUE,
    TICKET,
    VALUE,
    Kind,
)

PROMISE = "ticket_exclusivity"
COVERAGE = "ticket_coverage"
_ONE = (RUN_ID, GRP, TICKET)
_INCARNATION = (RUN_ID, GRP, NODE, INC)
_LATEST_END = TIME_MAX + 2**60
"""No interval with an end ends later, by its owner's clock: from here to the earliest time is still a long."""


def ticket_violations(tables: RunTables, holds: DataFrame) -> DataFrame:
    """Return uses without ownership, overlapping ownership, and epochs that repeat or go back."""
    return union(
        [_uses(tables), _uses_after_lease(tables, holds), _overlaps(holds), _shared_epochs(holds), _lower_epochs(holds)]
    )


def ticket_holds(tables: RunTables) -> DataFrame:
    """Return every interval of ownership; `timed` tells whether all of its run have true times."""
    line = Window.partitionBy(*PROCESS, GRP, TICKET).orderBy(*PLACE)
    ends = F.lead(F.struct(T_TRUE, T_CLK, *PLACE, LATE_NS)).over(line)
    facts = F.broadcast(tables.runs.select(RUN_ID, "skew_ns", "slower", "faster", "tickets"))
    held = _marks(tables).join(facts, RUN_ID).withColumn("end", ends).filter(F.col(KIND) == Kind.TICKET_ACQUIRE.value)
    until, at_latest = (_before_end(rate) for rate in ("slower", "faster"))
    until_clk = F.when(F.col("end").isNull(), AFTER_ALL).otherwise(
        F.col(f"end.{T_CLK}") - F.coalesce(F.col(f"end.{LATE_NS}"), F.lit(0))
    )
    known = held.select(
        *PROCESS, *PLACE, GRP, TICKET, EPOCH, VALUE, "skew_ns", "tickets", F.col(T_TRUE).alias("since"),
        until.alias("until"), at_latest.alias("at_latest"),
        F.col(T_CLK).alias("since_clk"), until_clk.alias("until_clk"),
        F.coalesce(F.col(f"end.{INC}"), F.lit(2**31 - 1)).alias("ended_inc"),
        F.coalesce(F.col(f"end.{EV}"), F.lit(AFTER_ALL)).alias("ended_ev"),
    )  # fmt: skip
    untimed = F.bool_or(F.col("since").isNull() | F.col("until").isNull())
    return known.withColumn("timed", ~untimed.over(Window.partitionBy(RUN_ID)))


def _before_end(rate: str) -> Column:
    """Return when an interval ended in true time, its owner's clock running at a rate: slower is earlier."""
    late = (F.coalesce(F.col(f"end.{LATE_NS}"), F.lit(0)) / F.col(rate)).cast("bigint")
    return F.when(F.col("end").isNull(), AFTER_ALL).otherwise(F.col(f"end.{T_TRUE}") - late)


def covers(holds: DataFrame) -> DataFrame:
    """Return every interval once for each ticket that its owner acted for, its own and those below it."""
    how_many = F.when(F.coalesce(F.col(VALUE), F.lit(0)) == 0, 1).otherwise(F.col(VALUE))
    below = F.explode(F.sequence(F.lit(0).cast("bigint"), how_many.cast("bigint") - 1)).alias("below")
    each = holds.filter(F.coalesce(F.col(VALUE), F.lit(0)) >= 0).select("*", below)
    acted_for = F.col(TICKET) - F.col("below")
    around = F.when(F.col("tickets").isNull(), acted_for).otherwise(F.pmod(acted_for, F.col("tickets")))
    return each.withColumn("acted_for", around)


def _marks(tables: RunTables) -> DataFrame:
    """Return what begins and ends ownership: a crash ends it for every ticket the process ever had."""
    kinds = (Kind.TICKET_ACQUIRE, Kind.TICKET_RELEASE, Kind.TICKET_SUSPEND)
    shape = (*PROCESS, *PLACE, GRP, TICKET, EPOCH, KIND, T_TRUE, T_CLK, VALUE, LATE_NS)
    marks = tables.rows_of(*kinds).select(*shape)
    ever = marks.select(*PROCESS, GRP, TICKET).distinct()
    crashes = tables.rows_of(Kind.CRASH).select(*PROCESS, *PLACE, KIND, T_TRUE, T_CLK).join(ever, list(PROCESS))
    crashes = crashes.select("*", *(F.lit(None).cast("bigint").alias(name) for name in (EPOCH, VALUE, LATE_NS)))
    return union([marks, crashes.select(*shape)])


def _uses(tables: RunTables) -> DataFrame:
    """Return what was published under a ticket and epoch that its publisher did not hold, by its own program order."""
    marks = _marks(tables).select(
        *PROCESS, *PLACE, GRP, TICKET,
        F.struct(F.when(F.col(KIND) == Kind.TICKET_ACQUIRE.value, F.col(EPOCH)).alias(EPOCH)).alias("mark"),
        *(F.lit(None).cast(kind).alias(name) for name, kind in
          ((EPOCH, "bigint"), (M_PID, "int"), (M_INC, "int"), (M_SEQ, "bigint"))),
    )  # fmt: skip
    uses = tables.rows_of(Kind.PUBLISH).filter(F.col(TICKET).isNotNull()).select(
        *PROCESS, *PLACE, GRP, TICKET, F.lit(None).cast(f"struct<{EPOCH}:bigint>").alias("mark"),
        EPOCH, M_PID, M_INC, M_SEQ,
    )  # fmt: skip
    line = Window.partitionBy(*PROCESS, GRP, TICKET).orderBy(*PLACE).rowsBetween(Window.unboundedPreceding, 0)
    known = union([marks, uses]).withColumn("held", F.last("mark", ignorenulls=True).over(line)[EPOCH])
    wrong = known.filter(F.col(M_PID).isNotNull() & ~F.coalesce(F.col("held") == F.col(EPOCH), F.lit(False)))
    sentence = text(
        who(),
        " published ",
        what(),
        " under ticket ",
        F.col(TICKET),
        " epoch ",
        F.col(EPOCH),
        ", which it did not hold",
    )
    return violations(wrong, PROMISE, sentence, events=F.array(message()), evs=F.array(EV), absence=True)


def _uses_after_lease(tables: RunTables, holds: DataFrame) -> DataFrame:
    """Return the last publication under a ticket in each interval, where the lease had ended before it for certain."""
    uses = tables.rows_of(Kind.PUBLISH).filter(F.col(TICKET).isNotNull())
    interval = holds.select(
        *PROCESS, GRP, TICKET, F.struct(*PLACE).alias("first"), "at_latest",
        F.struct(F.col("ended_inc").alias(INC), F.col("ended_ev").alias(EV)).alias("last"),
    )  # fmt: skip
    here = F.struct(*PLACE)
    inside = uses.join(interval, [*PROCESS, GRP, TICKET]).filter((F.col("first") < here) & (here < F.col("last")))
    order = Window.partitionBy(*PROCESS, GRP, TICKET, "first").orderBy(F.desc(INC), F.desc(EV))
    late = (
        inside.withColumn("nth", F.row_number().over(order))
        .filter("nth = 1")
        .filter(F.col("at_latest") < F.col(T_TRUE))
    )
    sentence = text(
        who(), " published ", what(), " under ticket ", F.col(TICKET), " epoch ", F.col(EPOCH),
        ", whose lease had run out",
    )  # fmt: skip
    return violations(late, PROMISE, sentence, events=F.array(message()), evs=F.array(EV), absence=True)


def _overlaps(holds: DataFrame) -> DataFrame:
    """Return acquisitions while another still held the ticket: in true time, or for certain by the clocks."""
    timed = _with_longest(holds.filter("timed"), "since", "until")
    found = timed.filter(_is_another() & (F.col("since") < F.col("longest.until")))
    by_clock = possible_overlaps(holds).filter("certain")
    rows = union(
        [table.select(RUN_ID, NODE, INC, EV, GRP, TICKET, EPOCH, "acted_for", "longest") for table in (found, by_clock)]
    )
    own = (F.col(TICKET) == F.col("acted_for")) & (F.col("longest.ticket") == F.col("acted_for"))
    sentence = text(
        who(), " acquired ticket ", F.col(TICKET), " with epoch ", F.col(EPOCH), " while ",
        who(F.col("longest.node"), F.col("longest.inc")), " still held it with epoch ", F.col("longest.epoch"),
    )  # fmt: skip
    for_another = text(
        who(), " as ticket ", F.col(TICKET), " epoch ", F.col(EPOCH), " acted for ticket ", F.col("acted_for"),
        " while ",
        who(F.col("longest.node"), F.col("longest.inc")), " as ticket ", F.col("longest.ticket"), " epoch ",
        F.col("longest.epoch"), " still did",
    )  # fmt: skip
    shown = F.when(own, sentence).otherwise(for_another)
    return violations(rows, PROMISE, shown, evs=F.array(EV), absence=True)


def possible_overlaps(holds: DataFrame) -> DataFrame:
    """Return overlaps on the owners' own clocks in runs without true time; `certain` where no skew explains them."""
    rows = _with_longest(holds.filter("not timed"), "since_clk", "until_clk")
    both = F.least(F.col("until_clk"), F.col("longest.until"), F.lit(_LATEST_END)) - F.col("since_clk")
    are_ended = (F.col("until_clk") < AFTER_ALL) & (F.col("longest.until") < AFTER_ALL)
    certain = are_ended & F.coalesce(both > F.col("skew_ns"), F.lit(False))
    return rows.filter(_is_another() & (both > 0)).withColumn("certain", certain)


def _with_longest(holds: DataFrame, since: str, until: str) -> DataFrame:
    """Return intervals with the longest-lasting one that began before; of equals, the first."""
    line = Window.partitionBy(RUN_ID, GRP, "acted_for").orderBy(since, EV, NODE, INC)
    numbered = covers(holds).withColumn("number", F.row_number().over(line))
    longest = F.max(F.struct(F.col(until).alias("until"), (-F.col("number")).alias("first"), NODE, INC, EPOCH, TICKET))
    return numbered.withColumn("longest", longest.over(line.rowsBetween(Window.unboundedPreceding, -1)))


def _is_another() -> Column:
    return (F.col("longest.node") != F.col(NODE)) | (F.col("longest.inc") != F.col(INC))


def _shared_epochs(holds: DataFrame) -> DataFrame:
    order = Window.partitionBy(*_ONE, EPOCH).orderBy(NODE, LIFE, "ended_inc", "ended_ev", *PLACE)
    rows = holds.withColumn("owner", F.first(F.struct(NODE, INC)).over(order))
    shared = rows.filter((F.col("owner.node") != F.col(NODE)) | (F.col("owner.inc") != F.col(INC)))
    sentence = text(
        who(), " and ", who(F.col("owner.node"), F.col("owner.inc")), " both held ticket ", F.col(TICKET),
        " with epoch ", F.col(EPOCH),
    )  # fmt: skip
    return violations(shared, PROMISE, sentence, evs=F.array(EV))


def _lower_epochs(holds: DataFrame) -> DataFrame:
    known = F.count_if(F.col("since").isNull()).over(Window.partitionBy(*_ONE)) == 0
    line = Window.partitionBy(*_ONE).orderBy("since", EV, NODE, INC)
    rows = holds.withColumn("all_known", known).filter("all_known").withColumn("number", F.row_number().over(line))
    greatest = F.max(F.struct(EPOCH, "number", NODE, INC)).over(line.rowsBetween(Window.unboundedPreceding, -1))
    lower = rows.withColumn("greatest", greatest).filter(F.col(EPOCH) < F.col("greatest.epoch"))
    sentence = text(
        who(), " acquired ticket ", F.col(TICKET), " with epoch ", F.col(EPOCH), " after epoch ",
        F.col("greatest.epoch"), " had been given to ", who(F.col("greatest.node"), F.col("greatest.inc")),
    )  # fmt: skip
    return violations(lower, PROMISE, sentence, evs=F.array(EV))


def coverage_violations(tables: RunTables, holds: DataFrame) -> DataFrame:
    """Return violations of ticket coverage, in runs where no more processes ended than the cluster tolerates."""
    planned = tables.runs.filter("live_from is not null and tickets is not null and k is not null")
    planned = planned.join(F.broadcast(excused_runs(tables)), RUN_ID, "left_anti").select(
        RUN_ID, "live_from", "live_until", "repair_ns", "tickets"
    )
    requests = tables.rows_of(Kind.NOTE).filter(F.col(REASON).isin(ASKED, GIVEN_BACK))
    requests = requests.select(*_INCARNATION, EV, F.col(T_TRUE).alias("requested_at"), F.col(REASON).alias("request"))
    return union(
        [_bare(tables, holds, planned), _lost(tables, requests, planned), _unserved(tables, holds, requests, planned)]
    )


def _lost(tables: RunTables, requests: DataFrame, planned: DataFrame) -> DataFrame:
    """Return releases in the liveness phase by processes that had not given their ticket back."""
    released = tables.rows_of(Kind.TICKET_RELEASE).select(*_INCARNATION, EV, T_TRUE, TICKET).join(planned, RUN_ID)
    released = released.filter((F.col(T_TRUE) > F.col("live_from")) & (F.col(T_TRUE) <= F.col("live_until")))
    before = requests.select(*_INCARNATION, F.col(EV).alias("request_ev"), "request").join(
        released.select(*_INCARNATION, EV), list(_INCARNATION)
    )
    last = (
        before.filter(F.col("request_ev") < F.col(EV))
        .groupBy(*_INCARNATION, EV)
        .agg(F.max_by("request", "request_ev").alias("request"))
    )
    lost = released.join(last.filter(F.col("request") == GIVEN_BACK), [*_INCARNATION, EV], "left_anti")
    sentence = text(who(), " lost ticket ", F.col(TICKET), " in the liveness phase, and had not given it back")
    return violations(lost, COVERAGE, sentence, evs=F.array(EV), absence=True)


def _unserved(tables: RunTables, holds: DataFrame, requests: DataFrame, planned: DataFrame) -> DataFrame:
    """Return processes that asked in time and had no ticket in the liveness phase, though not all were taken."""
    lasting = (
        holds.select(*_INCARNATION, TICKET, "until").join(planned, RUN_ID).filter(F.col("until") > F.col("live_from"))
    )
    taken = lasting.groupBy(RUN_ID, GRP, "tickets").agg(F.countDistinct(TICKET).alias("taken"))
    full = taken.filter(F.col("taken") >= F.col("tickets")).select(RUN_ID, GRP)
    last = requests.groupBy(*_INCARNATION).agg(F.max(F.struct(EV, "request", "requested_at")).alias("last"))
    waits = last.join(planned, RUN_ID).filter(
        (F.col("last.request") == ASKED) & (F.col("last.requested_at") <= F.col("live_until") - F.col("repair_ns"))
    )
    ended = tables.rows_of(Kind.CRASH, Kind.LEAVE).select(RUN_ID, NODE, INC)
    waits = waits.join(full, [RUN_ID, GRP], "left_anti").join(ended, [RUN_ID, NODE, INC], "left_anti")
    waits = waits.join(lasting.select(*_INCARNATION), list(_INCARNATION), "left_anti")
    sentence = text(who(), " asked for a ticket and had none in the liveness phase, though some were free")
    return violations(waits, COVERAGE, sentence, evs=F.array("last.ev"), absence=True)


def _bare(tables: RunTables, holds: DataFrame, planned: DataFrame) -> DataFrame:
    """Return the tickets that nobody acted for in the liveness phase."""
    groups = tables.founders.groupBy(RUN_ID, GRP).agg(F.min(NODE).alias(NODE))
    numbers = F.explode(F.sequence(F.lit(0), F.col("tickets") - 1)).alias("acted_for")
    every = planned.filter("tickets > 0").join(groups, RUN_ID).select(RUN_ID, GRP, NODE, "live_from", numbers)
    lasting = covers(holds).select(RUN_ID, GRP, F.col("acted_for").cast("int").alias("acted_for"), "until")
    lasting = lasting.join(planned.select(RUN_ID, "live_from"), RUN_ID).filter(F.col("until") > F.col("live_from"))
    bare = every.join(lasting.select(RUN_ID, GRP, "acted_for"), [RUN_ID, GRP, "acted_for"], "left_anti")
    sentence = text("nobody acted for ticket ", F.col("acted_for"), " in the liveness phase")
    return violations(bare.withColumn(INC, F.lit(1)), COVERAGE, sentence, absence=True)


def excused_runs(tables: RunTables) -> DataFrame:
    """Return the runs in which more than k processes ended within one repair: then nothing is promised.

    A process that came back with its journal did not end.
    """
    back = tables.rows_of(Kind.RESTART).select(RUN_ID, NODE, (F.col(INC) - 1).alias(INC)).distinct()
    journal = F.coalesce(F.col(REASON), F.lit("")) != WIPED
    returned = tables.rows_of(Kind.CRASH).filter(journal).select(RUN_ID, NODE, INC, EV)
    returned = returned.join(back, [RUN_ID, NODE, INC], "left_semi")
    ends = tables.rows_of(Kind.CRASH, Kind.LEAVE).select(RUN_ID, NODE, INC, EV, T_TRUE)
    ends = ends.join(returned, [RUN_ID, NODE, INC, EV], "left_anti")
    other = ends.select(RUN_ID, F.col(T_TRUE).alias("other_at"))
    within = F.col("other_at").between(F.col(T_TRUE), F.col(T_TRUE) + F.col("repair_ns"))
    known = ends.join(F.broadcast(tables.runs.select(RUN_ID, "k", "repair_ns")), RUN_ID).join(other, RUN_ID)
    counts = known.filter(within).groupBy(RUN_ID, NODE, INC, EV, "k").agg(F.count("*").alias("ends"))
    return counts.filter(F.col("ends") > F.col("k")).select(RUN_ID).distinct()
