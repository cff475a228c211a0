"""Verdicts: one for each run and promise, with the number of violations and a sentence."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from whence.check.expected import NO_MEMBERSHIP, NO_PHASES, NOTHING_EXPECTED
from whence.check.integrity import UNCOMPARED
from whence.check.levels import KEYED
from whence.check.verdict import VIOLATIONS_MAX, Outcome
from whence.pipeline.columns import DOUBTFUL, EVS, KIND, PROMISE, RANK, RUN_ID, SENTENCE, counted, text
from whence.pipeline.frames import Column, DataFrame, F, Window
from whence.pipeline.promise_tables import PromiseTables
from whence.pipeline.promises import (
    arrival,
    bounds,
    causal,
    duplicates,
    fifo,
    integrity,
    keys,
    tickets,
    total,
    views,
)
from whence.trace.schema import BOUND, INC, NODE, PAYLOAD_CRC, T_TRUE, VALUE, Kind


class Told(NamedTuple):
    """The verdict about a promise of a run, without its witnesses."""

    run_id: str
    promise: str
    outcome: Outcome
    violations: int
    sentence: str


def verdict_table(tables: PromiseTables, violations: DataFrame) -> DataFrame:
    """Return one verdict per run and promise, with the number of violations and a sentence."""
    certain = ~F.col(DOUBTFUL)
    first = F.min(F.when(certain, F.struct(NODE, INC, EVS, SENTENCE)))[SENTENCE]
    counts = violations.groupBy(RUN_ID, PROMISE).agg(
        F.count_if(certain).alias("count"), F.count_if(DOUBTFUL).alias("doubts"), first.alias("first")
    )
    asked_for = tables.runs.select("*", F.posexplode("promises").alias("number", PROMISE))
    known = (
        asked_for.join(counts, [RUN_ID, PROMISE], "left")
        .join(facts_by_run(tables), RUN_ID, "left")
        .join(tables.incomplete, RUN_ID, "left")
        .withColumns({name: F.coalesce(name, F.lit(0)) for name in ("count", "doubts")})
    )
    unknown = F.coalesce(F.when(F.col("count") == 0, _cannot_tell()), F.lit(None))
    outcome = (
        F.when(F.col("count") > 0, Outcome.BROKEN.value)
        .when(unknown.isNotNull(), Outcome.UNKNOWN.value)
        .when(_needs_no_rows() | _is_excused(), Outcome.VACUOUS.value)
        .when(F.col("incomplete").isNotNull() | _doubts().isNotNull(), Outcome.UNKNOWN.value)
        .when(_nothing().isNotNull(), Outcome.VACUOUS.value)
        .otherwise(Outcome.HOLDS.value)
    )
    sentence = (
        F.when(F.col("count") > 0, _broken())
        .when(unknown.isNotNull(), unknown)
        .when(_is_excused(), _excuse())
        .when(_needs_no_rows(), F.lit("every member knows all others by setting"))
        .otherwise(F.coalesce(F.col("incomplete"), _doubts(), _nothing(), _holds()))
    )
    return known.select(RUN_ID, "number", PROMISE, outcome.alias("outcome"), "count", sentence.alias(SENTENCE), "level")


def facts_by_run(tables: PromiseTables) -> DataFrame:
    """Return the facts about each run that verdicts need beside violations; others are not made."""
    every = tables.runs.select(RUN_ID)
    for promises, make, nothing in _FACTS:
        if tables.wanted & set(promises):
            known = {name: F.coalesce(name, F.lit(value)) for name, value in nothing.items()}
            every = every.join(F.broadcast(tables.keep(make(tables))), RUN_ID, "left").withColumns(known)
        else:
            every = every.withColumns({name: F.lit(value) for name, value in nothing.items()})
    return every


def _untimed(tables: PromiseTables) -> DataFrame:
    return tables.published.groupBy(RUN_ID).agg(F.count_if(F.col(T_TRUE).isNull()).alias("untimed"))


def _delivered(tables: PromiseTables) -> DataFrame:
    return tables.delivered.groupBy(RUN_ID).agg(
        F.count("*").alias("deliveries"),
        F.count_if(F.col(RANK) > 0).alias("successors"),
        F.count(PAYLOAD_CRC).alias("summed"),
        F.count_if(F.col(PAYLOAD_CRC).isNull() != F.col(f"o_{PAYLOAD_CRC}").isNull()).alias("one_sum"),
    )


def _noted(tables: PromiseTables) -> DataFrame:
    return (
        tables.rows_of(Kind.VIEW, Kind.NOTE)
        .groupBy(RUN_ID)
        .agg(
            F.count_if(F.col(KIND) == Kind.VIEW.value).alias("views"),
            F.count_if(F.col(VALUE).isNotNull() & F.col(BOUND).isNotNull()).alias("bounded"),
        )
    )


def _held(tables: PromiseTables) -> DataFrame:
    held = tables.holds.groupBy(RUN_ID).agg(F.count("*").alias("holds"), F.bool_and("timed").alias("timed"))
    possible = tickets.possible_overlaps(tables.holds).filter("not certain").groupBy(RUN_ID)
    return held.join(possible.agg(F.count("*").alias("possible")), RUN_ID, "left")


def _excused(tables: PromiseTables) -> DataFrame:
    return tickets.excused_runs(tables).withColumn("excused", F.lit(True))


def _timeless(tables: PromiseTables) -> DataFrame:
    return views.untimed_runs(tables).withColumn("timeless", F.lit(True))


Fact: TypeAlias = tuple[tuple[str, ...], Callable[[PromiseTables], DataFrame], dict[str, float | int | str | bool]]

_FACTS: Final[tuple[Fact, ...]] = (
    ((arrival.AGREEMENT, arrival.LIVENESS), _untimed, {"untimed": 0}),
    ((arrival.AGREEMENT,), arrival.possibly_expected, {"possibly_expected": 0}),
    (
        (integrity.PROMISE, duplicates.PROMISE, fifo.PROMISE), _delivered,
        {"deliveries": 0, "successors": 0, "summed": 0, "one_sum": 0},
    ),
    ((causal.CAUSAL, causal.OPTIMISTIC), causal.followers_delivered, {"followers": 0}),
    ((total.PROMISE,), total.comparable_groups, {"comparable": 0}),
    ((keys.PROMISE,), keys.keyed_rows, {"keyed": 0, "to_key": 0}),
    ((views.PROMISE, bounds.PROMISE), _noted, {"views": 0, "bounded": 0}),
    ((views.PROMISE,), _timeless, {"timeless": False}),
    ((tickets.PROMISE,), _held, {"holds": 0, "timed": True, "possible": 0}),
    ((tickets.COVERAGE,), _excused, {"excused": False}),
    (
        (arrival.AGREEMENT,), lambda tables: tables.agreement_counts.drop(
            "reach_min", "agreement_broken", "agreement_untimed"
        ),
        {"agreement_expected": 0, "agreement_made": 0},
    ),
    (
        (arrival.LIVENESS,), lambda tables: tables.liveness_counts.drop("reach_min", "liveness_broken"),
        {"liveness_expected": 0, "liveness_made": 0, "liveness_untimed": 0},
    ),
)  # fmt: skip
"""Facts: the promises that need one, the function that makes it, and its value where there is none."""


_NOTHING_FOLLOWS: Final = "nobody delivered anything that follows something else"

NOTHING: Final = {
    integrity.PROMISE: ("deliveries", "nothing was delivered"),
    duplicates.PROMISE: ("deliveries", "nothing was delivered"),
    fifo.PROMISE: ("successors", "nobody delivered anything that its publisher had published something before"),
    causal.CAUSAL: ("followers", _NOTHING_FOLLOWS),
    causal.OPTIMISTIC: ("followers", _NOTHING_FOLLOWS),
    total.PROMISE: ("comparable", "no two processes delivered two events each in one group"),
    keys.PROMISE: ("keyed", "no row has a key"),
    arrival.AGREEMENT: ("agreement_expected", NOTHING_EXPECTED),
    arrival.LIVENESS: ("liveness_expected", NOTHING_EXPECTED),
    tickets.PROMISE: ("holds", "no ticket was ever held in this run"),
    tickets.COVERAGE: ("tickets", "the run has no tickets"),
    bounds.PROMISE: ("bounded", "nothing was measured"),
    views.PROMISE: ("views", "no view was recorded"),
}
"""The fact that counts what could have broken each promise, and the sentence where it is 0."""


def _is(promise: str) -> Column:
    return F.col(PROMISE) == promise


def _cannot_tell() -> Column:
    """Return why a promise cannot be judged whatever the rows show, or null."""
    no_phases = F.col("live_from").isNull() | (F.col("untimed") > 0)
    return (
        F.when(_is(arrival.AGREEMENT) & no_phases & ~F.col("expects_all"), NO_PHASES)
        .when(_is(arrival.LIVENESS) & no_phases, NO_PHASES)
        .when(
            _is(tickets.PROMISE) & ~F.col("timed") & (F.col("possible") > 0),
            text(
                "the rows have no true time, and by the owners' clocks a ticket may have had two owners at once in ",
                counted(F.col("possible"), "case", "cases"),
            ),
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
            _is(views.PROMISE) & (F.col("views") > 0) & (F.col("live_from").isNull() | F.col("timeless")),
            NO_PHASES,
        )
    )


def _doubts() -> Column:
    """Return why a promise cannot be judged although there are no certain violations, or null."""
    causes = text(
        f"{NO_MEMBERSHIP}, and ", counted(F.col("doubts"), "cause", "causes"), " may have been expected and never came"
    )
    expected = text(
        f"{NO_MEMBERSHIP}, and ", counted(F.col("possibly_expected"), "delivery", "deliveries"), " may be expected"
    )
    sums = text(
        counted(F.col("one_sum"), "delivery", "deliveries"),
        " cannot be compared with what was published: only one of the two has a checksum",
    )
    untimed = text(
        counted(F.col("liveness_untimed"), "expected delivery", "expected deliveries"),
        " came at a time that no row tells",
    )
    too_few = F.col("liveness_made") < F.col("reach_min") * F.col("liveness_expected")
    some_keyed = (F.col("keyed") > 0) | F.col("level").isin(list(KEYED))
    bare = text(
        F.format_number(F.col("to_key") - F.col("keyed"), 0), " of ",
        counted(F.col("to_key"), "publication and delivery", "publications and deliveries"), " have no key",
    )  # fmt: skip
    return (
        F.when(_is(causal.CAUSAL) & (F.col("doubts") > 0), causes)
        .when(_is(arrival.AGREEMENT) & F.col("expects_all") & (F.col("possibly_expected") > 0), expected)
        .when(_is(arrival.LIVENESS) & too_few, untimed)
        .when(_is(integrity.PROMISE) & (F.col("one_sum") > 0), sums)
        .when(_is(keys.PROMISE) & some_keyed & (F.col("keyed") < F.col("to_key")), bare)
    )


def _nothing() -> Column:
    """Return why a promise was not at stake, or null where it was."""
    sentence = F.lit(None).cast("string")  # tickets are those of each group
    for promise, (fact, words) in NOTHING.items():
        at_stake = F.col(fact) * F.size("groups") if promise == tickets.COVERAGE else F.col(fact)
        sentence = F.when(_is(promise) & (at_stake == 0), words).otherwise(sentence)
    return sentence


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
        F.format_number(F.col("agreement_expected") - F.col("agreement_made"), 0),
        F.format_number(F.col("liveness_expected") - F.col("liveness_made") - F.col("liveness_untimed"), 0),
    )
    return (
        F.when(
            _is(arrival.AGREEMENT),
            text(missing, " of ", F.format_number("agreement_expected", 0), " expected deliveries were never made, ",
                 "and at least ", promised),
        )
        .when(
            _is(arrival.LIVENESS),
            text(late, " of ", F.format_number("liveness_expected", 0), " expected deliveries did not come within ",
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
        counted(F.col("agreement_expected"), "expected delivery", "expected deliveries"),
        " were made",
    )
    part = text(", at least ", F.format_number(F.col("reach_min") * 100, 2), "% as promised")
    said: dict[str, Column] = {
        integrity.PROMISE: text(
            counted(F.col("deliveries"), "delivery", "deliveries"), " of events as they were published",
            F.when(F.col("summed") == 0, UNCOMPARED).otherwise(F.lit("")),
        ),
        duplicates.PROMISE: F.lit("no process delivered an event twice"),
        fifo.PROMISE: F.lit("every process delivered every publisher's events in order and reported what it skipped"),
        causal.CAUSAL: F.lit("every event was delivered after everything it follows"),
        causal.OPTIMISTIC: F.lit("no event was delivered after one that follows it"),
        total.PROMISE: F.lit("all processes delivered in one order"),
        arrival.AGREEMENT: F.concat(made, F.when(F.col("reach_min") < 1, part).otherwise(F.lit(""))),
        arrival.LIVENESS: text(
            F.format_number("liveness_made", 0), " of ", F.format_number("liveness_expected", 0),
            " expected deliveries came within ", _deadline(),
        ),
        tickets.PROMISE: F.lit("every ticket had at most one owner at a time, and only its owner used it"),
        tickets.COVERAGE: text("all ", F.col("tickets"), " tickets were acted for after healing"),
        bounds.PROMISE: text(counted(F.col("bounded"), "measurement", "measurements"), " kept their bounds"),
        views.PROMISE: F.lit("at the end every member is in another's view, and views name only the living"),
        keys.PROMISE: text(
            counted(F.col("keyed"), "key", "keys"), " are one per event and grow along every delivery and cause"
        ),
    }  # fmt: skip
    sentence = F.lit("holds")
    for promise, words in said.items():
        sentence = F.when(_is(promise), words).otherwise(sentence)
    return sentence


def witness_table(violations: DataFrame, most: int = VIOLATIONS_MAX) -> DataFrame:
    """Return a bounded number of witnesses for every run and promise, in a fixed order."""
    order = Window.partitionBy(RUN_ID, PROMISE).orderBy(NODE, INC, EVS, SENTENCE)
    certain = violations.filter(~F.col(DOUBTFUL))
    return certain.withColumn("number", F.row_number().over(order)).filter(F.col("number") <= most)
