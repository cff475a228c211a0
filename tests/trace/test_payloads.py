"""Payloads are in a trace only if that is asked for; then they are those that were published, simulated and live."""

from pathlib import Path
from zlib import crc32

import pytest

from whence.net.recorder import TraceRecorder
from whence.sim.run import run
from whence.sim.scenarios import simulation
from whence.trace.gathering import gather
from whence.trace.memory import Trace
from whence.trace.reader import read_trace
from whence.trace.schema import PAYLOAD, PAYLOAD_BYTES, PAYLOAD_CRC, Kind
from whence.trace.segments import TraceSegmentWriter
from whence.trace.writer import write_trace
from whence.types import Process, packed

WORDS = [b"one", b"", b"\x00two" * 100]


def payloads(trace: Trace, kind: Kind) -> list[bytes | None]:
    rows = list(trace.records(kind))
    for row in rows:
        payload = row[PAYLOAD]
        assert payload is None or (len(payload), crc32(payload)) == (row[PAYLOAD_BYTES], row[PAYLOAD_CRC])
    return [row[PAYLOAD] for row in rows]


@pytest.mark.parametrize("level", ["eventual", "causal", "total"])
def test_a_simulated_trace_has_payloads_only_if_asked(tmp_path: Path, level: str) -> None:
    scenario = simulation(level, 4, 6, 1, "none", {})
    plain, full = run(scenario).trace, run(scenario, payloads=True).trace
    for kind in (Kind.PUBLISH, Kind.DELIVER):
        assert set(payloads(plain, kind)) == {None}
        assert None not in payloads(full, kind)
        assert payloads(full, kind)
    assert payloads(read_trace(write_trace(tmp_path, full)), Kind.DELIVER) == payloads(full, Kind.DELIVER)


@pytest.mark.parametrize("asked", [False, True])
def test_a_live_trace_has_payloads_only_if_asked(tmp_path: Path, asked: bool) -> None:
    segments = TraceSegmentWriter(tmp_path, "alps", "fifo", 0, 1)
    recorder = TraceRecorder(segments, Process(0, 1), "alps", payloads=asked)
    bundle = packed(Process(0, 1), 1, WORDS)
    recorder.published(bundle, None)
    recorder.handed(bundle, 0, None, 1, WORDS[1:])
    segments.close()
    trace = gather([tmp_path], "alps", "live", "0")
    assert payloads(trace, Kind.PUBLISH) == (WORDS if asked else [None] * 3)
    assert payloads(trace, Kind.DELIVER) == (WORDS[1:] if asked else [None] * 2)
