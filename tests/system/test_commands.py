"""The command line: one JSON object where asked for, one sentence where something is wrong, honest exit codes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import whence
from tests.check.worlds import causal_world
from whence import __version__, errors
from whence.check.levels import PROMISES_OF
from whence.cli.app import run
from whence.errors import WhenceError
from whence.trace.memory import digest_of
from whence.trace.reader import read_trace
from whence.trace.writer import write_trace
from whence_lab.mutants import mutants_of

pytestmark = pytest.mark.no_cover

Capture = pytest.CaptureFixture[str]
SMALL = ["--nodes", "6", "--events", "9"]


def printed(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run a command with --json; return the one object it printed, and nothing else."""
    assert run([*arguments, "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    fields: dict[str, Any] = json.loads(out)
    assert fields["version"] == __version__
    assert isinstance(fields["seed"], int)
    return fields


def complaint(capsys: Capture, *arguments: str) -> str:
    """Run a command that must be refused; return its one sentence, which is also the one JSON object if asked for."""
    assert run(list(arguments)) == 2
    out, err = capsys.readouterr()
    if "--json" in arguments:
        told = json.loads(out)
        assert (told["exit"], told["version"]) == (2, __version__)
        assert f"whence: {told['error']}\n" == err
    else:
        assert out == ""
    assert err.startswith("whence: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


# --- simulate ---

SIMULATE_FIELDS = (
    "digest", "published", "delivered", "deliveries_expected", "late", "skipped", "duplicates_dropped",
    "metadata_bytes_mean", "metadata_bytes_max", "latency_ms", "sim_seconds", "wall_seconds", "events", "verdicts",
)  # fmt: skip


@pytest.mark.parametrize("level", ["eventual", "fifo", "canary"])
def test_simulate_prints_one_object_with_every_field_of_the_contract(capsys: Capture, level: str) -> None:
    fields = printed(capsys, "simulate", "--level", level, *SMALL, "--seed", "5")
    assert [name for name in SIMULATE_FIELDS if name not in fields] == []
    assert fields["seed"] == 5
    assert fields["published"] == 9
    assert fields["delivered"] == fields["deliveries_expected"] == 54
    assert set(fields["latency_ms"]) == {"p50", "p99", "max"}
    assert set(fields["verdicts"]) == set(PROMISES_OF[level])
    assert set(fields["verdicts"].values()) <= {"holds", "broken", "unknown", "vacuous"}


def test_the_same_seed_prints_the_same_but_for_the_time_it_took(capsys: Capture) -> None:
    first, second = (printed(capsys, "simulate", "--level", "fifo", *SMALL, "--faults", "swarm") for _ in range(2))
    first.pop("wall_seconds")
    second.pop("wall_seconds")
    assert first == second


def test_settings_change_the_run(capsys: Capture) -> None:
    usual = printed(capsys, "simulate", "--level", "fifo", *SMALL)
    sparse = printed(capsys, "simulate", "--level", "fifo", *SMALL, "--set", "fanout=2", "--set", " rounds = 9 ")
    assert sparse["digest"] != usual["digest"]


def test_simulate_for_people_shows_a_table_of_facts_and_one_of_verdicts(capsys: Capture) -> None:
    assert run(["simulate", "--level", "fifo", *SMALL]) == 0
    out, _ = capsys.readouterr()
    for word in ("digest", "published", "integrity", "no_duplicates", "holds", "--out"):
        assert word in out


def test_a_file_of_faults_is_played_and_its_faults_are_counted(capsys: Capture, tmp_path: Path) -> None:
    storm = tmp_path / "storm.toml"
    storm.write_text('faults = [{kind = "crash", at_ns = 100_000_000, until_ns = 300_000_000, nodes = [1]}]')
    fields = printed(capsys, "simulate", "--level", "fifo", *SMALL, "--faults", str(storm))
    assert fields["faults"]["crash_lost"] == 1
    assert fields["faults"]["restart"] == 1


# --- check ---


@pytest.fixture
def kept(capsys: Capture, tmp_path: Path) -> Path:
    """Keep the trace of a run without faults and return its directory."""
    return Path(printed(capsys, "simulate", "--level", "fifo", *SMALL, "--out", str(tmp_path / "kept"))["trace"])


@pytest.fixture
def broken_trace(capsys: Capture, tmp_path: Path) -> Path:
    """Keep the trace of a canary that broke its promise."""
    out = tmp_path / "canary"
    assert run(["explore", "--level", "canary", "--replay", "1", "--no-shrink", "--out", str(out)]) == 1
    capsys.readouterr()
    return next(out.glob("**/run_id=*"))


@pytest.mark.parametrize("trouble", ["none", "swarm"])
def test_check_agrees_with_the_simulation_that_left_the_trace(capsys: Capture, tmp_path: Path, trouble: str) -> None:
    run_once = ["simulate", "--level", "fifo", *SMALL, "--faults", trouble, "--out", str(tmp_path)]
    simulated = printed(capsys, *run_once)
    checked = printed(capsys, "check", simulated["trace"])
    assert checked["verdicts"] == simulated["verdicts"]
    assert checked["violations"] == []
    assert digest_of(read_trace(simulated["trace"])) == simulated["digest"]
    assert printed(capsys, "check", str(tmp_path))["run_id"] == checked["run_id"]


def test_check_of_a_broken_trace_exits_1_with_its_witnesses(capsys: Capture, broken_trace: Path) -> None:
    fields = printed(capsys, "check", str(broken_trace), code=1)
    assert fields["verdicts"]["fifo"] == "broken"
    assert 0 < len(fields["violations"]) <= 1000
    for witness in fields["violations"]:
        assert set(witness) == {"promise", "process", "events", "sentence"}
        assert witness["promise"] == "fifo"
        assert len(witness["process"]) == 2
        assert all(len(event) == 3 for event in witness["events"])
        assert witness["sentence"]


def test_check_draws_a_picture_of_each_broken_promise_that_is_well_formed(
    capsys: Capture, broken_trace: Path, tmp_path: Path
) -> None:
    fields = printed(capsys, "check", str(broken_trace), "--pictures", str(tmp_path / "drawn"), code=1)
    assert [Path(path).name for path in fields["pictures"]] == ["fifo.svg"]
    assert ElementTree.parse(fields["pictures"][0]).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_check_for_people_tells_the_smallest_story(capsys: Capture, broken_trace: Path) -> None:
    assert run(["check", str(broken_trace)]) == 1
    out, _ = capsys.readouterr()
    assert "the smallest story" in out
    assert "publish" in out


def test_check_judges_only_the_promises_it_is_asked_for(capsys: Capture, broken_trace: Path) -> None:
    fields = printed(capsys, "check", str(broken_trace), "--promise", "integrity", "--promise", "bounds")
    assert fields["verdicts"] == {"integrity": "holds", "bounds": "holds"}


def test_what_was_not_at_stake_is_vacuous_and_no_failure(capsys: Capture, kept: Path) -> None:
    fields = printed(capsys, "check", str(kept), "--promise", "ticket_exclusivity", "--promise", "integrity")
    assert fields["verdicts"] == {"ticket_exclusivity": "vacuous", "integrity": "holds"}
    assert run(["check", str(kept), "--promise", "ticket_exclusivity"]) == 0
    assert "no ticket was ever held" in capsys.readouterr().out


def test_a_trace_that_was_changed_is_told_by_its_digest(capsys: Capture, kept: Path) -> None:
    described = json.loads((kept / "run.json").read_text())
    (kept / "run.json").write_text(json.dumps(described | {"digest": "0" * 32}))
    assert printed(capsys, "check", str(kept), "--promise", "determinism", code=1)["verdicts"] == {
        "determinism": "broken"
    }


# --- bad traces ---


def _garbage(trace: Path) -> None:
    next(trace.glob("kind=publish/*.parquet")).write_bytes(b"PAR1 this is no parquet")


def _truncated(trace: Path) -> None:
    file = next(trace.glob("kind=deliver/*.parquet"))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _without_a_column(trace: Path) -> None:
    file = next(trace.glob("kind=deliver/*.parquet"))
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["m_seq"]), file)


def _with_a_wrong_type(trace: Path) -> None:
    file = next(trace.glob("kind=publish/*.parquet"))
    table = pq.ParquetFile(file).read()
    at = table.schema.get_field_index("m_seq")
    pq.write_table(table.set_column(at, "m_seq", pa.array(["text"] * len(table))), file)


def _with_nulls(trace: Path) -> None:
    file = next(trace.glob("kind=publish/*.parquet"))
    table = pq.ParquetFile(file).read()
    at = table.schema.get_field_index("m_seq")
    pq.write_table(table.set_column(at, "m_seq", pa.nulls(len(table), pa.int64())), file)


def _without_run(trace: Path) -> None:
    (trace / "run.json").unlink()


def _with_a_broken_run(trace: Path) -> None:
    (trace / "run.json").write_text('{"run_id": 3')


def _with_half_a_run(trace: Path) -> None:
    (trace / "run.json").write_text('{"run_id": "x"}')


def _of_an_unknown_level(trace: Path) -> None:
    described = json.loads((trace / "run.json").read_text())
    (trace / "run.json").write_text(json.dumps(described | {"level": "telepathy"}))


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (_garbage, r"kind=publish/part-00000\.parquet"),
    (_truncated, r"kind=deliver/part-00000\.parquet"),
    (_without_a_column, "m_seq"),
    (_with_a_wrong_type, "m_seq"),
    (_with_nulls, "m_seq"),
    (_without_run, r"run\.json"),
    (_with_a_broken_run, r"run\.json"),
    (_with_half_a_run, r"run\.json"),
    (_of_an_unknown_level, "telepathy"),
]


@pytest.mark.parametrize(("damage", "named"), DAMAGE, ids=lambda of: getattr(of, "__name__", "").strip("_"))
def test_a_trace_that_cannot_be_read_gets_one_sentence_that_names_what_is_wrong(
    capsys: Capture, kept: Path, damage: Callable[[Path], None], named: str
) -> None:
    damage(kept)
    assert re.search(named, complaint(capsys, "check", str(kept)))
    assert re.search(named, complaint(capsys, "check", str(kept), "--json"))


def test_a_promise_nobody_knows_is_refused_by_name(capsys: Capture, kept: Path) -> None:
    assert "telepathy" in complaint(capsys, "check", str(kept), "--promise", "telepathy")


def test_what_is_no_trace_at_all_is_refused_by_name(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    for name in ("file", "empty", "nowhere"):
        assert name in complaint(capsys, "check", str(tmp_path / name))


# --- bad arguments ---

BAD: list[tuple[list[str], str]] = [
    (["fly"], "fly"),
    (["simulate"], "--level"),
    (["simulate", "--level"], "--level"),
    (["simulate", "--level", "psychic"], "psychic"),
    (["simulate", "--level", "fifo", "--nodes", "-5"], "--nodes"),
    (["simulate", "--level", "fifo", "--nodes", "1"], "--nodes"),
    (["simulate", "--level", "fifo", "--nodes", "many"], "--nodes"),
    (["simulate", "--level", "fifo", "--nodes", "99999999"], "--nodes"),
    (["simulate", "--level", "fifo", "--events", "0"], "--events"),
    (["simulate", "--level", "fifo", "--seed", "1.5"], "--seed"),
    (["simulate", "--level", "fifo", "--set", "fanout"], "--set"),
    (["simulate", "--level", "fifo", "--set", "=4"], "--set"),
    (["simulate", "--level", "fifo", "--set", "colour=4"], "colour"),
    (["simulate", "--level", "fifo", "--set", "fanout=lots"], "fanout"),
    (["simulate", "--level", "fifo", "--set", "fanout=0"], "fanout"),
    (["simulate", "--level", "fifo", "--set", "fanout=40"], "view_size"),
    (["simulate", "--level", "fifo", "--set", "view=foggy"], "view"),
    (["simulate", "--level", "fifo", "--set", "held_bundles_max=0"], "held_bundles_max"),
    (["simulate", "--level", "fifo", "--faults", "nowhere.toml"], "nowhere.toml"),
    (["simulate", "--level", "fifo", "--faults", "."], "--faults"),
    (["simulate", "--level", "fifo", "--wings"], "--wings"),
    (["simulate", "--level", "fifo", "extra"], "extra"),
    (["simulate", "--level", "fifo", *SMALL, "--out", "/dev/null/here"], "--out"),
    (["explore"], "--level"),
    (["explore", "--level", "psychic"], "psychic"),
    (["explore", "--level", "psychic", "--replay", "3"], "psychic"),
    (["explore", "--level", "fifo", "--schedules", "0"], "--schedules"),
    (["explore", "--level", "fifo", "--workers", "0"], "--workers"),
    (["explore", "--level", "fifo", "--mutant", "kraken"], "kraken"),
    (["explore", "--level", "psychic", "--mutant", "all"], "psychic"),
    (["explore", "--level", "canary", "--mutant", "all"], "canary"),
    (["explore", "--level", "canary", "--mutant", "kraken"], "canary"),
    (["explore", "--level", "fifo", "--replay", "1", "--mutant", "kraken"], "kraken"),
    (["check"], "TRACE"),
    (["check", "a", "b"], "b"),
    (["demo", "--nodes", "3"], "--nodes"),
    (["demo", "--events", "3"], "--events"),
    (["demo", "--out", "/dev/null/here"], "--out"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD, ids=lambda of: " ".join(of) if isinstance(of, list) else "")
def test_a_bad_argument_gets_one_sentence_that_names_it(capsys: Capture, arguments: list[str], named: str) -> None:
    assert named in complaint(capsys, *arguments)


def test_without_a_command_help_is_shown_and_the_exit_code_says_that_nothing_was_done(capsys: Capture) -> None:
    assert run([]) == 2
    out, _ = capsys.readouterr()
    assert "Usage" in out


def test_a_malformed_file_of_faults_is_named(capsys: Capture, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("faults = [")
    assert "bad.toml" in complaint(capsys, "simulate", "--level", "fifo", "--faults", str(bad))


@pytest.mark.parametrize(
    "arguments", [["--help"], ["-h"], ["--version"], *[[c, "-h"] for c in ("simulate", "explore")]]
)
def test_asking_for_help_is_no_error(capsys: Capture, arguments: list[str]) -> None:
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert out.strip()
    assert err == ""


def test_a_bug_of_ours_is_one_sentence_too_and_has_a_code_of_its_own(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr("whence.cli.simulate.simulation", fail)
    monkeypatch.delenv("WHENCE_DEBUG", raising=False)
    assert run(["simulate", "--level", "fifo"]) == 70
    _, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert "by accident" in err
    monkeypatch.setenv("WHENCE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run(["simulate", "--level", "fifo"])


def test_a_disk_that_cannot_be_written_is_the_worlds_fault_and_is_named(
    capsys: Capture, broken_trace: Path, tmp_path: Path
) -> None:
    drawn = tmp_path / "drawn"
    (drawn / "fifo.svg").mkdir(parents=True)
    assert "fifo.svg" in complaint(capsys, "check", str(broken_trace), "--pictures", str(drawn))


def test_an_interrupt_is_one_line_and_code_130(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("whence.cli.simulate.simulation", interrupt)
    assert run(["simulate", "--level", "fifo"]) == 130
    assert capsys.readouterr() == ("", "whence: interrupted\n")


# --- explore ---


def test_explore_prints_one_object_and_exits_0_when_nothing_is_broken(capsys: Capture) -> None:
    fields = printed(capsys, "explore", "--level", "eventual", "--schedules", "10", "--seed", "4", "--workers", "1")
    assert fields["schedules"] == 10
    assert fields["broken"] is None
    assert fields["violations"] == []
    assert fields["seed"] == 4
    shapes = {shape.removesuffix(" live") for shape in fields["coverage"]["group"]}
    assert shapes <= {"sparse", "dense", "busy", "cramped"}
    assert set(fields["outcomes"]["views"]) <= {"holds", "vacuous"}
    assert fields["vacuous"] == sum(told.get("vacuous", 0) for told in fields["outcomes"].values())
    assert all(sum(told.values()) == 10 for promise, told in fields["outcomes"].items() if promise != "determinism")
    assert fields["faults"]


def test_explore_exits_1_with_the_seed_of_a_violation(capsys: Capture) -> None:
    found = printed(capsys, "explore", "--level", "canary", "--schedules", "40", "--workers", "1", code=1)
    assert found["verdicts"] == {"fifo": "broken"}
    assert found["violations"]
    again = printed(capsys, "explore", "--level", "canary", "--replay", str(found["broken"]), code=1)
    assert again["violations"] == found["violations"]
    assert again["verdicts"]["fifo"] == "broken"


def test_a_replay_shows_shrinks_and_keeps_what_a_schedule_broke(capsys: Capture, tmp_path: Path) -> None:
    assert run(["explore", "--level", "canary", "--replay", "1", "--out", str(tmp_path)]) == 1
    out, _ = capsys.readouterr()
    assert "broken" in out
    assert re.search(r"shrunk to \d+: \d+ members, \d+ faults, \d+ events", out)
    kept = tmp_path / "canary-1"
    scenario = json.loads((kept / "scenario.json").read_text())
    assert scenario["level"] == "canary"
    assert ElementTree.parse(kept / "fifo.svg").getroot().tag.endswith("svg")
    assert printed(capsys, "check", str(kept), code=1)["verdicts"]["fifo"] == "broken"


def test_a_replay_of_a_schedule_that_breaks_nothing_says_so(capsys: Capture, tmp_path: Path) -> None:
    assert run(["explore", "--level", "fifo", "--replay", "1", "--out", str(tmp_path / "none")]) == 0
    assert not (tmp_path / "none").exists()
    capsys.readouterr()
    fields = printed(capsys, "explore", "--level", "fifo", "--replay", "1")
    assert set(fields["verdicts"].values()) == {"holds"}


def test_explore_for_people_shows_faults_coverage_and_the_story(capsys: Capture, tmp_path: Path) -> None:
    explored = ["explore", "--level", "canary", "--schedules", "20", "--workers", "1", "--no-shrink"]
    assert run([*explored, "--out", str(tmp_path)]) == 1
    out, _ = capsys.readouterr()
    for words in ("times it did something", "what the generator drew", "breaks a promise", "--replay", "kept:"):
        assert words in out


def test_every_planted_bug_of_a_level_is_hunted_at_once(capsys: Capture) -> None:
    """Few schedules suffice to see the form; that each is caught within 1,000 is shown where schedules are explored."""
    assert run(["explore", "--level", "fifo", "--mutant", "all", "--schedules", "2", "--workers", "1", "--json"]) == 1
    fields = json.loads(capsys.readouterr().out)
    assert set(fields["mutants"]) == {mutant.name for mutant in mutants_of("fifo")}
    for mutant in mutants_of("fifo"):
        told = fields["mutants"][mutant.name]
        assert told["law"] == mutant.law
        assert isinstance(told["caught"], bool)
        assert 1 <= told["schedules"] <= 2


def test_a_planted_bug_that_is_caught_is_success(capsys: Capture) -> None:
    fields = printed(capsys, "explore", "--level", "fifo", "--mutant", "skips_silently", "--workers", "1")
    assert fields["mutants"]["skips_silently"]["caught"] is True


# --- demo ---


@pytest.mark.parametrize("seed", [7, pytest.param(9, marks=pytest.mark.long)])
def test_the_demo_runs_every_level_catches_the_planted_bug_and_leaves_a_report(
    capsys: Capture, tmp_path: Path, seed: int
) -> None:
    """With any seed: that of a schedule that does not show the bug looks further for one that does."""
    small = ["--nodes", "25", "--events", "40", "--seed", str(seed), "--out", str(tmp_path), "--no-live"]
    fields = printed(capsys, "demo", *small)
    assert fields["canary_caught"] is True
    assert set(fields["levels"]) == {"eventual", "fifo", "causal", "optimistic", "total"}
    for told in fields["levels"].values():
        assert set(told["verdicts"].values()) <= {"holds", "vacuous"}
        assert read_trace(told["trace"]).count() == told["rows"]
    pictures = ["spread-eventual", "spread-fifo", "tree-causal", "tickets-optimistic", "streams-total", "planted-bug"]
    for name in (f"{picture}.svg" for picture in pictures):
        assert ElementTree.parse(tmp_path / name).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    page = Path(fields["report"]).read_text(encoding="utf-8")
    assert page.count("<svg") == len(pictures)
    assert "holds" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_the_demo_for_people_ends_with_verdicts_and_the_place_of_the_report(capsys: Capture, tmp_path: Path) -> None:
    """The whole of it, with eight real processes."""
    assert run(["demo", "--nodes", "20", "--events", "30", "--out", str(tmp_path)]) == 0
    out, _ = capsys.readouterr()
    assert "causal, live" in out
    assert "a planted bug, caught" in out
    assert "report.html" in out.replace("\n", "")


# --- errors ---


@pytest.mark.parametrize(
    "wrong", [["check", "nowhere"], ["simulate", "--level", "loud"], ["check", "a", "--loud"], ["sing"]]
)
def test_an_error_under_json_is_one_json_object_with_the_sentence_and_the_exit_code(
    capsys: Capture, wrong: list[str]
) -> None:
    assert complaint(capsys, *wrong, "--json")


@pytest.mark.parametrize(("module", "extra"), [("pyarrow", "trace"), ("pyspark", "spark")])
def test_a_missing_extra_is_named_with_what_installs_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, extra: str
) -> None:
    write_trace(tmp_path, causal_world(1, 3, 5))
    for name in [name for name in sys.modules if name.startswith(("whence.pipeline", "whence.trace.reader", module))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    command = ["check", str(tmp_path)] if extra == "trace" else ["verify", "--engine", "spark", str(tmp_path)]
    assert f"pip install 'whence[{extra}]'" in complaint(capsys, *command)


@pytest.mark.parametrize(
    "arguments",
    ["stream . --out o --work w", "sweep plan.toml --out o", "pack --out p.tar.gz", "verify . --engine spark",
     "gather . --out o --group g --follow", "gather . --out o --group g --master local",
     "merge . --out o --master local[1]", "metrics . --out o --conf a=b", "report hdfs://a/b --out o"],
)  # fmt: skip
def test_where_only_spark_helps_duckdb_is_not_offered(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("whence.cli.spark.find_spec", lambda name: None)
    said = complaint(capsys, *arguments.split())
    assert said.endswith("needs Spark; install it with: pip install 'whence[spark]'\n")
    assert "DuckDB" not in said


def test_where_duckdb_was_asked_for_spark_is_not_offered(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("whence.cli.spark.find_spec", lambda name: None)
    for command in (["verify"], ["merge", "--out", "o"]):
        said = complaint(capsys, *command, str(tmp_path), "--engine", "local")
        assert said == "whence: --engine local needs DuckDB; install it with: pip install 'whence[local]'\n"


def test_the_api_can_be_found_by_looking_at_the_package() -> None:
    shown = dir(whence)
    assert {"join", "run", "Group", "Delivery", "LateEvent", "NetSettings", "UsageError"} <= set(shown)
    assert all(getattr(whence, name) is not None for name in shown)
    raised = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, WhenceError)]
    hidden = [error.__name__ for error in raised if error.__name__ not in shown]
    assert hidden == ["RemoteProtocolError"], "every error that reaches a caller can be caught by its name"


def test_a_setting_that_is_given_twice_or_is_no_number_is_refused_in_plain_words(capsys: Capture) -> None:
    asked = ("simulate", "--level", "fifo", *SMALL, "--set")
    assert "--set fanout is given twice" in complaint(capsys, *asked, "fanout=3", "--set", "fanout=4")
    assert "fanout must be a whole number, not '2.5'" in complaint(capsys, *asked, "fanout=2.5")


INTERRUPTED_LOADING = """
import os, signal, sys

module = sys.argv.pop(1)

class Interrupts:
    def find_spec(name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupts)
from whence.cli import main
main()
"""


@pytest.mark.parametrize("module", ["whence.cli.app", "typer", "whence.cli.pub", "whence.api.node"])
def test_an_interrupt_ends_a_command_quietly_while_it_is_loaded(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_LOADING, module, "pub", "alps"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr in ("", "whence: interrupted\n")
