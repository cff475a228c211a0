"""Every file and name that the page for newcomers refers to is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "walkthrough.md"
REFERENCE = re.compile(r"`([\w/]+\.py): ([\w.]+)`")
PATH = re.compile(r"`((?:whence|whence_lab|api|core|wire|store|net|sim|trace|check|pipeline|cli)/[\w/<>]*(?:\.py)?)`")

REFERENCES = REFERENCE.findall(PAGE.read_text(encoding="utf-8"))


def names_in(tree: ast.AST) -> set[str]:
    """Return what a module or class defines: classes, functions and assigned names."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def defines(path: Path, name: str) -> bool:
    """Tell whether a file defines a name, or a class of it a method."""
    tree: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
    for part in name.split("."):
        if part not in names_in(tree):
            return False
        tree = next((node for node in ast.iter_child_nodes(tree) if getattr(node, "name", None) == part), tree)
    return True


def test_the_page_refers_to_code_at_all() -> None:
    assert len(REFERENCES) >= 25


@pytest.mark.parametrize(("file", "name"), sorted(set(REFERENCES)))
def test_what_the_page_refers_to_is_there(file: str, name: str) -> None:
    assert (ROOT / "src" / file).is_file(), file
    assert defines(ROOT / "src" / file, name), f"{file} defines no {name}"


def test_a_name_that_is_not_there_is_found_out() -> None:
    assert not defines(ROOT / "src" / "whence" / "core" / "flow.py", "Flow.nonsense")
    assert not defines(ROOT / "src" / "whence" / "core" / "flow.py", "Nonsense")


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"])
def test_every_path_of_the_source_in_a_document_is_there(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    paths = {path for path in PATH.findall(text) if "<" not in path}
    places = (ROOT / "src", ROOT / "src" / "whence")
    assert [path for path in sorted(paths) if not any((place / path).exists() for place in places)] == []
