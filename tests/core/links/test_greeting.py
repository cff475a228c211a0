"""A link is up when the peer has confirmed the number of our own hello; everything else is refused."""

from collections.abc import Callable

import pytest

from whence.core.links.greeting import HOST_CHARS_MAX, VERSION, Confirm, Greeting, Hello, Refused, Stage, Why, is_host
from whence.core.links.presence import Place, presence
from whence.core.ready import Item
from whence.errors import RemoteProtocolError
from whence.types import Process

ME, PEER = Process(1, 5), Process(2, 7)
MINE, THEIRS = b"m" * 16, b"t" * 16


def greeting(expected: int | None = None) -> Greeting:
    return Greeting(ME, "c", MINE, expected, "", 4000)


def hello(version: int = VERSION, cluster: str = "c", host: str = "host") -> Hello:
    return Hello(version, cluster, THEIRS, host, 4001)


def test_two_processes_that_greet_each_other_are_up() -> None:
    here, there = greeting(PEER.pid), Greeting(PEER, "c", THEIRS, None, "", 0)
    [confirm] = here.receive(PEER, there.hello())
    [other_confirm] = there.receive(ME, here.hello())
    assert here.receive(PEER, other_confirm) == []
    assert there.receive(ME, confirm) == []
    assert here.stage is there.stage is Stage.UP
    assert (here.peer, there.peer) == (PEER, ME)
    assert here.peer_hello is not None
    assert here.peer_hello.port == 0


REFUSED: list[tuple[str, Callable[[Greeting], object]]] = [
    ("version", lambda greeting: greeting.receive(PEER, hello(version=VERSION + 1))),
    ("cluster", lambda greeting: greeting.receive(PEER, hello(cluster="other"))),
    ("our own pid", lambda greeting: greeting.receive(Process(ME.pid, 9), hello())),
    ("another process 1 runs", lambda greeting: greeting.receive(Process(ME.pid, 4), hello())),
    ("with the same incarnation 5", lambda greeting: greeting.receive(PEER, Refused(Why.REUSED, 5))),
    ("a later version knows", lambda greeting: greeting.receive(PEER, Refused(99, 5))),
    ("no host name", lambda greeting: greeting.receive(PEER, hello(host="b\u00fccher.example"))),
    ("no host name", lambda greeting: greeting.receive(PEER, hello(host="a..b"))),
    ("no host name", lambda greeting: greeting.receive(PEER, hello(host="h" * 64))),
    ("no host name", lambda greeting: greeting.receive(PEER, hello(host="\x1b[2J"))),
    ("no incarnation", lambda greeting: greeting.receive(Process(2, 0), hello())),
    ("was called", lambda greeting: greeting.receive(Process(3, 1), hello())),
    ("begins with a Hello", lambda greeting: greeting.receive(PEER, Confirm(MINE, *ME))),
    ("begins with a Hello", lambda greeting: greeting.receive(PEER, presence("fifo", Place.MEMBER))),
]


@pytest.mark.parametrize(("reason", "say"), REFUSED)
def test_a_wrong_first_word_is_refused_for_its_reason(reason: str, say: Callable[[Greeting], object]) -> None:
    here = greeting(expected=PEER.pid)
    with pytest.raises(RemoteProtocolError, match=reason):
        say(here)
    assert here.stage is Stage.REFUSED


SECOND: list[tuple[str, Process, Item]] = [
    ("replay", PEER, Confirm(THEIRS, *ME)),
    ("misdirected", PEER, Confirm(MINE, ME.pid, ME.incarnation - 1)),
    ("misdirected", PEER, Confirm(MINE, 9, ME.incarnation)),
    ("changed its name", Process(3, 7), Confirm(MINE, *ME)),
    ("changed its name", Process(2, 8), Confirm(MINE, *ME)),
    ("out of place", PEER, hello()),
]


@pytest.mark.parametrize(("reason", "sender", "item"), SECOND)
def test_a_replayed_or_misdirected_confirmation_is_refused(reason: str, sender: Process, item: Item) -> None:
    here = greeting()
    here.receive(PEER, hello())
    with pytest.raises(RemoteProtocolError, match=reason):
        here.receive(sender, item)
    with pytest.raises(RemoteProtocolError):
        here.receive(PEER, Confirm(MINE, *ME))
    assert here.stage is Stage.REFUSED, "a greeting that failed once cannot be mended"


def test_of_two_processes_with_one_pid_the_later_is_told_and_the_earlier_tells_it() -> None:
    earlier, later = (
        Greeting(Process(1, 5), "c", MINE, None, "", 1, b"one"),
        Greeting(Process(1, 6), "c", THEIRS, None, "", 2, b"two"),
    )
    with pytest.raises(RemoteProtocolError):
        earlier.receive(later.me, later.hello())
    later.seen_host = "10.0.0.1"
    with pytest.raises(RemoteProtocolError, match=r"another process 1 runs at 10\.0\.0\.1:1, in incarnation 5"):
        later.receive(earlier.me, earlier.hello())
    assert (earlier.retort, earlier.refusal) == (Refused(Why.TAKEN, 5, "", "", 1), None)
    assert later.refusal == Refused(Why.TAKEN, 5, "", "10.0.0.1", 1)
    assert later.refusal.is_final


def test_a_process_that_calls_itself_is_not_another_one() -> None:
    me = Greeting(Process(1, 5), "c", MINE, None, "", 1, b"one")
    with pytest.raises(RemoteProtocolError, match="called itself"):
        me.receive(me.me, me.hello())
    assert (me.retort, me.refusal) == (None, None)


@pytest.mark.parametrize(
    "name",
    [
        "localhost",
        "127.0.0.1",
        "a.b-c.example",
        "a_b",
        "xn--bcher-kva.example.",
        "::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
    ],
)
def test_names_and_addresses_of_hosts_are_taken(name: str) -> None:
    assert is_host(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "a..b", ".a", "a b", "a\n", "b\u00fccher", "\u0661.1.1.1", "a:b", "[::1]", "h" * 64, "a." * 127 + "a"],
)
def test_what_no_resolver_should_see_is_no_host_name(name: str) -> None:
    assert not is_host(name)
    assert len("a." * 127) > HOST_CHARS_MAX


def test_a_process_that_calls_itself_notices_it() -> None:
    one, other = (Greeting(ME, "c", nonce, None, "", 4000, b"instance") for nonce in (MINE, THEIRS))
    with pytest.raises(RemoteProtocolError, match="called itself"):
        one.receive(ME, other.hello())
    assert one.is_own
    twin = Greeting(Process(ME.pid, 4), "c", THEIRS, None, "", 4000, b"another")
    with pytest.raises(RemoteProtocolError, match="our own pid"):
        twin.receive(ME, one.hello())
    assert not twin.is_own


def named(process: Process, name: str, port: int, *, fixed: bool = False) -> Greeting:
    return Greeting(process, "c", bytes([port]) * 16, None, "", port, bytes([port]), name, fixed=fixed)


def meet(one: Greeting, two: Greeting) -> None:
    """Let two greetings hear each other's hello; both end where they have the same name or number."""
    for here, there in ((one, two), (two, one)):
        here.seen_host = "10.0.0.9"
        with pytest.raises(RemoteProtocolError):
            here.receive(there.me, there.hello())


def test_of_two_processes_with_one_name_the_later_is_told_where_the_earlier_runs_whatever_their_numbers() -> None:
    for number in (17, 18):
        earlier, later = named(Process(17, 5), "billing", 1), named(Process(number, 6), "billing", 2)
        meet(earlier, later)
        assert later.refusal == Refused(Why.TAKEN, 5, "billing", "10.0.0.9", 1)
        assert "another process named billing runs at 10.0.0.9:1" in later.refusal.sentence(later.me, "billing", "x")
        assert earlier.refusal is None


def test_of_two_names_with_one_number_the_one_that_can_take_another_does_so() -> None:
    free, fixed = named(Process(17, 5), "a", 1), named(Process(17, 6), "b", 2, fixed=True)
    meet(free, fixed)
    assert free.refusal == Refused(Why.NUMBER_USED, 6, "b", "10.0.0.9", 2)
    assert fixed.retort == Refused(Why.NUMBER_USED, 6, "b", "", 2)


@pytest.mark.parametrize("both_fixed", [False, True])
def test_of_two_names_with_one_number_that_are_alike_the_later_yields(both_fixed: bool) -> None:
    earlier, later = (
        named(Process(17, 5), "a", 1, fixed=both_fixed),
        named(Process(17, 6), "b", 2, fixed=both_fixed),
    )
    meet(earlier, later)
    assert earlier.refusal is None
    assert later.refusal is not None
    assert later.refusal.why == Why.NUMBER_USED


def test_of_two_that_started_at_the_same_moment_only_one_yields() -> None:
    for names in (("a", "a"), ("a", "b")):
        one, two = named(Process(17, 5), names[0], 1), named(Process(17, 5), names[1], 2)
        meet(one, two)
        assert (one.refusal is None) != (two.refusal is None)


@pytest.mark.parametrize("name", ["3", "a b", "-a", "a.", "\x1b[2J", "b\u00fccher"])
def test_what_is_no_name_of_a_process_is_refused(name: str) -> None:
    here = greeting()
    with pytest.raises(RemoteProtocolError, match="no name of a process"):
        here.receive(PEER, Hello(VERSION, "c", THEIRS, "host", 4001, b"", name))
    assert not Refused(Why.TAKEN, 5, name).is_valid()
