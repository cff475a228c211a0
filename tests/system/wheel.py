"""The wheel as a user gets it, in environments of its own: with the extras, and with nothing beyond what it requires.

What the wheel requires is linked from the environment of the tests, by its own metadata and nothing else, so that no
network is needed and a missing requirement is missed.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LAB = ROOT / "packaging" / "whence-lab"


def build_wheel(into: Path, project: Path = ROOT) -> Path:
    """Build the wheel of this checkout, or of another project in it."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(build, cwd=project, check=True, capture_output=True, timeout=300)
    (wheel,) = into.glob("*.whl")
    return wheel


def environment(at: Path, wheel: Path, extras: Iterable[str], *more: Path) -> Path:
    """Make an environment with the wheel, some of its extras and other wheels; return its directory of programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(at)], check=True, timeout=300)
    (packages,) = at.glob("lib/python3*/site-packages")
    for name in required_by(wheel, tuple(extras)):
        for path in _entries(name):
            if not (packages / path.name).exists():
                (packages / path.name).symlink_to(path)
    install = [sys.executable, "-m", "pip", "--python", str(at / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*install, "--no-deps", "--no-index", str(wheel), *map(str, more)], check=True, timeout=300)
    return at / "bin"


def required_by(wheel: Path, extras: tuple[str, ...]) -> list[str]:
    """Return every distribution that a wheel requires with some of its extras, those required by others too."""
    with ZipFile(wheel) as opened:
        (metadata,) = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        lines = opened.read(metadata).decode().splitlines()
    first = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    open_ends = list(_wanted(first, extras))
    while open_ends:
        name, asked = open_ends.pop()
        if (name, asked) not in found:
            found[name, asked] = None
            open_ends += _wanted(distribution(name).requires or [], asked)
    return sorted({name for name, _ in found})


def _wanted(lines: Iterable[str], extras: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for requirement in map(Requirement, lines):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement.name, tuple(sorted(requirement.extras))


def _entries(name: str) -> Iterator[Path]:
    """Yield what a distribution has at the top of its directory of packages."""
    found = distribution(name)
    top = Path(str(found.locate_file("")))
    for first in sorted({file.parts[0] for file in found.files or []}):
        if first not in ("..", "__pycache__"):
            yield top / first
