"""Tidy rules as tests: the house's shape, checked on every run; and proof that each rule has teeth."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whence
from tests.tidy import rules
from tests.tidy.rules import Module

ROOT = Path(__file__).parents[2]
TEXT_SUFFIXES = {"", ".cfg", ".csv", ".json", ".md", ".py", ".sh", ".svg", ".toml", ".txt", ".yml"}
GENERATED = {"out", "build", "dist", "htmlcov", "__pycache__"}

Rule = Callable[[Module], list[str]]
TextRule = Callable[[str, str], list[str]]


def files(folder: Path) -> Iterator[Path]:
    """Yield the repository's own files below a folder, in a fixed order; nothing hidden but .ci, nothing generated."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".") and path.name != ".ci"
        if hidden or path.name in GENERATED or path.name.endswith(".egg-info") or path.is_symlink():
            continue
        if path.is_dir():
            yield from files(path)
        else:
            yield path


def modules(folder: Path, base: Path) -> list[Module]:
    """Read the Python files below a folder, named as imported from `base`."""
    found = []
    for path in files(folder):
        if path.suffix == ".py":
            parts = path.relative_to(base).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            found.append(Module(name, path.read_text(encoding="utf-8"), is_package))
    return found


def complaints(rule: Rule, judged: list[Module]) -> list[str]:
    return [complaint for module in judged for complaint in rule(module)]


SOURCE_RULES: list[Rule] = [
    rules.imports_go_downward,
    rules.levels_do_not_know_each_other,
    rules.live_groups_know_no_level,
    rules.no_level_is_compared_by_name,
    rules.nothing_shipped_needs_the_lab,
    rules.core_and_wire_are_pure,
    rules.only_the_pipeline_knows_spark,
    rules.runs_are_deterministic,
    rules.files_and_functions_stay_small,
    rules.modules_say_what_they_are,
]
TEXT_RULES: list[TextRule] = [rules.nothing_is_left_unfinished, rules.no_path_of_a_developers_machine]


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_every_rule_of_the_house(rule: Rule) -> None:
    assert complaints(rule, modules(ROOT / "src", ROOT / "src")) == []


def test_every_test_in_the_repository_is_a_sentence() -> None:
    assert complaints(rules.tests_are_sentences, modules(ROOT / "tests", ROOT)) == []


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: rule.__name__)
def test_every_text_of_the_repository_keeps_the_rules_of_texts(rule: TextRule) -> None:
    texts = [path for path in files(ROOT) if path.suffix in TEXT_SUFFIXES]
    assert ROOT / "Makefile" in texts
    found = []
    for path in texts:
        found += rule(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace"))
    assert found == []


def test_the_readme_names_both_commands() -> None:
    assert rules.readme_names_the_two_commands((ROOT / "README.md").read_text(encoding="utf-8")) == []


LONG_FUNCTION = "def f():\n" + "    pass\n" * rules.FUNCTION_LINES_MAX

BAD: list[tuple[Rule, str, str]] = [
    *[(rules.imports_go_downward, "whence.core.node", f"import whence.{room}") for room in ("wire", "sim", "net")],
    *[(rules.imports_go_downward, "whence.core.node", f"from whence import {room}") for room in ("trace", "check")],
    (rules.imports_go_downward, "whence.core.node", "from whence.pipeline.verify import verify"),
    (rules.imports_go_downward, "whence.core.node", "from whence import Group"),
    (rules.imports_go_downward, "whence.core.node", "import whence"),
    (rules.imports_go_downward, "whence.core.order.fifo", "from ...wire import codec"),
    (rules.imports_go_downward, "whence.core.node", "def f():\n    from whence.sim import loop"),
    (rules.imports_go_downward, "whence.core.node", "if TYPE_CHECKING:\n    from whence.sim import loop"),
    (rules.imports_go_downward, "whence.wire.codec", "from whence.sim import loop"),
    *[(rules.imports_go_downward, "whence.check.fifo", f"import whence.{room}") for room in ("core", "wire", "sim")],
    (rules.imports_go_downward, "whence.trace.writer", "from whence.core import node"),
    *[
        (rules.imports_go_downward, f"whence.{room}.writer", f"from whence.wire.{name}")
        for room in ("trace", "store")
        for name in ("codec import encode", "frames import cut")
    ],
    (rules.imports_go_downward, "whence.check.fifo", "from whence.wire.frame import sealed"),
    (rules.imports_go_downward, "whence.types", "from whence.core import node"),
    (rules.imports_go_downward, "whence.sim.run", "from whence.cli import main"),
    *[
        (rules.levels_do_not_know_each_other, name, f"from {imported} import x")
        for name, imported in (
            ("whence.core.levels.total.member", "whence.core.levels.causal.tree.items"),
            ("whence.core.levels.causal.level", "whence.core.registry"),
            ("whence.core.runner", "whence.core.levels.total.items"),
            ("whence.core.dissemination.direct", "whence.core.levels.gossip.arrival"),
        )
    ],
    *[
        (rules.live_groups_know_no_level, name, text)
        for name, text in (
            ("whence.net.status", "from whence.core.levels.causal.tree.member import TreeMember"),
            ("whence.net.driver", "from whence.core import levels"),
            ("whence.api.group", "import whence.core.levels.optimistic.tickets.items"),
            ("whence.api.group", "if TYPE_CHECKING:\n    from ..core.levels.total import items"),
        )
    ],
    (rules.no_level_is_compared_by_name, "whence.sim.run", "if scenario.level == 'causal':\n    pass"),
    (rules.no_level_is_compared_by_name, "whence.pipeline.verdicts", "keyed = F.col('level') == 'total'"),
    (rules.nothing_shipped_needs_the_lab, "whence.sim.lab", "from whence_lab import catalogue"),
    *[(rules.core_and_wire_are_pure, "whence.core.node", f"import {name}") for name in sorted(rules.IMPURE_MODULES)],
    (rules.core_and_wire_are_pure, "whence.core.node", "from os.path import join"),
    (rules.core_and_wire_are_pure, "whence.wire.codec", "from time import monotonic_ns"),
    (rules.core_and_wire_are_pure, "whence.wire.codec", "open('journal')"),
    (rules.core_and_wire_are_pure, "whence.core.node", "print('here')"),
    (rules.only_the_pipeline_knows_spark, "whence.check.fifo", "from pyspark.sql import DataFrame"),
    (rules.only_the_pipeline_knows_spark, "whence.cli", "import pyspark"),
    (rules.runs_are_deterministic, "whence.core.node", "hash('a')"),
    (rules.runs_are_deterministic, "whence.sim.loop", "key = id(node)"),
    (rules.runs_are_deterministic, "whence.sim.loop", "import random\nrandom.choice([1, 2])"),
    (rules.runs_are_deterministic, "whence.sim.loop", "import random\nrandom.random()"),
    (rules.runs_are_deterministic, "whence.sim.loop", "from random import shuffle"),
    (rules.runs_are_deterministic, "whence.sim.loop", "import time\ntime.time()"),
    (rules.runs_are_deterministic, "whence.sim.loop", "for x in {1, 2}:\n    pass"),
    (rules.runs_are_deterministic, "whence.core.node", "[x for x in set(peers)]"),
    (rules.files_and_functions_stay_small, "whence.sim.loop", "x = 1\n" * (rules.FILE_LINES_MAX + 1)),
    (rules.files_and_functions_stay_small, "whence.sim.loop", LONG_FUNCTION),
    (rules.files_and_functions_stay_small, "whence.net.link", "async " + LONG_FUNCTION),
    (rules.modules_say_what_they_are, "whence.sim.loop", "x = 1"),
    (rules.tests_are_sentences, "tests.core.test_fifo", "def test_fifo(): pass"),
    (rules.tests_are_sentences, "tests.core.test_fifo", "class TestFifo:\n    def test_a_gap(self): pass"),
]

GOOD: list[tuple[Rule, str, str]] = [
    (
        rules.live_groups_know_no_level,
        "whence.net.status",
        "from whence.core.level import Live\nimport whence.core.member",
    ),
    (rules.live_groups_know_no_level, "whence.sim.swarm.tree", "from whence.core.levels.causal.tree import settings"),
    (rules.imports_go_downward, "whence.core.node", "from whence import types\nfrom whence.core.ready import Ready"),
    (rules.imports_go_downward, "whence.core.order.fifo", "from . import arrival\nfrom ...types import Bundle"),
    (rules.imports_go_downward, "whence.wire.items", "from whence.core.spread import gossip\nimport msgspec"),
    (
        rules.imports_go_downward,
        "whence.trace.writer",
        "from whence.wire.frame import sealed\nfrom whence.wire import frame\nimport whence.wire.frame",
    ),
    (
        rules.imports_go_downward,
        "whence.check.fifo",
        "from whence.trace import schema\nfrom whence.errors import TraceError",
    ),
    *[
        (rules.levels_do_not_know_each_other, name, f"from {imported} import x")
        for name, imported in (
            ("whence.core.registry", "whence.core.levels.causal.level"),
            ("whence.core.levels.causal.level", "whence.core.levels.causal.tree.member"),
            ("whence.core.levels.causal.tree.member", "whence.core.levels.causal.reliability"),
            ("whence.core.levels.causal.tree.member", "whence.core.membership.suspects"),
            ("whence.wire.items", "whence.core.levels.total.items"),
        )
    ],
    (rules.no_level_is_compared_by_name, "whence.check.explain", "if promise == 'fifo':\n    pass"),
    (rules.no_level_is_compared_by_name, "whence.sim.swarm", "DRAWS = {'causal': draw}[level]"),
    (rules.nothing_shipped_needs_the_lab, "whence_lab.catalogue", "from whence_lab.mutants import find"),
    (rules.core_and_wire_are_pure, "whence.sim.disk", "import io\nimport os"),
    (rules.core_and_wire_are_pure, "whence.core.node", "self.open()\nlink.print('x')"),
    (rules.only_the_pipeline_knows_spark, "whence.pipeline.verify", "from pyspark.sql import DataFrame"),
    (
        rules.runs_are_deterministic,
        "whence.sim.loop",
        "import random\nstream = random.Random(seed)\nstream.choice(peers)",
    ),
    (rules.runs_are_deterministic, "whence.sim.loop", "for x in sorted({1, 2}):\n    pass\nself.id()"),
    (rules.runs_are_deterministic, "whence.cli", "import time\ntime.time()"),
    (rules.files_and_functions_stay_small, "whence.sim.loop", "x = 1\n" * rules.FILE_LINES_MAX),
    (rules.modules_say_what_they_are, "whence.sim.loop", '"""The heap."""'),
    (rules.tests_are_sentences, "tests.core.test_fifo", "def test_an_event_waits_its_turn(): pass"),
    (
        rules.tests_are_sentences,
        "tests.core.test_fifo",
        'def test_fifo():\n    """Events of one process stay in order."""',
    ),
]


@pytest.mark.parametrize(("rule", "name", "text"), BAD)
def test_a_breach_of_any_rule_is_flagged(rule: Rule, name: str, text: str) -> None:
    assert len(rule(Module(name, text))) == 1


@pytest.mark.parametrize(("rule", "name", "text"), GOOD)
def test_what_keeps_a_rule_is_not_flagged(rule: Rule, name: str, text: str) -> None:
    assert rule(Module(name, text)) == []


def test_every_rule_has_a_snippet_that_breaks_it_and_one_that_keeps_it() -> None:
    judged = {*SOURCE_RULES, rules.tests_are_sentences}
    assert judged == {rule for rule, _, _ in BAD} == {rule for rule, _, _ in GOOD}


@pytest.mark.parametrize("word", ["todo".upper(), "fixme".upper()])
def test_a_mark_of_unfinished_work_is_flagged(word: str) -> None:
    assert rules.nothing_is_left_unfinished("a.py", f"x = 1\n# {word}: more") != []
    assert rules.nothing_is_left_unfinished("a.py", "x = 1\n# all of it") == []


@pytest.mark.parametrize("folder", ["work", "root", "home"])
def test_a_path_of_a_developers_machine_is_flagged(folder: str) -> None:
    assert rules.no_path_of_a_developers_machine("a.md", f"see /{folder}/somebody/notes") != []
    assert rules.no_path_of_a_developers_machine("a.md", f"see docs/{folder}/notes") == []


def test_a_readme_without_a_command_is_flagged() -> None:
    assert rules.readme_names_the_two_commands("Run make demo.") == ["README.md does not name `make test`"]


def test_both_distributions_have_the_version_of_the_code_and_the_lab_asks_for_it() -> None:
    projects = [
        tomllib.loads((ROOT / path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for path in (".", "packaging/whence-lab")
    ]
    assert [project["version"] for project in projects] == [whence.__version__] * 2
    assert projects[1]["dependencies"] == [f"whence=={whence.__version__}"]
