"""What docs/install.md says is there: extras, requirements, commands, versions."""

import re
import tomllib
from pathlib import Path
from typing import Any

import typer.main

from whence.cli.app import EXTRAS, app
from whence.cli.doctor import JAVA_MIN

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def project(at: Path) -> dict[str, Any]:
    """Return what a project says about itself."""
    found: dict[str, Any] = tomllib.loads((at / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


WHENCE, LAB = project(ROOT), project(ROOT / "packaging" / "whence-lab")
ROWS = {cells[0]: cells[1:] for line in TEXT.splitlines() if len(cells := line.strip("| ").split(" | ")) > 1}
COMMANDS = {name: needs for names, (needs, *_) in ROWS.items() for name in re.findall(r"`([a-z-]+)`", names)}


def test_the_extras_on_the_page_are_those_of_the_package() -> None:
    named = set(re.findall(r"(?:whence|\.)\[(\w+)\]", TEXT)) | set(re.findall(r"the extra `(\w+)`", TEXT))
    assert named == set(WHENCE["optional-dependencies"])


def test_an_extra_adds_what_the_page_says() -> None:
    for extra, required in WHENCE["optional-dependencies"].items():
        names = {re.split(r"[\[<>=]", each)[0] for each in required}
        said = set(re.findall(r"[\w-]+", ROWS[f"`whence[{extra}]`"][0].removesuffix(" and others")))
        assert said == names if extra != "dev" else said - {"and"} <= names


def test_the_page_says_what_every_command_needs() -> None:
    group = typer.main.get_command(app)
    assert sorted(COMMANDS) == sorted(group.commands)  # type: ignore[attr-defined]
    needs = " ".join(COMMANDS.values())
    said = {f"whence[{extra}]" for extra in re.findall(r"extra `(\w+)`", needs)}
    said |= set(re.findall(r"`(whence-lab\[\w+\])`", needs))
    assert said == set(EXTRAS.values()) - {"whence[otel]"}


def test_the_extras_of_the_lab_on_the_page_are_those_of_its_package() -> None:
    assert set(re.findall(r"whence-lab\[(\w+)\]", TEXT)) == set(LAB["optional-dependencies"])


def test_the_versions_on_the_page_are_those_of_the_packages() -> None:
    assert LAB["dependencies"] == [f"whence=={WHENCE['version']}"]
    assert set(re.findall(r"-(\d+\.\d+\.\d+)-py3", TEXT)) == {WHENCE["version"], LAB["version"]}
    assert f"Python {WHENCE['requires-python'].removeprefix('>=')} or newer" in TEXT
    assert f"{JAVA_MIN} or newer" in TEXT
