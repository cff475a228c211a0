"""All commands, and the one place that turns errors into a sentence and an exit code, never a traceback."""

import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from whence import __version__
from whence.cli import INTERRUPTED
from whence.cli.output import Interrupted, print_json, print_message
from whence.errors import UsageError, WhenceError

USAGE = 2
"""The caller must change something: arguments, settings or files."""

BUG = 70
"""We must change something."""

EXTRAS = {
    "pyarrow": "whence[trace]", "pyspark": "whence[spark]", "pandas": "whence[spark]", "duckdb": "whence[local]",
    "opentelemetry": "whence[otel]", "matplotlib": "whence-lab[figures]",
}  # fmt: skip
"""Optional packages, and what installs each."""

_COMMANDS = {
    "demo": "demo", "simulate": "simulate", "explore": "explore", "check": "check", "node": "node", "pub": "pub",
    "sub": "sub", "top": "top", "members": "members", "remove": "members", "leave": "leave", "force": "force",
    "declare-dead": "declare_dead", "gather": "gather", "doctor": "doctor", "tune": "tune", "certs": "certs",
    "size": "size", "verify": "verify", "sweep": "sweep", "report": "report", "reproduce": "reproduce",
    "metrics": "metrics", "stream": "stream", "merge": "merge", "pack": "pack",
}  # fmt: skip
"""Every command, and the module here that has it under the same name."""


class _OnDemand(Mapping[str, Any]):
    """The commands, each loaded when it is asked for: who judges a tiny trace does not wait for the live system."""

    def __getitem__(self, name: str) -> Any:
        found = getattr(import_module(f"whence.cli.{_COMMANDS[name]}"), name.replace("-", "_"))
        one = typer.Typer(add_completion=False)
        if isinstance(found, typer.Typer):
            one.add_typer(found, name=name)
            return typer.main.get_group(one).commands[name]
        one.command(name)(found)
        return typer.main.get_command(one)

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Commands(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _OnDemand()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


app = typer.Typer(
    name="whence",
    cls=_Commands,
    help="Ordered group communication with a consistency dial: run groups, break them, and see every promise judged.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"whence {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Ordered group communication with a consistency dial: run groups, break them, and see every promise judged."""


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    try:
        _check_not_empty(sys.argv[1:] if arguments is None else arguments)
        code = app(args=arguments, standalone_mode=False)
    except WhenceError as error:
        return _fail(arguments, str(error), USAGE)
    except Interrupted as error:
        return _fail(arguments, f"interrupted; {error}", INTERRUPTED)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:  # noqa: BLE001 - the one place
        return _fail(arguments, *_explained(error))
    if code == INTERRUPTED:  # the argument parser turns an interrupt into this
        return _fail(arguments, "interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _check_not_empty(arguments: list[str]) -> None:
    """Raise UsageError for an argument without text: as a path it would be the working directory."""
    for before, text in zip(["", *arguments], arguments, strict=False):
        option, is_set, value = text.partition("=")
        if not text.strip():
            what = before if before.startswith("--") and "=" not in before else "an argument"
        elif option.startswith("--") and is_set and not value.strip():
            what = option
        else:
            continue
        raise UsageError(f"{what} is empty: give a value, or leave it out; a variable may not be set")


def _fail(arguments: list[str] | None, sentence: str, code: int) -> int:
    """Print what went wrong, with --json also as the one JSON object; return the exit code."""
    print_message(sentence)
    if "--json" in (sys.argv[1:] if arguments is None else arguments):
        print_json(None, error=" ".join(sentence.split()), exit=code)
    return code


def _explained(error: Exception) -> tuple[str, int]:
    """Return one sentence and an exit code for an exception of the argument parser, the system or a bug."""
    explain = getattr(error, "format_message", None)
    if explain is not None:
        return " ".join(str(explain()).split()) or "give a command; see whence --help", USAGE
    if os.environ.get("WHENCE_DEBUG"):
        raise error
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        return f"this needs {error.name}; install it with: pip install '{extra}'", USAGE
    if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
        from whence.pipeline.session import OUT_OF_MEMORY, is_out_of_memory, missing_module

        if sentence := missing_module(error):
            return sentence, USAGE
        if is_out_of_memory(error):
            return OUT_OF_MEMORY, USAGE
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", USAGE
    return f"a bug in whence: {type(error).__name__}: {error}; set WHENCE_DEBUG=1 to see where", BUG
