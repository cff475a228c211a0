"""Every example runs with one command, ends well, and uses what the package offers to programs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs_to_its_end(example: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_imports_public_modules_only(example: Path) -> None:
    found = [node for node in ast.walk(ast.parse(example.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = [str(node.module) if isinstance(node, ast.ImportFrom) else node.names[0].name for node in found]
    ours = {module for module in modules if module.split(".")[0].startswith("whence")}
    assert ours <= {"whence", "whence.blocking", "whence.sim"}
    assert ours
