"""The tidy rules, as pure functions from source text to complaints.

Each rule takes a Module (or a text) and returns one sentence per breach, so that the same function judges the
repository and the bad snippets that prove it has teeth. Rules know nothing of files.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 80
TEST_NAME_WORDS_MIN = 4

NOUNS = frozenset({"types", "limits", "errors", "epochs"})

MAY_IMPORT: dict[str, frozenset[str]] = {
    "types": NOUNS,
    "limits": NOUNS,
    "errors": NOUNS,
    "epochs": NOUNS,
    "core": NOUNS | {"core"},
    "wire": NOUNS | {"core", "wire"},
    "trace": NOUNS | {"trace"},
    "check": NOUNS | {"trace", "check"},
}
"""The rooms of whence that a room may import. A room that is not listed is bound by MUST_NOT_IMPORT alone."""

FRAMING = "whence.wire.frame"
MAY_IMPORT_FRAMING = frozenset({"store", "trace"})
"""Rooms that write files in frames. There is one framing, and it is all that they may know of the wire."""

MUST_NOT_IMPORT: dict[str, frozenset[str]] = {
    "sim": frozenset({"net", "pipeline", "cli", "api", "blocking"}),
    "net": frozenset({"sim", "check", "pipeline", "cli", "api", "blocking"}),
    "store": frozenset({"wire", "sim", "net", "check", "pipeline", "cli", "api", "blocking"}),
    "api": frozenset({"sim", "check", "pipeline", "cli", "blocking"}),
    "pipeline": frozenset({"core", "wire", "net", "cli", "api", "blocking"}),
}
"""For rooms higher up, the ones that lie above or beside them."""

IMPURE_MODULES = frozenset(
    {
        "asyncio",
        "concurrent",
        "datetime",
        "importlib",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "uuid",
    }
)
IMPURE_CALLS = frozenset({"open", "print", "input", "__import__", "exec", "eval"})
PURE_ROOMS = frozenset({"core", "wire"})

DETERMINISTIC_ROOMS = frozenset({"core", "wire", "sim"})
WALL_CLOCK = frozenset(
    {f"time.{name}{unit}" for name in ("time", "monotonic") for unit in ("", "_ns")}
    | {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "datetime.datetime.now"}
)

UNFINISHED = re.compile(r"\b(?:T[O]DO|F[I]XME|X[X]X)\b")
DEVELOPER_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)/")


@dataclass(frozen=True)
class Module:
    """One Python file: its dotted name and its text."""

    name: str
    text: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The part of whence it belongs to; empty for the package's own front door and for other code."""
        parts = self.name.split(".")
        return parts[1] if parts[0] == "whence" and len(parts) > 1 else ""

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))

    def calls(self) -> Iterator[tuple[str, int]]:
        """Yield the dotted name of every call, with its line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield dotted(node.func), node.lineno

    def imports(self) -> Iterator[tuple[str, int]]:
        """Yield the absolute dotted name of everything imported, under TYPE_CHECKING too, with its line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, node.lineno
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                for alias in node.names:
                    yield f"{base}.{alias.name}", node.lineno

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        above = package[: len(package) - node.level + 1]
        return ".".join([*above, node.module] if node.module else above)


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for such an expression; empty for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def imports_go_downward(module: Module) -> list[str]:
    """A room imports only rooms below it."""
    complaints = []
    allowed, forbidden = MAY_IMPORT.get(module.room), MUST_NOT_IMPORT.get(module.room, frozenset())
    for name, line in module.imports():
        parts = name.split(".")
        if parts[0] != "whence":
            continue
        target = parts[1] if len(parts) > 1 else "whence itself"
        if module.room in MAY_IMPORT_FRAMING and f"{name}.".startswith(f"{FRAMING}."):
            continue
        if target in forbidden or (allowed is not None and target not in allowed):
            complaints.append(f"{module.name}:{line} imports {name}: {module.room} must not know {target}")
    return complaints


LEVELS_ROOM = "whence.core.levels."


def levels_do_not_know_each_other(module: Module) -> list[str]:
    """Inside core only the registry imports levels; a level imports its own folder and the parts that all share."""
    if module.room != "core" or module.name == "whence.core.registry":
        return []
    level = _level_of(module.name)
    complaints = []
    for name, line in module.imports():
        other = _level_of(name)
        if (other and other != level) or (level and name.startswith("whence.core.registry")):
            complaints.append(f"{module.name}:{line} imports {name}: only the registry knows all levels")
    return complaints


LEVELS_UNKNOWN_TO = frozenset({"net", "api"})
"""Rooms that run members of every level and know none: a new level changes no file there."""


def live_groups_know_no_level(module: Module) -> list[str]:
    """What a live group must know of a level is a capability of core/member.py or core/level.py."""
    if module.room not in LEVELS_UNKNOWN_TO:
        return []
    return [
        f"{module.name}:{line} imports {name}: {module.room} knows levels by what they can do"
        for name, line in module.imports()
        if _is_level(f"{name}.")
    ]


def _is_level(name: str) -> bool:
    return name.startswith(LEVELS_ROOM)


def _level_of(name: str) -> str:
    """Return the level that a module belongs to; empty: none."""
    return name.removeprefix(LEVELS_ROOM).partition(".")[0] if _is_level(name) else ""


LEVEL_NAMES = frozenset(
    {
        "eventual",
        "fifo",
        "optimistic",
        "causal",
        "total",
        "canary",
        "cbcast",
        "barriers",
        "neighbourhood",
        "vcube",
        "scribe",
        "gryphon",
        "plumtree",
        "thicket",
    }
)


def no_level_is_compared_by_name(module: Module) -> list[str]:
    """Outside its folder a level is looked up in a table, so that a new one is a line there and no branch elsewhere."""
    if module.name.partition(".")[0] != "whence" or _is_level(module.name):
        return []
    found = []
    for node in module.nodes(ast.Compare):
        assert isinstance(node, ast.Compare)
        operands = [node.left, *node.comparators]
        names = [each.value for each in operands if isinstance(each, ast.Constant) and each.value in LEVEL_NAMES]
        others = "".join(ast.unparse(each) for each in operands if not isinstance(each, ast.Constant))
        found += [(name, node.lineno) for name in names if "level" in others]
    return [f"{module.name}:{line} compares a level with {name!r}: use a table of levels" for name, line in found]


def nothing_shipped_needs_the_lab(module: Module) -> list[str]:
    """whence never imports whence_lab: users do not have it, and live groups cannot reach it."""
    if module.name.partition(".")[0] != "whence":
        return []
    return [
        f"{module.name}:{line} imports {name}: the lab is not shipped with whence"
        for name, line in module.imports()
        if name.partition(".")[0] == "whence_lab"
    ]


def core_and_wire_are_pure(module: Module) -> list[str]:
    """No I/O, no clock, no randomness of their own: neither the modules nor the builtins that give them."""
    if module.room not in PURE_ROOMS:
        return []
    bad_imports = [(name, line) for name, line in module.imports() if name.split(".")[0] in IMPURE_MODULES]
    bad_calls = [(name, line) for name, line in module.calls() if name in IMPURE_CALLS]
    return [f"{module.name}:{line} uses {name}: {module.room} is pure" for name, line in bad_imports + bad_calls]


def only_the_pipeline_knows_spark(module: Module) -> list[str]:
    """Spark is imported by whence.pipeline and by nobody else in the package."""
    if module.room == "pipeline":
        return []
    return [
        f"{module.name}:{line} imports {name}: only whence.pipeline may"
        for name, line in module.imports()
        if name.split(".")[0] in {"pyspark", "py4j"}
    ]


def runs_are_deterministic(module: Module) -> list[str]:
    """No hash(), id(), wall clock, global random or iteration over a set where a seed must decide everything."""
    if module.room not in DETERMINISTIC_ROOMS:
        return []
    found = [(name, line) for name, line in module.calls() if name in {"hash", "id"} or name in WALL_CLOCK]
    found += [(name, line) for name, line in module.calls() if name.startswith("random.") and name != "random.Random"]
    found += [(name, line) for name, line in module.imports() if name.startswith("random.") and name != "random.Random"]
    found += [("a set's order", line) for line in _set_iterations(module)]
    return [f"{module.name}:{line} uses {name}: another run may see another value" for name, line in found]


def _set_iterations(module: Module) -> Iterator[int]:
    """Yield the lines that iterate directly over a set display or a set() call; types are out of our sight."""
    for node in module.nodes(ast.For, ast.comprehension):
        assert isinstance(node, ast.For | ast.comprehension)
        source = node.iter
        is_call = isinstance(source, ast.Call) and dotted(source.func) in {"set", "frozenset"}
        if is_call or isinstance(source, ast.Set | ast.SetComp):
            yield source.lineno


def files_and_functions_stay_small(module: Module) -> list[str]:
    """Hard ends; the seam should be looked for well before (400 and 50 lines)."""
    complaints = []
    lines = len(module.text.splitlines())
    if lines > FILE_LINES_MAX:
        complaints.append(f"{module.name} has {lines} lines; at most {FILE_LINES_MAX}")
    for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            complaints.append(
                f"{module.name}:{node.lineno} {node.name} has {lines} lines; at most {FUNCTION_LINES_MAX}"
            )
    return complaints


def modules_say_what_they_are(module: Module) -> list[str]:
    """Every module has a docstring."""
    return [] if ast.get_docstring(module.tree) else [f"{module.name} has no docstring"]


def tests_are_sentences(module: Module) -> list[str]:
    """A test's name is a sentence, or its docstring is."""
    complaints = []
    for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not node.name.startswith("test_") or ast.get_docstring(node):
            continue
        words = [word for word in node.name.split("_")[1:] if word]
        if len(words) < TEST_NAME_WORDS_MIN:
            complaints.append(f"{module.name}:{node.lineno} {node.name} is no sentence and has no docstring")
    return complaints


def nothing_is_left_unfinished(name: str, text: str) -> list[str]:
    """What is not done is not marked in the text; it is done, or planned elsewhere."""
    return _lines_with(UNFINISHED, name, text, "finish it or plan it elsewhere")


def no_path_of_a_developers_machine(name: str, text: str) -> list[str]:
    """The repository means the same on every machine."""
    return _lines_with(DEVELOPER_PATH, name, text, "no other machine has that path")


def _lines_with(pattern: re.Pattern[str], name: str, text: str, reason: str) -> list[str]:
    return [
        f"{name}:{number} has {found.group()}: {reason}"
        for number, line in enumerate(text.splitlines(), start=1)
        if (found := pattern.search(line))
    ]


def readme_names_the_two_commands(text: str) -> list[str]:
    """A newcomer finds both commands on the first page."""
    return [f"README.md does not name `{command}`" for command in ("make demo", "make test") if command not in text]
