"""Commands that are killed with SIGKILL while they work, as a machine that is lost kills them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from random import Random

from tests.pipeline.conftest import BRIEF


def command_of(*words: str, settings: Mapping[str, str] | None = None) -> list[str]:
    """Return a command of ours on a Spark of its own, with settings of Spark."""
    given = BRIEF | dict(settings or {})
    options = [f"--conf={name}={value}" for name, value in given.items()]
    return [
        sys.executable, "-c", "from whence.cli import main; main()", *words, "--master", "local[1]", "--json", *options,
    ]  # fmt: skip


def killed(
    command: list[str], has_begun: Callable[[], bool], rng: Random, seconds_max: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> bool:  # fmt: skip
    """Start a command, wait until it has begun its work, and kill it at a random moment within some seconds; return
    whether that was before it ended by itself. `meanwhile` is done about every 50 ms until then."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    left = None
    while process.poll() is None and (left is None or left > 0):
        meanwhile()
        if left is None and has_begun():
            left = rng.random() * seconds_max
        pause = 0.05 if left is None else min(0.05, left)
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            left = None if left is None else left - pause
    is_killed = process.poll() is None
    if is_killed:
        os.killpg(process.pid, signal.SIGKILL)
    _, said = process.communicate()
    assert is_killed or process.returncode == 0, said.decode()
    return is_killed


def finished(command: list[str]) -> str:
    """Run a command to its end; return what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
