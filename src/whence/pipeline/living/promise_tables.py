"""Violations of the promises of living runs and what was at stake: two tables per promise, and those they share."""

from collections.abc import Callable
from functools import cached_property
from typing import Final, NamedTuple

from whence.pipeline.columns import PROMISE, RUN_ID, renewed, union
from whence.pipeline.frames import DataFrame, F
from whence.pipeline.living import arrival, bounds, fifo, integrity, one_chain, order, receipts, sequences, verdict
from whence.pipeline.living.tables import LivingTables
from whence.pipeline.promises import duplicates


class LivingPromiseTables(LivingTables):
    """The tables of some living runs with those that several promises share."""

    @cached_property
    def closed(self) -> order.Closed:
        """What happened-before tells of each run."""
        return order.closed_runs(self)

    @cached_property
    def opened(self) -> DataFrame:
        """Events that took effect, and what they are to each joiner."""
        return self.keep(order.opened(self, self.closed))

    @cached_property
    def acknowledged(self) -> DataFrame:
        """Events that were acknowledged, each with every member that it is owed to."""
        return self.keep(receipts.acknowledged(self, self.owed))

    @cached_property
    def leaves(self) -> DataFrame:
        """What members learnt when they were out."""
        return self.keep(verdict.leaves(self))

    @cached_property
    def pairs(self) -> DataFrame:
        """Every two members that stay, and where the sequence of one begins in that of the other."""
        return self.keep(sequences.staying_pairs(self))

    @cached_property
    def compared(self) -> DataFrame:
        """Every member that did not stay, and where its sequence begins in that of one that does."""
        return self.keep(sequences.comparable(self))


Make = Callable[[LivingPromiseTables], DataFrame]


class Judgement(NamedTuple):
    """How a promise is judged: its violations, what could have broken it, and the words where there was nothing."""

    violations: Make
    at_stake: Make
    nothing: str


def _deliveries(tables: LivingPromiseTables) -> DataFrame:
    said = F.lit("no process delivered an event twice")
    return tables.delivered.groupBy(RUN_ID).agg(F.count("*").alias("at_stake"), said.alias("holds"))


def _integrity(tables: LivingPromiseTables) -> DataFrame:
    """With happened-before, which tells of deliveries that were too early where rows have no time."""
    from_order = order.causal_violations(tables.closed).filter(F.col(PROMISE) == integrity.PROMISE)
    return integrity.integrity_violations(tables).unionByName(from_order)


def _causal(tables: LivingPromiseTables) -> DataFrame:
    return order.causal_violations(tables.closed).filter(F.col(PROMISE) == order.CAUSAL)


JUDGEMENTS: Final[dict[str, Judgement]] = {
    integrity.PROMISE: Judgement(_integrity, integrity.deliveries_at_stake, integrity.NOTHING),
    duplicates.PROMISE: Judgement(duplicates.duplicate_violations, _deliveries, integrity.NOTHING),
    fifo.PROMISE: Judgement(fifo.fifo_violations, fifo.successors_at_stake, fifo.NOTHING),
    one_chain.PROMISE: Judgement(one_chain.chain_violations, one_chain.views_at_stake, one_chain.NOTHING),
    order.CAUSAL: Judgement(_causal, order.followers_at_stake, order.NOTHING[order.CAUSAL]),
    arrival.AGREEMENT: Judgement(
        arrival.agreement_violations, arrival.agreement_at_stake, arrival.NOTHING[arrival.AGREEMENT]
    ),
    order.OPEN: Judgement(
        lambda tables: order.open_violations(tables, tables.opened),
        lambda tables: order.open_at_stake(tables.opened), order.NOTHING[order.OPEN],
    ),
    receipts.PROMISE: Judgement(
        lambda tables: receipts.receipt_violations(tables, tables.acknowledged),
        lambda tables: receipts.receipts_at_stake(tables, tables.acknowledged), receipts.NOTHING,
    ),
    verdict.PROMISE: Judgement(
        lambda tables: verdict.verdict_violations(tables, tables.leaves),
        lambda tables: verdict.leaves_at_stake(tables.leaves), verdict.NOTHING,
    ),
    arrival.LIVENESS: Judgement(
        arrival.liveness_violations, arrival.liveness_at_stake, arrival.NOTHING[arrival.LIVENESS]
    ),
    sequences.STRICT: Judgement(
        lambda tables: sequences.strict_violations(tables, tables.pairs),
        lambda tables: sequences.strict_at_stake(tables.pairs), sequences.NOTHING[sequences.STRICT],
    ),
    sequences.UNIFORM: Judgement(
        lambda tables: sequences.uniform_violations(tables, tables.compared),
        lambda tables: sequences.uniform_at_stake(tables.compared), sequences.NOTHING[sequences.UNIFORM],
    ),
    bounds.PROMISE: Judgement(bounds.bound_violations, bounds.measured_at_stake, bounds.NOTHING),
}  # fmt: skip
"""Every promise of living runs, by the name it has in JSON."""


def living_violations(tables: LivingPromiseTables) -> DataFrame:
    """Return all violations and doubts of the promises that the runs are judged by."""
    return union([renewed(tables.keep(each.violations(tables))) for each in _asked(tables).values()])


def stakes(tables: LivingPromiseTables) -> dict[tuple[str, str], tuple[int, str]]:
    """Return, by run and promise, how many things could have broken it, and the words for that it holds."""
    return {
        (row[RUN_ID], name): (row["at_stake"], row["holds"])
        for name, each in _asked(tables).items()
        for row in each.at_stake(tables).collect()
    }


def _asked(tables: LivingPromiseTables) -> dict[str, Judgement]:
    return {name: each for name, each in JUDGEMENTS.items() if name in tables.wanted}
