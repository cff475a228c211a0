"""What docs/api.md says about the Python API is true: its programs run, its signatures are those of the code, and no
public name is left out. (test_documents.py runs the same programs from the wheel.)"""

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import whence
from tests.system.test_documents import Block, blocks_of
from whence.api.node import Node, join
from whence.core.links.process_names import candidate

PAGE = Path("docs") / "api.md"
ROOT = Path(__file__).parents[2]
BLOCKS = blocks_of(PAGE)
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
PROGRAMS = [block.text for block in BLOCKS if block.language == "python"]
SIGNATURE = re.compile(r"^(whence[\w.]*)(\(.*?\))(?: -> (\w+))?$", re.DOTALL | re.MULTILINE)
EMPTY = inspect.Parameter.empty


def signatures(blocks: list[Block]) -> list[tuple[str, str, str]]:
    """Return the name, the parameters and the result of every function that the page shows."""
    return [found for block in blocks if block.word == "signatures" for found in SIGNATURE.findall(block.text)]


def resolve(name: str) -> Any:
    """Return what a dotted name stands for."""
    found: Any = import_module("whence")
    for part in name.split(".")[1:]:
        found = import_module("whence.blocking") if part == "blocking" else getattr(found, part)
    return found


def shown(parameters: str) -> list[tuple[str, str, Any]]:
    """Return the name, the kind and the default of each parameter of a printed signature."""
    given = ast.parse(f"def f{parameters}: ...").body[0]
    assert isinstance(given, ast.FunctionDef)
    arguments = given.args
    first = [EMPTY] * (len(arguments.args) - len(arguments.defaults))
    defaults = [*first, *map(ast.literal_eval, arguments.defaults)]
    found = [(each.arg, "POSITIONAL_OR_KEYWORD", value) for each, value in zip(arguments.args, defaults, strict=True)]
    found += [
        (each.arg, "KEYWORD_ONLY", EMPTY if value is None else ast.literal_eval(value))
        for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return found + ([(arguments.kwarg.arg, "VAR_KEYWORD", EMPTY)] if arguments.kwarg else [])


def differences(name: str, parameters: str, result: str) -> list[str]:
    """Return in what a printed signature differs from the code."""
    signature = inspect.signature(resolve(name))
    true = [(each.name, each.kind.name, each.default) for each in signature.parameters.values()]
    found = [f"{name}{parameters} is {signature}"] if shown(parameters) != true else []
    true_result = getattr(signature.return_annotation, "__name__", signature.return_annotation)
    return found + ([f"{name} returns {true_result}"] if result and result != true_result else [])


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_page_runs_to_its_end(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout


def test_the_programs_print_what_the_page_says() -> None:
    first, manual, last = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True).stdout
        for program in (PROGRAMS[0], PROGRAMS[1], PROGRAMS[-1])
    ]
    shop = f"shop ({candidate('shop', 0)})"
    assert first.splitlines() == [f"{each}: order {each} from {shop}" for each in range(3)]
    assert manual.splitlines()[1] == "finished b'two' True begun b'three' False"
    assert last.splitlines() == ["the last event", "closed"]


def test_every_public_name_is_on_the_page() -> None:
    assert [name for name in whence.__all__ if not re.search(rf"\b{name}\b", TEXT)] == []


@pytest.mark.parametrize(("name", "parameters", "result"), signatures(BLOCKS), ids=lambda part: part[:40])
def test_a_signature_on_the_page_is_that_of_the_code(name: str, parameters: str, result: str) -> None:
    assert differences(name, parameters, result) == []


def test_a_wrong_signature_is_found_out() -> None:
    assert differences("whence.Group.ack", "(self, upto=1)", "")
    assert differences("whence.Group.ack", "(self)", "")
    assert differences("whence.Group.publish_nowait", "(self, payload)", "EventId")


@pytest.mark.parametrize("function", [join, Node.open])
def test_every_argument_of_the_two_large_calls_is_explained(function: Any) -> None:
    rows = "".join(line.partition(" | ")[0] for line in TEXT.splitlines() if line.startswith("| `"))
    wanted = [name for name in inspect.signature(function).parameters if name not in ("self", "name", "level")]
    assert [name for name in wanted if f"`{name}`" not in rows] == []


@pytest.mark.parametrize("settings", [whence.NetSettings, whence.DetectorSettings])
def test_every_network_setting_is_explained(settings: Any) -> None:
    assert [name for name in settings.__struct_fields__ if f"`{name}`" not in TEXT] == []
