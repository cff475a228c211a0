"""Two numbers that survive the death of their process."""

import subprocess
import sys
from pathlib import Path

import pytest

from whence.errors import StorageError
from whence.store.steps import Steps


def test_steps_are_counted_across_lives(tmp_path: Path) -> None:
    for life in range(3):
        steps = Steps(tmp_path / "deep" / "steps")
        assert (steps.taken, steps.told) == (5 * life, life)
        steps.take(2)
        steps.take(3)
        steps.tell()
        steps.close()


def test_what_was_counted_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from whence.store.steps import Steps\n"
        "steps = Steps(Path(sys.argv[1])); steps.take(7); steps.tell(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "steps")], check=False)
    steps = Steps(tmp_path / "steps")
    assert (steps.taken, steps.told) == (7, 1)


def test_a_counter_that_cannot_be_kept_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be kept"):
        Steps(tmp_path)
