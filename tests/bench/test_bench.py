"""Every benchmark of the simulator runs, prints one JSON line and names its numbers. Nothing here is timed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"

FIELDS = {
    "loop": {"hops", "us_per_hop", "ratio_idiomatic", "ratio_callbacks"},
    "gossip_hop": {"us_per_hop", "bare_hops_partial", "bare_hops_full", "bundles_per_hop"},
    "causal_hop": {"us_per_hop", "bare_hops", "flat"},
    "causal_headers": {"publishers", "sizes"},
    "causal_scale": {"measured"},
    "million": {"measured", "peak_mib", "slowest_s"},
    "promises": {"measured"},
    "scale": {"measured", "raw_ratio", "ratio_at_equal_memory", "peak_mib"},
}
ALWAYS = {"bench", "quick", "goals", "ok", "machine"}


@pytest.mark.parametrize("name", FIELDS)
def test_a_benchmark_prints_one_json_line_with_its_numbers(name: str) -> None:
    """Law: a quick run leaves with status 0 and exactly one line, which has every named field."""
    script = BENCH / f"{name}.py"
    done = subprocess.run([sys.executable, str(script), "--quick"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 1
    numbers = json.loads(lines[0])
    assert numbers["bench"] == name
    assert numbers["quick"] is True
    assert numbers["ok"] is all(numbers["goals"].values())
    assert numbers.keys() >= FIELDS[name] | ALWAYS
    assert numbers["machine"].keys() == {"cpu", "cores", "python", "system", "commit"}


def test_every_engine_simulates_the_same_tree_broadcast() -> None:
    """Law: what the bare loop is compared with has the same hops and the same sum of arrival times."""
    words = "from _tree import *; print(len({on_whence(3), on_simpy(3), on_simpy_callbacks(3)}), on_whence(3).hops)"
    done = subprocess.run([sys.executable, "-c", words], cwd=BENCH, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", str(3 * 999)]
