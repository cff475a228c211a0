"""Commands whose JSON is written down: what scripts read of them stays as it is, to the value or at least to the shape.

`python -m tests.recorded.commands` writes the table anew.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from whence.cli.app import run

TABLE = Path(__file__).with_name("commands.json")

WHENCE = [sys.executable, "-c", "from whence.cli import main; main()"]
DEADLINE_S = 300

VARIES = ("wall_seconds", "seconds", "started", "spread_over_s")
"""Values that differ from run to run: only their type is written down."""

SIMULATED = (
    "simulate --level fifo --nodes 5 --events 10 --seed 9 --out fifo.d --json",
    "simulate --level optimistic --nodes 6 --events 10 --seed 10 --faults swarm --out optimistic.d --json",
    "simulate --level causal --nodes 5 --events 10 --seed 11 --set spread=tree --out causal.d --json",
    "simulate --level total --nodes 5 --events 10 --seed 12 --out total.d --json",
    "simulate --level neighbourhood --nodes 5 --events 10 --seed 13 --out rival.d --json",
    "check fifo.d --json",
    "check rival.d --promise causal --json",
    "explore --level fifo --schedules 3 --seed 5 --json",
    "explore --level fifo --replay 6 --json",
    "explore --level fifo --mutant skips_silently --schedules 40 --seed 5 --json",
    "explore --level fifo --mutant nonsense --json",
    "tune total.d --json",
    "size --members 30 --json",
    "simulate --level nonsense --json",
    "check nowhere.d --json",
)
"""The same seed gives the same values."""

ON_SPARK = (
    "verify fifo.d rival.d --json",
    "merge total.d --out merged.d --json",
    "stream total.d --out streamed.d --work work.d --once --flush --json",
    "metrics fifo.d total.d --out tables.d --json",
    "report fifo.d --out page.html --json",
    "sweep plan.toml --out swept.d --json",
)

BY_SHAPE = ("certs ca --dir certs.d --json", "certs member 4 5 --dir certs.d --json", "doctor --json")
"""What they say depends on the machine, or is drawn."""

PLAN = 'repeat = 2\nfaults = "none"\n[grid]\nlevel = ["fifo"]\nnodes = [4]\nevents = [6]\n'


def documents(commands: tuple[str, ...], at: Path) -> Iterator[tuple[str, Any]]:
    """Run commands in a directory, one after the other; yield each with the object that it prints."""
    (at / "plan.toml").write_text(PLAN, encoding="utf-8")
    for command in commands:
        words = [str(at / word) if Path(word).suffix in (".d", ".toml", ".html") else word for word in command.split()]
        with redirect_stdout(StringIO()) as out:
            code = run(words)
        printed = out.getvalue().replace(f"{at}/", "")
        assert printed.count("\n") == 1, f"{command}: {printed}"
        yield command, {"exit": code, "json": json.loads(printed)}


def live_documents(at: Path) -> Iterator[tuple[str, Any]]:
    """Run a node and the commands that meet it; yield each with the shape of the object that it prints."""
    common = ["--set", "round_ns=20000000", "--json"]
    socket = str(at / "status.sock")
    words = ["node", "--pid", "41", "--group", "alps=fifo", "--status", socket, "--trace", str(at / "spool"), *common]
    node = subprocess.Popen([*WHENCE, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        told = json.loads(node.stdout.readline())
        yield "node", shape(told)
        contact = ["--contact", told["address"], *common]
        done = subprocess.run(
            [*WHENCE, "pub", "alps", "--members", "2", *contact],
            input="one\ntwo\n", capture_output=True, text=True, timeout=DEADLINE_S, check=True,
        )  # fmt: skip
        yield "pub", shape(json.loads(done.stdout))
        for name, words in {"top": ["top", "--socket", socket, "--json"]}.items():
            done = subprocess.run([*WHENCE, *words], capture_output=True, text=True, timeout=DEADLINE_S, check=True)
            yield name, shape(json.loads(done.stdout))
    finally:
        node.send_signal(signal.SIGTERM)
        node.communicate(timeout=DEADLINE_S)
    words = ["gather", str(at / "spool"), "--group", "alps", "--out", str(at / "gathered"), "--json"]
    done = subprocess.run([*WHENCE, *words], capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    yield "gather", shape(json.loads(done.stdout))


def settled(value: Any, name: str = "") -> Any:
    """Return a document without what differs from run to run."""
    if name in VARIES:
        return type(value).__name__
    if isinstance(value, dict):
        return {each: settled(inner, each) for each, inner in value.items()}
    return [settled(inner) for inner in value] if isinstance(value, list) else value


def shape(value: Any) -> Any:
    """Return the names and types of a document; of a list, those of its first element."""
    if isinstance(value, dict):
        return {each: shape(inner) for each, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def made(at: Path, *, on_spark: bool) -> dict[str, Any]:
    """Run everything; return what is written down of it."""
    simulated = {command: settled(document) for command, document in documents(SIMULATED, at)}
    if on_spark:
        return {command: settled(document) for command, document in documents(ON_SPARK, at)}
    return (
        simulated
        | {command: shape(document) for command, document in documents(BY_SHAPE, at)}
        | dict(live_documents(at))
    )


def recorded() -> dict[str, Any]:
    """Return the table."""
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def changed(at: Path, *, on_spark: bool) -> dict[str, Any]:
    """Return what commands print now, where that is not what was written down."""
    table = recorded()["on Spark" if on_spark else "without"]
    now = json.loads(json.dumps(made(at, on_spark=on_spark)))
    assert sorted(now) == sorted(table)
    return {command: document for command, document in now.items() if table[command] != document}


if __name__ == "__main__":
    tables = {}
    for on_spark in (False, True):
        with TemporaryDirectory() as place:
            tables["on Spark" if on_spark else "without"] = made(Path(place), on_spark=on_spark)
    TABLE.write_text(json.dumps(tables, indent=1, sort_keys=True) + "\n", encoding="utf-8")
