"""The commands of the live system, as people and scripts run them: real processes, pipes, exit codes."""

import json
import os
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from whence.cli.node import NodeConfig, config_from, group_options, node
from whence.core.registry import LEVELS
from whence.errors import UsageError
from whence.net.certs import make_member
from whence.net.permits import Permits
from whence.net.proxy import free_port
from whence.net.settings import settings_of

WHENCE = [sys.executable, "-c", "from whence.cli import main; main()"]
DEADLINE_S = 60
QUICK_TICKETS = ("--set", "ticket_round_ns=200000000", "--set", "answer_ns=20000000")


def whence(*arguments: object, stdin: str = "", code: int = 0) -> str:
    """Run a command to its end; return its standard output."""
    done = subprocess.run(
        [*WHENCE, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


@contextmanager
def running(*arguments: object) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """Run a node until the end of the block; give its first line."""
    process = subprocess.Popen(
        [*WHENCE, "node", *map(str, arguments), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, errors


def test_a_line_published_here_is_printed_there(tmp_path: Path) -> None:
    common = ("--set", "round_ns=20000000")
    sock = tmp_path / "status.sock"
    metrics_at = f"127.0.0.1:{free_port()}"
    options = ("--status", sock, "--metrics", metrics_at, "--trace", tmp_path / "trace", *common)
    with running("--pid", 1, "--group", "alps=fifo", *options) as (_, told):
        contact = ("--contact", told["address"])
        assert told["pid"] == 1
        listener = subprocess.Popen(
            [*WHENCE, "sub", "alps", *contact, "--ndjson", "--count", "3", *common], stdout=subprocess.PIPE, text=True
        )
        published = whence("pub", "alps", *contact, "--members", 3, "--json", "--trace", tmp_path / "other", *common,
                           stdin="one\ntwo\nthree\n")  # fmt: skip
        assert json.loads(published)["published"] == 3
        lines, _ = listener.communicate(timeout=DEADLINE_S)
        assert listener.returncode == 0
        assert [json.loads(line)["payload"] for line in lines.splitlines()] == ["one", "two", "three"]
        seen = json.loads(whence("top", "--socket", sock, "--json"))
        assert seen["groups"][0]["delivered"] == 3
        screen = whence("top", "--socket", sock, "--once")
        assert "alps" in screen
        assert "unsettled" in screen, "80 columns are enough for whole words"
        with urllib.request.urlopen(f"http://{metrics_at}/metrics", timeout=DEADLINE_S) as answer:
            text = answer.read().decode()
        assert 'whence_delivered_events_total{group="alps",level="fifo"} 3' in text
        assert "whence_peers_connected" in text
    to = ("--group", "alps", "--out", tmp_path / "out", "--json")
    assert json.loads(whence("gather", tmp_path / "trace", *to))["level"] == "fifo"
    integrity = ("check", tmp_path / "out", "--promise", "integrity", "--json")
    assert json.loads(whence(*integrity))["verdicts"] == {"integrity": "unknown"}, "the publisher's trace is not there"
    gather = ("gather", tmp_path / "trace", tmp_path / "other", *to)
    whence(*gather)
    assert json.loads(whence(*integrity))["verdicts"] == {"integrity": "holds"}
    check = ("check", tmp_path / "out", "--promise", "no_duplicates", "--promise", "agreement", "--json")
    assert json.loads(whence(*check))["verdicts"] == {"no_duplicates": "holds", "agreement": "unknown"}
    assert "s before that; give less" in whence(*gather, "--one-clock", "--healed-s", 3600, code=2)
    assert "before any delivery is expected; give less than" in whence(
        *gather, "--one-clock", "--healed-s", 0, "--deadline-s", 3600, code=2
    )
    whence(*gather, "--one-clock", "--healed-s", 0, "--deadline-s", 0.001)
    verdicts = json.loads(whence(*check))["verdicts"]
    assert verdicts == {"no_duplicates": "holds", "agreement": "vacuous"}, "all left before the end: nothing is owed"


def test_a_node_reads_a_file_and_flags_override_it(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text(f'pid = 5\ngroups = {{ alps = "eventual" }}\nstatus = "{tmp_path}/s.sock"\nlog = "json"\n')
    with running("--config", config, "--pid", 6) as (_, told):
        assert told["pid"] == 6
        assert told["groups"] == ["alps"]


def test_lines_can_be_published_until_they_are_stored(tmp_path: Path) -> None:
    with running("--pid", 1, "--group", "alps=fifo", "--status", tmp_path / "s") as (_, told):
        said = whence("pub", "alps", "--contact", told["address"], "--data", tmp_path / "2", "--until", "stored",
                      "--json", stdin="one\ntwo\n")  # fmt: skip
        assert (json.loads(said)["published"], json.loads(said)["until"]) == (2, "stored")


def test_a_groups_name_on_the_command_line_may_have_an_equals_sign(tmp_path: Path) -> None:
    with running("--pid", 1, "--group", "tenant=alps=fifo", "--status", tmp_path / "s") as (_, told):
        assert told["groups"] == ["tenant=alps"]


@pytest.mark.parametrize("level", ["causal", "total", "optimistic"])
def test_founders_begin_a_group_from_shells(level: str, tmp_path: Path) -> None:
    """A node, a listener and a publisher that comes back."""
    port = free_port()
    common = ("--founders", "0,1,2", *(QUICK_TICKETS if level == "optimistic" else ()))

    def member(pid: int) -> tuple[object, ...]:
        return ("alps", "--pid", pid, "--level", level, "--data", tmp_path / str(pid), *common, "--contact",
                f"127.0.0.1:{port}")  # fmt: skip

    node = ("node", "--pid", 0, "--listen", f"127.0.0.1:{port}", "--group", f"alps={level}", "--data", tmp_path / "0")
    started = subprocess.Popen(
        [*WHENCE, *map(str, node), *common, "--status", str(tmp_path / "s")], stderr=subprocess.PIPE, text=True
    )
    try:
        assert started.stderr is not None
        assert "group 'alps' waits for its founders 1, 2" in started.stderr.readline()
        listener = subprocess.Popen(
            [*WHENCE, "sub", *map(str, member(1)), "--count", "4"], stdout=subprocess.PIPE, text=True
        )
        for lines in ("one\ntwo\n", "three\nfour\n"):
            said = json.loads(whence("pub", *member(2), "--json", stdin=lines))
            assert (said["published"], said["until"]) == (2, "settled")
        assert listener.communicate(timeout=DEADLINE_S)[0].split() == ["one", "two", "three", "four"]
        assert listener.returncode == 0
    finally:
        started.send_signal(signal.SIGTERM)
        errors = started.communicate(timeout=DEADLINE_S)[1]
        assert started.returncode == 0, errors
    assert "process 0 is up" in errors


def test_a_cluster_that_was_stopped_whole_opens_by_itself(tmp_path: Path) -> None:
    """X6: its nodes have data directories, and no operator has to say anything."""
    port = free_port()
    common = ("--founders", "0,1,2", *QUICK_TICKETS)

    def node(pid: int) -> list[str]:
        contact = () if pid == 0 else ("--contact", f"127.0.0.1:{port}")
        said = ("node", "--pid", pid, "--listen", f"127.0.0.1:{port if pid == 0 else 0}", "--group", "alps=optimistic",
                "--data", tmp_path / str(pid), "--status", tmp_path / f"s{pid}", *contact, *common)  # fmt: skip
        return [*WHENCE, *map(str, said)]

    for _ in range(2):
        started = [subprocess.Popen(node(pid), stderr=subprocess.PIPE, text=True) for pid in (0, 1, 2)]
        try:
            assert started[0].stderr is not None
            assert started[0].stderr.readline(), "it listens"
            said = whence("pub", "alps", "--pid", 9, "--contact", f"127.0.0.1:{port}", "--level", "optimistic",
                          "--data", tmp_path / "9", "--json", *common, stdin="line\n")  # fmt: skip
            assert json.loads(said)["published"] == 1
        finally:
            for process in started:
                process.send_signal(signal.SIGTERM)
            errors = [process.communicate(timeout=DEADLINE_S)[1] for process in started]
        assert [process.returncode for process in started] == [0, 0, 0], errors


def test_founders_may_be_started_in_any_order(tmp_path: Path) -> None:
    """Each knows the address of the other, and the first finds nobody there for longer than a call may take."""
    ports = [free_port(), free_port()]

    def founder(pid: int) -> list[str]:
        said = ("node", "--pid", pid, "--listen", f"127.0.0.1:{ports[pid]}", "--contact", f"127.0.0.1:{ports[1 - pid]}",
                "--group", "alps=causal", "--founders", "0,1", "--data", tmp_path / str(pid),
                "--status", tmp_path / f"s{pid}", "--json")  # fmt: skip
        return [*WHENCE, *map(str, said)]

    first = subprocess.Popen(founder(0), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            first.wait(7)
        second = subprocess.Popen(founder(1), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            for started in (first, second):
                assert started.stdout is not None
                assert json.loads(started.stdout.readline())["groups"] == ["alps"]
        finally:
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=DEADLINE_S)
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=DEADLINE_S)
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_node_that_waits_for_founders_stops_when_told(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text(
        f'pid = 0\nstatus = "{tmp_path}/s"\n'
        '[groups]\nalps = "fifo"\nandes = { level = "causal", founders = [0, 7], settings = { window = 32 } }\n'
    )
    started = subprocess.Popen([*WHENCE, "node", "--config", str(config)], stderr=subprocess.PIPE, text=True)
    try:
        assert started.stderr is not None
        assert "group 'andes' waits for its founders 7" in started.stderr.readline()
        seen = json.loads(whence("top", "--socket", tmp_path / "s", "--json"))
        assert {group["name"] for group in seen["groups"]} == {"alps", "andes"}
    finally:
        started.send_signal(signal.SIGTERM)
        errors = started.communicate(timeout=DEADLINE_S)[1]
    assert "Traceback" not in errors
    assert started.returncode == 0


def test_the_file_shown_in_the_documents_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "nodes.md").read_text(encoding="utf-8")
    found = tomllib.loads(page.partition("```toml\n")[2].partition("```")[0])
    assert set(found) <= set(NodeConfig.__struct_fields__)
    told = config_from(found, "the page")
    alps, board = group_options(told)
    assert (alps["name"], alps["level"], alps["founders"], "timeout_s" in alps) == ("alps", "fifo", [], False)
    founders = ["billing-1", "billing-2", "billing-3"]
    assert (told.name, board["name"], board["founders"], board["timeout_s"]) == (founders[0], "board", founders, None)
    LEVELS["causal"].settings_from(settings_of("causal", [1, 2, 3], board["settings"]))
    permits = Permits(told.permits)
    permits.name_of = {7: "billing-3"}.get  # type: ignore[assignment]
    assert permits.may(7, "board", "read")
    assert not permits.may(7, "board", "write")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('mood = "fine"', "says 'mood'; known are name, pid, listen"),
        ('groups = ["alps"]', "Expected `object`, got `array` - at `$.groups`"),
        ("groups = { alps = { founders = [0] } }", "missing required field `level`"),
        ('groups = { alps = { level = "fifo", mood = 1 } }', "unknown field `mood`"),
        ('groups = { alps = { level = "fifo", founders = "0,1" } }', "founders`"),
        ("founders = [1.5]", "$.founders"),
        ("permits = { alps = 3 }", "$.permits"),
        ("permits = { alps = { x = 1 } }", "$.permits"),
        ('contacts = "127.0.0.1:1"', "$.contacts"),
        ("listen = 5", "$.listen"),
        ("data = 5", "$.data"),
        ('insecure = "yes"', "$.insecure"),
    ],
)
def test_a_file_that_cannot_be_is_refused_and_the_place_named(line: str, sentence: str, tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text(f"pid = 1\n{line}\n")
    with pytest.raises(UsageError) as refusal:
        node(config)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("node",), "needs a name"),
        (("node", "--pid", 1, "--group", "alps"), "NAME=LEVEL"),
        (("node", "--pid", 99999), "or a pid, a whole number"),
        (("node", "--pid", 1, "--group", "alps=fifo", "--founders", "1;2"), "--founders takes names or pids"),
        (("node", "--pid", 1, "--group", "alps=optimistic"), "--founders 0,1,2"),
        (
            ("node", "--pid", 3, "--group", "alps=causal", "--founders", "1,2", "--set", "spread=tree"),
            "not one of the founders 1, 2",
        ),
        (("node", "--config", "nowhere.toml"), "cannot be read"),
        (("node", "--pid", 1, "--listen", "0.0.0.0:0"), "beyond loopback"),
        (("node", "--pid", 1, "--log", "loud"), "--log"),
        (("sub", "alps", "--contact", "nonsense"), "host:port"),
        (("pub", "alps", "--until", "noon"), "--until is accepted, stored, majority or settled"),
        (("pub", "alps", "--dead", "5"), "PID:INCARNATION"),
        (("top",), "which node"),
        (("top", "--socket", "nowhere.sock"), "no node answers"),
        (("certs", "member", 1, "--dir", "nowhere"), "holds no authority"),
        (("certs", "member", 99999), "nor a pid from 0 to 32767"),
        (("certs", "member", 7, "--days", "-5"), "greater than or equal to 1"),
        (("gather", "nowhere", "--group", "alps", "--out", "nowhere"), "nowhere does not exist"),
        (("gather", "nowhere", "--group", "alps", "--out", "nowhere", "--healed-s", 0), "--one-clock"),
        (("simulate", "--level", "optimistic", "--nodes", 3), "--nodes must be at least 4, not 3: tickets rest on"),
        (("node", "--pid", 1, "--group", "alps="), "NAME=LEVEL"),
        (("node", "--pid", 1, "--group", "g=causal", "--group", "g=total"), "'g' two levels, causal and total"),
        (
            ("node", "--pid", 1, "--listen", "::1:0"),
            "stands in brackets before its port, such as [::1]:4000, not '::1:0'",
        ),
        (("pub", "alps", "--contact", "127.0.0.1:1", "--certs", "nowhere"), "give --name, whose certificate it has"),
        (("pub", "alps", "--until", "stored"), "--until stored needs --data"),
        (("simulate", "--level", "strict"), "with whence-lab also its rivals cbcast"),
        (("simulate", "--level", "total", "--set", "delta=1000000000000"), "an hour is the limit"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence_with_exit_code_2(arguments: tuple[object, ...], sentence: str) -> None:
    said = whence(*arguments, code=2)
    assert sentence in said
    assert len(said.strip().splitlines()) == 1


def test_certificates_are_made_and_found_fit(tmp_path: Path) -> None:
    assert json.loads(whence("certs", "ca", "--dir", tmp_path, "--json"))["authority"].endswith("ca.pem")
    made = json.loads(whence("certs", "member", 1, 2, "billing-1", "--dir", tmp_path, "--json"))["members"]
    assert set(made) == {"1", "2", "billing-1"}
    checks = json.loads(whence("doctor", "--certs", tmp_path, "--data", tmp_path, "--json"))["checks"]
    assert checks["certificates"]["state"] == "fine"
    os.chmod(tmp_path / "member-1.key", 0o644)
    assert json.loads(whence("doctor", "--certs", tmp_path, "--json"))["checks"]["certificates"]["state"] == "worse"
    os.chmod(tmp_path / "member-1.key", 0o600)
    whence("doctor", "--certs", tmp_path)
    make_member(tmp_path, 3, -5)
    whence("doctor", "--certs", tmp_path, code=1)  # it has expired
    whence("doctor", "--certs", tmp_path / "nowhere", code=1)
    whence("doctor", "--listen", "192.0.2.1:1", code=1)


def test_the_doctor_prints_brackets_as_they_are() -> None:
    """As in pip install 'whence[spark]': they are no markup."""
    asked = [*WHENCE, "doctor", "--listen", "[spark]:0"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode, "[spark]:0" in done.stdout) == (1, True), done.stdout


def test_lines_that_are_not_json_are_refused(tmp_path: Path) -> None:
    with running("--pid", 1, "--group", "alps=fifo", "--status", tmp_path / "s") as (_, told):
        said = whence("pub", "alps", "--contact", told["address"], "--ndjson", stdin='{"a": 1}\nnope\n', code=2)
        assert "every line is JSON" in said
