"""All commands, and the one place that turns errors into a sentence and an exit code, never a traceback."""

import os
import sys
from typing import Annotated

import typer

from whence import __version__
from whence.cli.certs import certs
from whence.cli.check import check
from whence.cli.declare_dead import declare_dead
from whence.cli.demo import demo
from whence.cli.doctor import doctor
from whence.cli.explore import explore
from whence.cli.force import force
from whence.cli.gather import gather
from whence.cli.leave import leave
from whence.cli.members import members, remove
from whence.cli.merge import merge
from whence.cli.metrics import metrics
from whence.cli.node import node
from whence.cli.output import print_json, print_message
from whence.cli.pack import pack
from whence.cli.pub import pub
from whence.cli.report import report
from whence.cli.reproduce import reproduce
from whence.cli.simulate import simulate
from whence.cli.size import size
from whence.cli.stream import stream
from whence.cli.sub import sub
from whence.cli.sweep import sweep
from whence.cli.top import top
from whence.cli.tune import tune
from whence.cli.verify import verify
from whence.errors import UsageError, WhenceError

USAGE = 2
"""The caller must change something: arguments, settings or files."""

BUG = 70
"""We must change something."""

INTERRUPTED = 130

EXTRAS = {
    "pyarrow": "whence[trace]", "pyspark": "whence[spark]", "pandas": "whence[spark]", "duckdb": "whence[local]",
    "opentelemetry": "whence[otel]", "matplotlib": "whence-lab[figures]",
}  # fmt: skip
"""Optional packages, and what installs each."""

app = typer.Typer(
    name="whence",
    help="Ordered group communication with a consistency dial: run groups, break them, and see every promise judged.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(simulate)
app.command()(explore)
app.command()(check)
app.command()(node)
app.command()(pub)
app.command()(sub)
app.command()(top)
app.command()(members)
app.command()(remove)
app.command()(leave)
app.command()(force)
app.command()(declare_dead)
app.command()(gather)
app.command()(doctor)
app.command()(tune)
app.add_typer(certs, name="certs")
app.command()(size)
app.command()(verify)
app.command()(sweep)
app.command()(report)
app.command()(reproduce)
app.command()(metrics)
app.command()(stream)
app.command()(merge)
app.command()(pack)


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


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    try:
        _check_not_empty(sys.argv[1:] if arguments is None else arguments)
        code = app(args=arguments, standalone_mode=False)
    except WhenceError as error:
        return _fail(arguments, str(error), USAGE)
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
        from whence.pipeline.session import missing_module

        if sentence := missing_module(error):
            return sentence, USAGE
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", USAGE
    return f"a bug in whence: {type(error).__name__}: {error}; set WHENCE_DEBUG=1 to see where", BUG
