"""What the causal merge costs over a plain sort: the same rows, the same session, best of three, one JSON line.

rows: events, of 64 publishers in 16 groups, some 110 bytes each. sort: a plain global sort of them by one long. one:
the batch merge of everything into one order. groups: the batch merge by group, with positions. All go to a sink that
throws rows away. The ratios are throughputs as a part of the sort's; at least 0.85 is asked for at 10 million rows.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from whence.pipeline.logs import read_logs
from whence.pipeline.merge import merged_by_group, merged_in_ranges, subscribed
from whence.pipeline.session import session, suit

PARTITIONS = 16


def main(rows: int) -> None:
    """Make the rows, time both merges and the sort in turn, and print the line."""
    spark = session("local[2]")
    suit(spark, 1 << 30)
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    with TemporaryDirectory() as directory:
        made = spark.range(rows).selectExpr(
            "concat('g', id % 16) as grp", "cast(pmod(hash(id), 64) as int) as pid", "1 as inc", "id + 1 as seq",
            "id div 100 as l", "cast(id % 7 as int) as k", "cast(repeat(uuid(), 2) as binary) as payload",
        )  # fmt: skip
        made.repartition(8).write.parquet(f"{directory}/logs")
        log = subscribed(read_logs(spark, Path(directory) / "logs"), None)
        ways = {
            "sort": log.orderBy("k_hi"),
            "one": merged_in_ranges(log, PARTITIONS),
            "groups": merged_by_group(log, PARTITIONS),
        }
        took = dict.fromkeys(ways, float("inf"))
        for name, table in [*ways.items()] * 3:
            began = perf_counter()
            table.write.format("noop").mode("overwrite").save()
            took[name] = min(took[name], perf_counter() - began)
    seconds = {f"{name}_s": round(each, 2) for name, each in took.items()}
    ratios = {f"{name}_ratio": round(took["sort"] / took[name], 3) for name in ("one", "groups")}
    print(json.dumps({"bench": "pipeline", "rows": rows} | seconds | ratios))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
