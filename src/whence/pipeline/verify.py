"""Judge runs by their promises on Spark: a table of verdicts, and of witnesses with their sentences.

The names, the meaning and the answers are those of `whence check`; the code is written apart from it, so that each is
a witness for the other. A finding that rests on absence counts only in runs whose rows are all there.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from whence.check.verdict import VIOLATIONS_MAX, Outcome, Verdict, Violation
from whence.errors import TraceError, UsageError
from whence.pipeline.columns import ABSENCE, EVENT, EVS, IDS_SHOWN, PROMISE, RUN_ID, SENTENCE, counted, text, union
from whence.pipeline.deliveries import Tables
from whence.pipeline.events import Input, SetAside, find_input, read_events
from whence.pipeline.promises import (
    arrival,
    bounds,
    causal,
    duplicates,
    fifo,
    gaps,
    integrity,
    stamps,
    tickets,
    total,
    views,
)
from whence.pipeline.session import first_line, is_local, suit
from whence.trace.memory import Run
from whence.trace.schema import BOUND, GRP, INC, NODE, T_TRUE, VALUE, Kind
from whence.types import EventId

PROMISES: Final = (
    integrity.PROMISE, duplicates.PROMISE, fifo.PROMISE, causal.CAUSAL, causal.OPTIMISTIC, total.PROMISE,
    arrival.AGREEMENT, arrival.LIVENESS, tickets.PROMISE, tickets.COVERAGE,
    bounds.PROMISE, views.PROMISE, stamps.PROMISE,
)  # fmt: skip
"""Every promise that can be judged here, by the name it has in JSON."""

_NO_PHASES = "the run does not say when its faults stopped, or its rows have no true time"


class Judged(NamedTuple):
    """The verdicts about one run."""

    run: Run
    verdicts: list[Verdict]


class Verified(NamedTuple):
    """The verdicts about all runs, and what could not be used."""

    runs: list[Judged]
    set_aside: list[SetAside]

    @property
    def broken(self) -> bool:
        """Tell whether any promise of any run is broken."""
        return any(verdict.outcome is Outcome.BROKEN for judged in self.runs for verdict in judged.verdicts)


def verify(spark: SparkSession, paths: Iterable[Path | str], promises: Iterable[str] | None = None) -> Verified:
    """Judge every run below the paths, by the given promises or its own. Raises TraceError and UsageError."""
    given = list(paths)
    found = find_input(given)
    try:
        return _verified(spark, found, promises)
    except Exception as error:
        if not _is_unreadable(error):
            raise
    # A file whose beginning and end are sound may still be torn in the middle: read all, and set those aside too.
    found = find_input(given, thorough=True)
    try:
        return _verified(spark, found, promises)
    except Exception as error:
        raise TraceError(f"the trace cannot be read: {first_line(error)}") from error


def _is_unreadable(error: BaseException) -> bool:
    """Tell whether Spark failed on a file's bytes; its messages quote whole plans, so only the first line counts."""
    words = ("FAILED_READ_FILE", "ParquetDecodingException", "CANNOT_READ_FILE", "corrupt")
    return not isinstance(error, AnalysisException) and any(word in str(error)[:2000] for word in words)


def _verified(spark: SparkSession, found: Input, promises: Iterable[str] | None) -> Verified:
    suit(spark, found.bytes)
    with TemporaryDirectory(prefix="whence-") as scratch:
        events = read_events(spark, found, asked(promises), Path(scratch) if is_local(spark) else None)
        tables = Docket(events)
        try:
            judged = _judged(tables, found)
        finally:
            tables.close()
    return Verified([Judged(run, judged[run_id]) for run_id, run in found.runs.items()], events.set_aside)


def _judged(tables: "Docket", found: Input) -> dict[str, list[Verdict]]:
    against = tables.keep(violations_table(tables))
    shown = collect_witnesses(against)
    judged: dict[str, list[Verdict]] = {run_id: [] for run_id in found.runs}
    for row in verdict_table(tables, against).orderBy(RUN_ID, "number").collect():
        witnesses = shown.get((row[RUN_ID], row[PROMISE]), []) if row["count"] else []
        judged[row[RUN_ID]].append(
            Verdict(
                promise=row[PROMISE], outcome=Outcome(row["outcome"]), sentence=row[SENTENCE],
                count=row["count"], violations=witnesses,
            )
        )  # fmt: skip
    return judged


def asked(promises: Iterable[str] | None) -> list[str] | None:
    """Check the names of promises. Raises UsageError for one that nobody judges here."""
    names = None if promises is None else list(promises)
    for name in names or ():
        if name not in PROMISES:
            raise UsageError(f"no promise that Spark judges is called {name!r}; there are {', '.join(PROMISES)}")
    return names


# --- what speaks against promises ---


class Docket(Tables):
    """The tables of some runs with those that several promises share."""

    @cached_property
    def holds(self) -> DataFrame:
        """Every stretch of ownership of a ticket."""
        return self.keep(tickets.ticket_holds(self))

    @cached_property
    def debts_healed(self) -> DataFrame:
        """What is owed in the liveness phase."""
        return self.keep(arrival.debts_after_healing(self))

    @cached_property
    def debts(self) -> DataFrame:
        """What agreement is about: everything where a run promises everything, else the liveness phase."""
        everything = F.broadcast(self.runs.filter("owes_all").select(RUN_ID))
        return self.keep(
            self.debts_healed.join(everything, RUN_ID, "left_anti").unionByName(arrival.debts_in_all(self))
        )  # fmt: skip

    @cached_property
    def kept_debts(self) -> DataFrame:
        """Per run, how much was owed and how much of it was delivered."""
        return self.keep(arrival.arrivals_by_run(self, self.debts, "came", "agreement"))

    @cached_property
    def kept_in_time(self) -> DataFrame:
        """Per run, how much was owed in the liveness phase and how much of it came in time."""
        return self.keep(arrival.arrivals_by_run(self, self.debts_healed, "in_time", "liveness"))


def violations_table(tables: Docket) -> DataFrame:
    """Return everything that speaks against the promises of the runs; what rests on absence only in complete runs."""
    wanted = {row[0] for row in tables.runs.select(F.explode("promises")).distinct().collect()}
    families = [make(tables) for promises, make in _FAMILIES if wanted & set(promises)]
    promised = F.broadcast(tables.runs.select(RUN_ID, F.explode("promises").alias(PROMISE)))
    found = union(families).join(promised, [RUN_ID, PROMISE])
    missing = F.broadcast(tables.incomplete.select(RUN_ID, F.lit(True).alias("is_incomplete")))
    return found.join(missing, RUN_ID, "left").filter(~F.col(ABSENCE) | F.col("is_incomplete").isNull())


def _runs_that_promise(tables: Docket, *promises: str) -> DataFrame:
    wanted = F.array(*(F.lit(promise) for promise in promises))
    return tables.runs.filter(F.arrays_overlap("promises", wanted)).select(RUN_ID, "promises")


def _causal(tables: Docket) -> DataFrame:
    """Strict and optimistic causal order; and integrity where only happened-before can tell what came too early."""
    asked_for = _runs_that_promise(tables, causal.CAUSAL, causal.OPTIMISTIC)
    if causal.INTEGRITY in {row[0] for row in tables.runs.select(F.explode("promises")).distinct().collect()}:
        untimed = _untimed(tables)
        asked_for = asked_for.unionByName(
            tables.runs.join(untimed, RUN_ID).select(RUN_ID, "promises").join(asked_for, RUN_ID, "left_anti")
        )
    return causal.against_causal(tables, asked_for)


def _untimed(tables: Docket) -> DataFrame:
    return tables.published.filter(F.col(T_TRUE).isNull()).select(RUN_ID).distinct()


def _total(tables: Docket) -> DataFrame:
    return total.against_total_order(tables, _runs_that_promise(tables, total.PROMISE).select(RUN_ID))


def _agreement(tables: Docket) -> DataFrame:
    return arrival.against_agreement(tables.debts, tables.kept_debts)


def _liveness(tables: Docket) -> DataFrame:
    return arrival.against_liveness(tables.debts_healed, tables.kept_in_time)


def _tickets(tables: Docket) -> DataFrame:
    return tickets.against_tickets(tables, tables.holds)


def _coverage(tables: Docket) -> DataFrame:
    return tickets.against_coverage(tables, tables.holds)


def _optimistic_gaps(tables: Docket) -> DataFrame:
    return gaps.against_gaps(tables, causal.OPTIMISTIC)


_FAMILIES: Final[tuple[tuple[tuple[str, ...], Callable[[Docket], DataFrame]], ...]] = (
    ((integrity.PROMISE,), integrity.against_integrity),
    ((duplicates.PROMISE,), duplicates.against_no_duplicates),
    ((fifo.PROMISE,), fifo.against_fifo),
    ((causal.CAUSAL, causal.OPTIMISTIC, causal.INTEGRITY), _causal),
    ((causal.OPTIMISTIC,), _optimistic_gaps),
    ((total.PROMISE,), _total),
    ((arrival.AGREEMENT,), _agreement),
    ((arrival.LIVENESS,), _liveness),
    ((tickets.PROMISE,), _tickets),
    ((tickets.COVERAGE,), _coverage),
    ((bounds.PROMISE,), bounds.against_bounds),
    ((views.PROMISE,), views.against_views),
    ((stamps.PROMISE,), stamps.against_stamps),
)  # fmt: skip


# --- verdicts ---


def verdict_table(tables: Docket, against: DataFrame) -> DataFrame:
    """Return one verdict per run and promise: holds, broken or unknown, how many speak against it, and a sentence."""
    first = F.min(F.struct(NODE, INC, EVS, SENTENCE))[SENTENCE]
    counts = against.groupBy(RUN_ID, PROMISE).agg(F.count("*").alias("count"), first.alias("first"))
    asked_for = tables.runs.select("*", F.posexplode("promises").alias("number", PROMISE))
    known = (
        asked_for.join(counts, [RUN_ID, PROMISE], "left")
        .join(facts_by_run(tables), RUN_ID, "left")
        .join(tables.incomplete, RUN_ID, "left")
        .withColumn("count", F.coalesce("count", F.lit(0)))
    )
    unknown = F.coalesce(F.when(F.col("count") == 0, _cannot_tell()), F.lit(None))
    outcome = (
        F.when(F.col("count") > 0, Outcome.BROKEN.value)
        .when(unknown.isNotNull(), Outcome.UNKNOWN.value)
        .when(_needs_no_rows() | _is_excused(), Outcome.HOLDS.value)
        .when(F.col("incomplete").isNotNull(), Outcome.UNKNOWN.value)
        .otherwise(Outcome.HOLDS.value)
    )
    sentence = (
        F.when(F.col("count") > 0, _broken())
        .when(unknown.isNotNull(), unknown)
        .when(_is_excused(), _excuse())
        .when(_needs_no_rows(), F.lit("every member knows all others by setting"))
        .when(F.col("incomplete").isNotNull(), F.col("incomplete"))
        .otherwise(_holds())
    )
    return known.select(RUN_ID, "number", PROMISE, outcome.alias("outcome"), "count", sentence.alias(SENTENCE), "level")


def facts_by_run(tables: Docket) -> DataFrame:
    """Return what verdicts say about each run beside what speaks against it."""
    facts = [
        tables.published.groupBy(RUN_ID).agg(F.count_if(F.col(T_TRUE).isNull()).alias("untimed")),
        tables.arrivals.groupBy(RUN_ID).agg(
            F.count_if((F.col("nth") == 1) & F.col(EVENT).isNotNull()).alias("deliveries")
        ),
        tables.of(Kind.VIEW, Kind.NOTE)
        .groupBy(RUN_ID)
        .agg(
            F.count_if(F.col("kind") == Kind.VIEW.value).alias("views"),
            F.count_if(F.col(VALUE).isNotNull() & F.col(BOUND).isNotNull()).alias("bounded"),
        ),
        tables.holds.groupBy(RUN_ID).agg(F.count("*").alias("holds"), F.bool_and("timed").alias("timed")),
        tickets.excused_runs(tables).withColumn("excused", F.lit(True)),
        tables.kept_debts.drop("reach_min"),
        tables.kept_in_time.drop("reach_min"),
    ]
    every = tables.runs.select(RUN_ID)
    for fact in facts:
        every = every.join(fact, RUN_ID, "left")
    return every.na.fill(0).na.fill({"timed": True, "excused": False})


def _is(promise: str) -> Column:
    return F.col(PROMISE) == promise


def _cannot_tell() -> Column:
    """Say why a promise cannot be judged whatever the rows show, or null."""
    no_phases = F.col("live_from").isNull() | (F.col("untimed") > 0)
    return (
        F.when(_is(arrival.AGREEMENT) & no_phases & ~F.col("owes_all"), _NO_PHASES)
        .when(_is(arrival.LIVENESS) & no_phases, _NO_PHASES)
        .when(
            _is(tickets.PROMISE) & (F.col("holds") == 0) & (F.col("level") != "optimistic"),
            "no ticket was ever held in this run",
        )
        .when(
            _is(tickets.PROMISE) & ~F.col("timed"),
            "the rows have no true time, so who held a ticket when cannot be compared",
        )
        .when(
            _is(tickets.COVERAGE) & (F.col("live_from").isNull() | F.col("tickets").isNull() | F.col("k").isNull()),
            "the run does not say when its faults stopped, or how many tickets it has",
        )
        .when(
            _is(views.PROMISE) & (F.col("views") == 0) & ~F.col("full_view"),
            "the trace has no view rows, and the run does not say that views are full",
        )
        .when(
            _is(views.PROMISE) & (F.col("views") > 0) & F.col("live_from").isNull(),
            "the run does not say when its faults stopped",
        )
    )


def _needs_no_rows() -> Column:
    return _is(views.PROMISE) & (F.col("views") == 0) & F.col("full_view")


def _is_excused() -> Column:
    return _is(tickets.COVERAGE) & F.col("excused")


def _excuse() -> Column:
    return text("more than k = ", F.col("k"), " processes ended within one repair, and then nothing is promised")


def _broken() -> Column:
    more = F.when(F.col("count") > 1, text(" (and ", F.col("count") - 1, " more)")).otherwise(F.lit(""))
    promised = text(F.format_number(F.col("reach_min") * 100, 2), "% of them were promised")
    missing, late = (
        F.format_number(F.col(f"{name}_owed") - F.col(f"{name}_made"), 0) for name in ("agreement", "liveness")
    )
    return (
        F.when(
            _is(arrival.AGREEMENT),
            text(missing, " of ", F.format_number("agreement_owed", 0), " owed deliveries were never made, ",
                 "and at least ", promised),
        )
        .when(
            _is(arrival.LIVENESS),
            text(late, " of ", F.format_number("liveness_owed", 0), " owed deliveries did not come within ",
                 _deadline(), ", and at least ", promised, " to"),
        )
        .otherwise(F.concat(F.col("first"), more))
    )  # fmt: skip


def _deadline() -> Column:
    return text(F.format_number(F.col("deadline_ns") / 1_000_000, 0), " ms")


def _holds() -> Column:
    made = text(
        F.format_number("agreement_made", 0),
        " of ",
        counted(F.col("agreement_owed"), "owed delivery", "owed deliveries"),
        " were made",
    )
    part = text(", at least ", F.format_number(F.col("reach_min") * 100, 2), "% as promised")
    said: dict[str, Column] = {
        integrity.PROMISE: text(
            counted(F.col("deliveries"), "delivery", "deliveries"), " of events as they were published"
        ),
        duplicates.PROMISE: F.lit("no process delivered an event twice"),
        fifo.PROMISE: F.lit("every process delivered every publisher's events in order and reported what it skipped"),
        causal.CAUSAL: F.lit("every event was delivered after everything it follows"),
        causal.OPTIMISTIC: F.lit("no event was delivered after one that follows it"),
        total.PROMISE: F.lit("all processes delivered in one order"),
        arrival.AGREEMENT: F.concat(made, F.when(F.col("reach_min") < 1, part).otherwise(F.lit(""))),
        arrival.LIVENESS: text(
            F.format_number("liveness_made", 0), " of ", F.format_number("liveness_owed", 0),
            " owed deliveries came within ", _deadline(),
        ),
        tickets.PROMISE: F.lit("every ticket had at most one owner at a time, and only its owner used it"),
        tickets.COVERAGE: text("all ", F.col("tickets"), " tickets were acted for after healing"),
        bounds.PROMISE: text(counted(F.col("bounded"), "measurement", "measurements"), " kept their bounds"),
        views.PROMISE: F.lit("at the end every member is in another's view, and views name only the living"),
        stamps.PROMISE: F.lit("every stamp is greater than those of everything it directly follows"),
    }  # fmt: skip
    sentence = F.lit("holds")
    for promise, words in said.items():
        sentence = F.when(_is(promise), words).otherwise(sentence)
    return sentence


# --- witnesses ---


def witness_table(against: DataFrame, most: int = VIOLATIONS_MAX) -> DataFrame:
    """Return a bounded number of witnesses for every run and promise, in a fixed order."""
    order = Window.partitionBy(RUN_ID, PROMISE).orderBy(NODE, INC, EVS, SENTENCE)
    return against.withColumn("number", F.row_number().over(order)).filter(F.col("number") <= most)


def collect_witnesses(against: DataFrame) -> dict[tuple[str, str], list[Violation]]:
    """Bring the witnesses to the report."""
    shown: dict[tuple[str, str], list[Violation]] = {}
    for row in witness_table(against).orderBy(RUN_ID, PROMISE, "number").collect():
        shown.setdefault((row[RUN_ID], row[PROMISE]), []).append(
            Violation(
                promise=row[PROMISE], node=row[NODE], inc=row[INC], grp=row[GRP], sentence=row[SENTENCE],
                ids=tuple(EventId(each["pid"], each["inc"], each["seq"]) for each in row[IDS_SHOWN]),
                evs=tuple(row[EVS]),
            )
        )  # fmt: skip
    return shown
