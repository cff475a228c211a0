"""Every command and program that the documents show runs as it is printed, from the wheel, in a fresh environment.

A block without a language is commands for a shell, one a line; `python` is a program, `text` a picture. A comment
before a block says what the words around it say: `<!-- file: NAME -->` the block is that file, `<!-- terminals -->`
each line in a terminal of its own, of which the last ends by itself, `<!-- not run: WHY -->`.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest

from tests.system.wheel import LAB, ROOT, build_wheel, environment

BLOCK = re.compile(
    r"(?:<!-- (?P<word>[^\n]*?) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")]
    if "```" in path.read_text(encoding="utf-8")
)
SECONDS = 600
"""How long a command may take on a busy machine."""

MISSING_EXTRA = re.compile(r"pip install 'whence\[(trace|spark)\]'")


class Block(NamedTuple):
    """Something that a document shows."""

    word: str
    language: str
    text: str


def blocks_of(document: Path) -> list[Block]:
    """Return what a document shows, in its order."""
    found = BLOCK.finditer((ROOT / document).read_text(encoding="utf-8"))
    return [Block(match["word"] or "", match["language"], match["text"]) for match in found]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("lab"), LAB)


@pytest.fixture(scope="module")
def full(wheel: Path, lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("full") / "env", wheel, ["trace", "spark"], lab)


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("bare") / "env", wheel, [])


class Reader:
    """Someone who types what a document says, in a directory of their own."""

    def __init__(self, programs: Path, home: Path) -> None:
        self._home = home
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        """In place of the one that is printed, which may be taken on this machine."""
        home.mkdir()
        shutil.copytree(ROOT / "examples", home / "examples")
        shutil.copy(ROOT / "README.md", home)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self._environment = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TMPDIR": str(home), "COLUMNS": "120"}
        self._environment |= {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}

    def follow(self, block: Block) -> Iterator[subprocess.CompletedProcess[str]]:
        """Do what a block says; yield what became of each command."""
        kind, _, rest = block.word.partition(": ")
        if kind == "file":
            (self._home / rest).parent.mkdir(parents=True, exist_ok=True)
            (self._home / rest).write_text(block.text, encoding="utf-8")
        elif kind == "terminals":
            yield from self._in_terminals(block.text.strip().splitlines())
        elif kind == "not run":
            assert rest, "say why it is not run"
        elif block.language == "text":
            return
        elif block.language == "python":
            yield self._run(["python", "-c", block.text])
        else:
            assert block.language == "", f"is this to be run? {block}"
            for line in block.text.strip().replace("\\\n", "").splitlines():
                yield self._run(["bash", "-c", self._typed(line)])

    def _typed(self, line: str) -> str:
        return line.replace(".venv/bin/", "").replace(":4000", f":{self._port}")

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self._home, env=self._environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def _in_terminals(self, lines: list[str]) -> Iterator[subprocess.CompletedProcess[str]]:
        """Start all but the last line, one after the other; then run the last, and interrupt the others."""
        *lasting, last = lines
        begun = [self._begin(number, line) for number, line in enumerate(lasting)]
        yield self._run(["bash", "-c", self._typed(last)])
        for process in begun:
            process.send_signal(signal.SIGINT)
        for number, (line, process) in enumerate(zip(lasting, begun, strict=True)):
            code = process.wait(timeout=SECONDS)
            out, err = (self._home / f"{number}.{name}" for name in ("out", "err"))
            yield subprocess.CompletedProcess(line, code, out.read_text(), err.read_text())

    def _begin(self, number: int, line: str) -> "subprocess.Popen[bytes]":
        """Start a command that lasts, and wait until it says that it is up, or has ended."""
        out, err = (self._home / f"{number}.{name}" for name in ("out", "err"))
        with out.open("wb") as to, err.open("wb") as complaints:
            command = ["bash", "-c", f"exec {self._typed(line)}"]
            process = subprocess.Popen(command, cwd=self._home, env=self._environment, stdout=to, stderr=complaints)
        deadline = time.monotonic() + SECONDS
        while not err.stat().st_size and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return process


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_what_a_document_shows_works_as_it_is_printed(full: Path, tmp_path: Path, document: Path) -> None:
    reader = Reader(full, tmp_path / "home")
    for block in blocks_of(document):
        for done in reader.follow(block):
            assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_without_the_extras_it_works_or_says_what_to_install(bare: Path, tmp_path: Path, document: Path) -> None:
    reader = Reader(bare, tmp_path / "home")
    for block in blocks_of(document):
        if block.language == "python" and "whence.pipeline" in block.text:
            continue  # a program's import fails as imports do
        for done in reader.follow(block):
            told = f"{done.args}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr, told
            assert done.returncode == 0 or (done.returncode == 2 and MISSING_EXTRA.search(done.stderr)), told


def test_messaging_alone_brings_neither_arrow_nor_spark(bare: Path) -> None:
    for name in ("pyarrow", "pyspark", "pandas", "numpy"):
        done = subprocess.run([bare / "python", "-c", f"import {name}"], capture_output=True, text=True, check=False)
        assert "ModuleNotFoundError" in done.stderr, f"{name} is there: what is tested here could not fail"


def test_what_is_studied_is_in_a_wheel_of_its_own(wheel: Path, lab: Path) -> None:
    rooms = [
        {name.partition("/")[0] for name in ZipFile(each).namelist() if ".dist-info/" not in name}
        for each in (wheel, lab)
    ]
    assert rooms == [{"whence"}, {"whence_lab"}]


LAB_COMMANDS = [
    "simulate --level cbcast --nodes 3 --events 3",
    "simulate --level causal --nodes 3 --events 3 --set coding=thesis",
    "explore --level barriers --schedules 1",
    "explore --level fifo --mutant skips_silently",
    "explore --level fifo --schedules 3 --mutant all",
]


@pytest.mark.parametrize("command", LAB_COMMANDS)
def test_a_command_that_needs_the_lab_says_so_and_works_where_it_is(
    bare: Path, full: Path, tmp_path: Path, command: str
) -> None:
    told = [
        subprocess.run(
            [programs / "whence", *command.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        for programs in (bare, full)
    ]
    assert told[0].returncode == 2, told[0].stderr
    assert "pip install whence-lab" in told[0].stderr
    assert told[0].stderr.count("\n") == 1, told[0].stderr
    assert "pip install" not in told[1].stderr, told[1].stderr
    assert told[1].returncode in (0, 1), told[1].stderr


def test_every_command_that_needs_an_extra_says_so_in_one_sentence(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('[grid]\nlevel = ["fifo"]\nnodes = [5]\nevents = [5]\n', encoding="utf-8")
    for command in ("verify .", "report . --out r.html", "metrics . --out m", "merge . --out m", "check .",
                    "stream . --out m --work w", "sweep plan.toml --out s", "tune .",
                    "simulate --level fifo --nodes 3 --events 3 --out t"):  # fmt: skip
        done = subprocess.run([bare / "whence", *command.split()], cwd=tmp_path, capture_output=True, text=True,
                              check=False)  # fmt: skip
        assert done.returncode == 2, f"{command}: {done.stderr}"
        assert MISSING_EXTRA.search(done.stderr), f"{command}: {done.stderr}"
        assert done.stderr.count("\n") == 1, done.stderr
        if command.split()[0] in ("verify", "report", "metrics", "merge", "stream", "sweep"):
            assert "whence[spark]" in done.stderr, f"{command}: {done.stderr}"
