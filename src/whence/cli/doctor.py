"""whence doctor: is this machine fit to run members?"""

import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from whence.cli.output import print_json, stdout
from whence.core.registry import LEVELS
from whence.errors import StorageError, WhenceError
from whence.net.tls import Safety
from whence.store.log import Log

FINE, WORSE, BROKEN = "fine", "worse", "broken"
UNFIT = 1
FILES_WANTED = 1024
JAVA_MIN = 17
"""The Java that Spark needs. Repeated in pipeline/session.py, which imports Spark."""


def doctor(
    data: Annotated[Path | None, typer.Option(help="The data directory to try. Default: a temporary one.")] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="The address to try.")] = "127.0.0.1:0",
    certs: Annotated[Path | None, typer.Option(help="The directory of certificates to try.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look for what would keep members from running well, and say what to do about it.

    Exit code 0: nothing is broken. 1: something is.
    """
    looks: list[tuple[str, Callable[[], tuple[str, str]]]] = [
        ("python", _python), ("event loop", _loop), ("steady clock", _clock), ("open files", _files),
        ("disk", lambda: _disk(data)), ("address", lambda: _address(listen)), ("levels", _levels),
        ("traces", _traces), ("java", _java),
    ]  # fmt: skip
    if certs is not None:
        looks.append(("certificates", lambda: _certs(certs)))
    found = [(name, *look()) for name, look in looks]
    if json:
        print_json(0, checks={name: {"state": state, "sentence": sentence} for name, state, sentence in found})
    else:
        table = Table("what", "state", "because")
        for name, state, sentence in found:
            colour = {FINE: "green", WORSE: "yellow", BROKEN: "bold red"}[state]
            table.add_row(name, f"[{colour}]{state}[/]", escape(sentence))
        stdout().print(table)
    if any(state == BROKEN for _, state, _ in found):
        raise typer.Exit(UNFIT)


def _python() -> tuple[str, str]:
    version = ".".join(map(str, sys.version_info[:3]))
    return (FINE, version) if sys.version_info >= (3, 11) else (BROKEN, f"{version}; 3.11 or newer is needed")


def _loop() -> tuple[str, str]:
    try:
        version = metadata.version("uvloop")
    except metadata.PackageNotFoundError:
        return WORSE, "uvloop is not installed; the standard loop works at half the speed"
    return FINE, f"uvloop {version}"


def _clock() -> tuple[str, str]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return FINE, "CLOCK_BOOTTIME counts suspended time"
    return WORSE, "no CLOCK_BOOTTIME: leases may outlive a suspended machine's sleep"


def _files() -> tuple[str, str]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= FILES_WANTED:
        return FINE, f"{soft} files may be open"
    return WORSE, f"only {soft} files may be open; raise it with ulimit -n {FILES_WANTED}"


def _disk(data: Path | None) -> tuple[str, str]:
    try:
        with tempfile.TemporaryDirectory(dir=data) as directory:
            log = Log(Path(directory) / "journal")
            taken = []
            for _ in range(10):
                begin = time.perf_counter()
                log.append([b"x" * 200])
                log.sync()
                taken.append(time.perf_counter() - begin)
            log.close()
    except (OSError, StorageError) as error:
        return BROKEN, f"{data} cannot be written durably: {error}"
    typical_ms = 1000 * statistics.median(taken)
    sentence = f"a durable write takes {typical_ms:.1f} ms"
    return (FINE, sentence) if typical_ms < 50 else (WORSE, f"{sentence}; durable groups will be slow")


def _address(listen: str) -> tuple[str, str]:
    host, _, port = listen.rpartition(":")
    try:
        with socket.create_server((host, int(port))):
            return FINE, f"{listen} can be listened at"
    except (OSError, ValueError) as error:
        return BROKEN, f"{listen} cannot be listened at: {error}"


def _levels() -> tuple[str, str]:
    return FINE, ", ".join(LEVELS)


def _traces() -> tuple[str, str]:
    try:
        return FINE, f"pyarrow {metadata.version('pyarrow')} reads and writes them as Parquet"
    except metadata.PackageNotFoundError:
        return WORSE, "whence check and gather need pyarrow: pip install 'whence[trace]'; members run without"


def _java() -> tuple[str, str]:
    """Look for what Spark runs on, where Spark itself would look."""
    try:
        spark = f"Spark {metadata.version('pyspark')}"
    except metadata.PackageNotFoundError:
        if find_spec("duckdb") is not None:
            return WORSE, "input of up to some GB is judged here; larger needs Spark: pip install 'whence[spark]'"
        return WORSE, (
            "whence verify, report and merge need DuckDB for small input, Spark for any: pip install 'whence[local]' "
            "or 'whence[spark]'; members run without"
        )
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        return WORSE, f"{spark} needs Java {JAVA_MIN} or newer, and there is none; members run without"
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return WORSE, f"{spark} needs Java {JAVA_MIN} or newer, and {java} does not run: {error}"
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < JAVA_MIN:
        return WORSE, f"{spark} needs Java {JAVA_MIN} or newer, not {printed.partition(chr(10))[0] or java}"
    return FINE, f"{spark} on Java {version[1]}"


def _member_in(certificate: Path) -> tuple[int, str]:
    """Return the pid, or 0 and the name, that a certificate's file is named after."""
    member = certificate.stem.removeprefix("member-")
    return (int(member), "") if member.isdecimal() else (0, member)


def _certs(directory: Path) -> tuple[str, str]:
    members = sorted(directory.glob("member-*.pem"))
    if not members:
        return BROKEN, f"{directory} holds no member-*.pem; make some with whence certs member"
    try:
        for certificate in members:
            safety = Safety(certificate, certificate.with_suffix(".key"), directory / "ca.pem")
            if doubts := safety.doubts(*_member_in(certificate)):
                return BROKEN, f"peers will refuse this process: {doubts}"
            if os.stat(certificate.with_suffix(".key")).st_mode & 0o077:
                return WORSE, f"{certificate.with_suffix('.key')} can be read by others; chmod 600 it"
    except (OSError, WhenceError) as error:
        return BROKEN, str(error)
    return FINE, f"{len(members)} certificates fit their keys and {directory / 'ca.pem'}"
