"""Violations of the promises of some runs: a table per promise, and the tables that several promises share."""

from collections.abc import Callable
from functools import cached_property
from typing import Final

from whence.pipeline.columns import ABSENCE, PROMISE, RUN_ID, renewed, union
from whence.pipeline.deliveries import RunTables
from whence.pipeline.frames import DataFrame, F
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
"""Every promise of runs whose members do not change by views, by the name it has in JSON."""


class PromiseTables(RunTables):
    """The tables of some runs with those that several promises share."""

    @cached_property
    def wanted(self) -> set[str]:
        """The promises that any run is judged by."""
        return {row[0] for row in self.runs.select(F.explode("promises")).distinct().collect()}

    @cached_property
    def holds(self) -> DataFrame:
        """Every interval of ownership of a ticket."""
        return self.keep(tickets.ticket_holds(self))

    @cached_property
    def owed_after_healing(self) -> DataFrame:
        """Whom the events of the liveness phase are owed to."""
        return self.keep(arrival.owed_after_healing(self))

    @cached_property
    def owed(self) -> DataFrame:
        """Whom agreement is about: everybody who ever is a member where all is promised, else in the last phase."""
        everything = F.broadcast(self.runs.filter("expects_all").select(RUN_ID))
        return self.keep(
            self.owed_after_healing.join(everything, RUN_ID, "left_anti").unionByName(arrival.owed_in_whole_run(self))
        )

    @cached_property
    def agreement_counts(self) -> DataFrame:
        """Per run, how many deliveries were expected and how many were made."""
        return self.keep(arrival.arrival_counts(self, self.owed, "came", "agreement"))

    @cached_property
    def liveness_counts(self) -> DataFrame:
        """Per run, how many deliveries were expected in the liveness phase and how many came in time."""
        return self.keep(arrival.arrival_counts(self, self.owed_after_healing, "in_time", "liveness"))


def all_violations(tables: PromiseTables) -> DataFrame:
    """Return all violations of the promises of the runs; those that rest on absence only in complete runs."""
    found = [renewed(tables.keep(make(tables))) for make in violation_tables(tables.wanted).values()]
    return counted_violations(tables, union(found))


def violation_tables(wanted: set[str]) -> dict[str, Callable[[PromiseTables], DataFrame]]:
    """Return the functions that make the tables of violations for some promises, by table name."""
    return {name: make for name, promises, make in _VIOLATION_TABLES if wanted & set(promises)}


def counted_violations(tables: RunTables, found: DataFrame) -> DataFrame:
    """Return the violations of what each run is judged by; those that rest on absence only in complete runs."""
    promised = F.broadcast(tables.runs.select(RUN_ID, F.explode("promises").alias(PROMISE)))
    missing = F.broadcast(tables.incomplete.select(RUN_ID, F.lit(True).alias("is_incomplete")))
    known = found.join(promised, [RUN_ID, PROMISE]).join(missing, RUN_ID, "left")
    return known.filter(~F.col(ABSENCE) | F.col("is_incomplete").isNull())


def _runs_that_promise(tables: PromiseTables, *promises: str) -> DataFrame:
    wanted = F.array(*(F.lit(promise) for promise in promises))
    return tables.runs.filter(F.arrays_overlap("promises", wanted)).select(RUN_ID, "promises")


def _causal(tables: PromiseTables) -> DataFrame:
    """Strict and optimistic causal order; and integrity where only happened-before can tell what came too early."""
    asked_for = _runs_that_promise(tables, causal.CAUSAL, causal.OPTIMISTIC)
    if causal.INTEGRITY in tables.wanted:
        untimed = _untimed(tables)
        asked_for = asked_for.unionByName(
            tables.runs.join(untimed, RUN_ID).select(RUN_ID, "promises").join(asked_for, RUN_ID, "left_anti")
        )
    return causal.causal_violations(tables, asked_for)


def _untimed(tables: PromiseTables) -> DataFrame:
    return tables.published.filter(F.col(T_TRUE).isNull()).select(RUN_ID).distinct()


def _total(tables: PromiseTables) -> DataFrame:
    return total.total_order_violations(tables, _runs_that_promise(tables, total.PROMISE).select(RUN_ID))


def _agreement(tables: PromiseTables) -> DataFrame:
    return arrival.agreement_violations(tables, tables.owed, tables.agreement_counts)


def _liveness(tables: PromiseTables) -> DataFrame:
    return arrival.liveness_violations(tables, tables.owed_after_healing, tables.liveness_counts)


def _tickets(tables: PromiseTables) -> DataFrame:
    return tickets.ticket_violations(tables, tables.holds)


def _coverage(tables: PromiseTables) -> DataFrame:
    return tickets.coverage_violations(tables, tables.holds)


def _optimistic_gaps(tables: PromiseTables) -> DataFrame:
    return gaps.gap_violations(tables, causal.OPTIMISTIC)


_VIOLATION_TABLES: Final[tuple[tuple[str, tuple[str, ...], Callable[[PromiseTables], DataFrame]], ...]] = (
    ("integrity", (integrity.PROMISE,), integrity.integrity_violations),
    ("duplicates", (duplicates.PROMISE,), duplicates.duplicate_violations),
    ("fifo", (fifo.PROMISE,), fifo.fifo_violations),
    ("causal", (causal.CAUSAL, causal.OPTIMISTIC, causal.INTEGRITY), _causal),
    ("gaps", (causal.OPTIMISTIC,), _optimistic_gaps),
    ("total", (total.PROMISE,), _total),
    ("keys", (keys.PROMISE,), keys.key_violations),
    ("agreement", (arrival.AGREEMENT,), _agreement),
    ("liveness", (arrival.LIVENESS,), _liveness),
    ("tickets", (tickets.PROMISE,), _tickets),
    ("coverage", (tickets.COVERAGE,), _coverage),
    ("bounds", (bounds.PROMISE,), bounds.bound_violations),
    ("views", (views.PROMISE,), views.view_violations),
)  # fmt: skip
