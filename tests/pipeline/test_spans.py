"""Numbers are looked up in spans part by part, and the same are found as by comparing each with each."""

from random import Random

from pyspark.sql import SparkSession

from whence.pipeline.columns import in_spans, merged_spans
from whence.pipeline.frames import F
from whence.pipeline.local.session import local_session


def test_the_rows_in_spans_are_those_that_a_look_at_every_span_finds() -> None:
    rng = Random(1)
    limits = {"few": 50, "many": 10**6, "wide": 2**63 - 1, "point": 1}
    spans = [
        (run, low, min(most, low + rng.randrange(1 + most // 40)))
        for run, most in limits.items() for low in (rng.randrange(most) for _ in range(30))
    ]  # fmt: skip
    numbers = [(run, rng.randrange(most)) for run, most in limits.items() for _ in range(500)]
    numbers += [(run, edge) for run, low, high in spans for edge in (low, high)] + [("other", 1)]
    with local_session() as local:
        merged = merged_spans(local.createDataFrame(spans, "run_id string, low bigint, high bigint"), ("run_id",))
        rows = local.createDataFrame(numbers, "run_id string, n bigint")
        found = in_spans(rows, F.col("n"), merged.localCheckpoint(), ("run_id",)).collect()
    expected = [each for each in numbers if any(run == each[0] and low <= each[1] <= high for run, low, high in spans)]
    assert sorted((row["run_id"], row["n"]) for row in found) == sorted(expected)


def test_spans_without_rows_hold_nothing(spark: SparkSession) -> None:
    spans = spark.createDataFrame([], "run_id string, low bigint, high bigint")
    rows = spark.createDataFrame([("a", 1)], "run_id string, n bigint")
    assert not in_spans(rows, F.col("n"), spans, ("run_id",)).collect()
