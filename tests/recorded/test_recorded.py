"""What was recorded is what runs do now, to the byte: schedules of every level, spread and rival, gathered spools."""

from pathlib import Path

import pytest

from tests.recorded import commands
from tests.recorded.runs import digests, recorded


def test_every_recorded_run_leaves_the_digest_that_was_written_down() -> None:
    """A digest that must change is changed by a commit of its own: python -m tests.recorded.runs."""
    table = recorded()
    if not table:
        pytest.skip("recorded with another version of Python, whose dice may fall otherwise")
    now = dict(digests())
    assert sorted(now) == sorted(table)
    assert {name: digest for name, digest in now.items() if table[name] != digest} == {}


def test_what_commands_print_for_scripts_is_what_was_written_down(tmp_path: Path) -> None:
    """Names and values under --json; only the shape where the machine decides: python -m tests.recorded.commands."""
    assert commands.changed(tmp_path, on_spark=False) == {}
