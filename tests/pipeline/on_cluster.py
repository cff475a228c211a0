"""A driver of its own for tests on a cluster: judges, merges and streams what lies behind a URI, and tells as JSON.

    python -m tests.pipeline.on_cluster MASTER URI KEY=VALUE...

Below the URI are traces/ and logs/; merged/, out/ and work/ are written. One session does it all, as starting is slow.
"""

import json
import sys

from whence.pipeline.batch import merge_logs
from whence.pipeline.manifest import committed_steps, read_manifest, read_released
from whence.pipeline.session import configure_for_size, session
from whence.pipeline.storage import UriPath
from whence.pipeline.stream import run_stream
from whence.pipeline.stream_step import Rules
from whence.pipeline.verify import verify


def main(master: str, uri: str, *settings: str) -> None:
    spark = session(master, dict(each.split("=", 1) for each in settings))
    configure_for_size(spark, 0)
    place = UriPath(spark, uri)
    judged = verify(spark, [place / "traces"], ["causal"])
    counts = merge_logs(spark, place / "logs", place / "merged", 2)
    run_stream(
        spark, place / "logs", place / "out", place / "work", Rules(epsilon=5, delta=20), {}, once=True, flush=True,
        files_per_batch=2,
    )  # fmt: skip
    steps = [read_manifest(place / "out", step) for step in committed_steps(place / "out")]
    order = [(row["grp"], row["pos"], row["payload"].decode()) for row in read_released(spark, place / "out").collect()]
    told = {
        "verdicts": {each.run.run_id: {v.promise: v.outcome.value for v in each.verdicts} for each in judged.runs},
        "merged": counts.rows,
        "steps": len(steps),
        "released": sum(step.rows["released"] for step in steps),
        "order": sorted(order),
    }
    sys.stdout.write(json.dumps(told) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
