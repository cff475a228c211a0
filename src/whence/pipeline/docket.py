"""What speaks against the promises of some runs: every promise's table, and those that several of them share."""

from collections.abc import Callable
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.pipeline.columns import ABSENCE, PROMISE, RUN_ID, union
from whence.pipeline.deliveries import Tables
from whence.pipeline.promises import (
    arrival,
    bounds,
    causal,
    duplicates,
    fifo,
    gaps,
    integrity,
    keys,
    tickets,
    total,
    views,
)
from whence.trace.schema import T_TRUE

PROMISES: Final = (
    integrity.PROMISE, duplicates.PROMISE, fifo.PROMISE, causal.CAUSAL, causal.OPTIMISTIC, total.PROMISE, keys.PROMISE,
    arrival.AGREEMENT, arrival.LIVENESS, tickets.PROMISE, tickets.COVERAGE,
    bounds.PROMISE, views.PROMISE,
)  # fmt: skip
"""Every promise that can be judged here, by the name it has in JSON."""


class Docket(Tables):
    """The tables of some runs with those that several promises share."""

    @cached_property
    def wanted(self) -> set[str]:
        """The promises that any run is judged by."""
        return {row[0] for row in self.runs.select(F.explode("promises")).distinct().collect()}

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
    return that_count(tables, union([make(tables) for make in families(tables.wanted).values()]))


def families(wanted: set[str]) -> dict[str, Callable[[Docket], DataFrame]]:
    """Return what makes the tables of violations that are needed for some promises, by name."""
    return {name: make for name, promises, make in _FAMILIES if wanted & set(promises)}


def that_count(tables: Docket, found: DataFrame) -> DataFrame:
    """Return the violations of what each run is judged by; those that rest on absence only in complete runs."""
    promised = F.broadcast(tables.runs.select(RUN_ID, F.explode("promises").alias(PROMISE)))
    missing = F.broadcast(tables.incomplete.select(RUN_ID, F.lit(True).alias("is_incomplete")))
    known = found.join(promised, [RUN_ID, PROMISE]).join(missing, RUN_ID, "left")
    return known.filter(~F.col(ABSENCE) | F.col("is_incomplete").isNull())


def _runs_that_promise(tables: Docket, *promises: str) -> DataFrame:
    wanted = F.array(*(F.lit(promise) for promise in promises))
    return tables.runs.filter(F.arrays_overlap("promises", wanted)).select(RUN_ID, "promises")


def _causal(tables: Docket) -> DataFrame:
    """Strict and optimistic causal order; and integrity where only happened-before can tell what came too early."""
    asked_for = _runs_that_promise(tables, causal.CAUSAL, causal.OPTIMISTIC)
    if causal.INTEGRITY in tables.wanted:
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


_FAMILIES: Final[tuple[tuple[str, tuple[str, ...], Callable[[Docket], DataFrame]], ...]] = (
    ("integrity", (integrity.PROMISE,), integrity.against_integrity),
    ("duplicates", (duplicates.PROMISE,), duplicates.against_no_duplicates),
    ("fifo", (fifo.PROMISE,), fifo.against_fifo),
    ("causal", (causal.CAUSAL, causal.OPTIMISTIC, causal.INTEGRITY), _causal),
    ("gaps", (causal.OPTIMISTIC,), _optimistic_gaps),
    ("total", (total.PROMISE,), _total),
    ("keys", (keys.PROMISE,), keys.against_keys),
    ("agreement", (arrival.AGREEMENT,), _agreement),
    ("liveness", (arrival.LIVENESS,), _liveness),
    ("tickets", (tickets.PROMISE,), _tickets),
    ("coverage", (tickets.COVERAGE,), _coverage),
    ("bounds", (bounds.PROMISE,), bounds.against_bounds),
    ("views", (views.PROMISE,), views.against_views),
)  # fmt: skip
