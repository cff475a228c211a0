"""Manifests are files that outlive a version: what an earlier one wrote is read, and written under the same names."""

from pathlib import Path

import msgspec

from whence.pipeline.manifest import MANIFESTS, Manifest, committed_steps, read_manifest, write_manifest

EARLIER = b"""{"step":"00000003","w":41,"max_r":60,"reached":{"7":[50,60]},"left_out":[9],"released":{"all":12},
"held":{"00000003-0.parquet":[42,55]},"events":{"00000003-0.parquet":3},"numbers":{"all\\t7\\t1":14},
"rows":{"in":3,"pending":3},"version":2}"""


def test_a_manifest_of_an_earlier_version_is_read_and_keeps_its_names(tmp_path: Path) -> None:
    (tmp_path / MANIFESTS).mkdir()
    (tmp_path / MANIFESTS / "00000003.json").write_bytes(EARLIER)
    assert committed_steps(tmp_path) == ["00000003"]
    read = read_manifest(tmp_path, "00000003")
    assert read.pending == {"00000003-0.parquet": (42, 55)}
    assert read.highest_seq == {"all\t7\t1": 14}
    assert read.silent == [9]
    assert msgspec.json.decode(msgspec.json.encode(read)) == msgspec.json.decode(EARLIER)


def test_a_written_manifest_commits_its_step(tmp_path: Path) -> None:
    write_manifest(tmp_path, Manifest(step="00000001", w=5))
    assert committed_steps(tmp_path) == ["00000001"]
    assert read_manifest(tmp_path, "00000001").w == 5
