"""Beyond loopback nobody is believed without a certificate, and a certificate speaks for one pid only."""

import asyncio
import logging
import re
import ssl
import stat
from pathlib import Path

import pytest

from tests.net.live import QUICK, fast, take, within
from whence.api.node import Node, join
from whence.cli.app import run as command
from whence.errors import JoinError, UsageError
from whence.net.certs import make_authority, make_member
from whence.net.tls import PID_URI, Safety, certified_pid


@pytest.fixture(scope="module")
def safe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certs")
    make_authority(directory, "test")
    for pid in (1, 2, 3):
        make_member(directory, pid)
    make_member(directory, 4, days=-1)
    return directory


def node_of(safe: Path, pid: int, as_pid: int | None = None, authority: Path | None = None, **options: object) -> Node:
    name = safe / f"member-{as_pid or pid}"
    return join(
        pid, certificate=name.with_suffix(".pem"), key=name.with_suffix(".key"),
        authority=authority or safe / "ca.pem", settings=fast(), **options,  # type: ignore[arg-type]
    )  # fmt: skip


def test_members_with_certificates_talk_over_tls_1_3(safe: Path) -> None:
    async def main() -> None:
        async with node_of(safe, 1) as one, node_of(safe, 2, contacts=[one.address]) as two:
            groups = await asyncio.gather(one.open("alps", settings=QUICK), two.open("alps", settings=QUICK))
            for group in groups:
                await group.gathered(2)
            await groups[0].publish(b"secret")
            assert [d.payload for d in await take(groups[1], 1)] == [b"secret"]
            [link] = [peer.link for peer in one.live.peers.by_pid.values() if peer.link is not None]
            assert link.transport is not None
            assert link.transport.get_extra_info("ssl_object").version() == "TLSv1.3"

    within(main())


REASONS = {
    "forged pid": "it does not greet", "expired": "it does not greet",
    "other authority": "its certificate is not accepted here: .* certificates of one authority",
    "plain": "it may demand a certificate, and this process has none",
}  # fmt: skip
"""What whoever is refused is told of it."""

LOGGED = {
    "forged pid": "a connection from 127.0.0.1:.* the peer calls itself 3, and its certificate says 2: give it one of",
    "expired": "from 127.0.0.1:.* failed: its certificate is not accepted here: certificate has expired.*/ca.pem",
    "other authority": "caller from 127.0.0.1:.* failed: the caller ended it .* may not accept the certificate",
    "plain": "caller from 127.0.0.1:.* failed: it does not speak TLS: give it a certificate",
}
"""What the log of the peer that refused says."""


@pytest.mark.parametrize("who", REASONS)
def test_a_peer_without_the_right_certificate_is_refused(
    safe: Path, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "whence.net")
    monkeypatch.setattr(Safety, "doubts", lambda *_: "")  # a stranger does not refuse to start

    async def main() -> None:
        async with node_of(safe, 1) as one:
            contacts = [one.address]
            if who == "forged pid":
                stranger = node_of(safe, 3, as_pid=2, contacts=contacts)
            elif who == "expired":
                stranger = node_of(safe, 4, contacts=contacts)
            elif who == "plain":
                stranger = join(2, contacts=contacts, settings=fast())
            else:
                make_authority(tmp_path, "other")
                make_member(tmp_path, 2)
                stranger = node_of(tmp_path, 2, authority=tmp_path / "ca.pem", contacts=contacts)
            with pytest.raises(JoinError, match="no contact lets this process in: .*" + REASONS[who]):
                async with stranger:
                    pass
            assert all(peer.link is None for peer in one.live.peers.by_pid.values())

    within(main())
    assert re.search(LOGGED[who], caplog.text)


def test_who_has_no_certificate_is_not_called_by_one_that_has(safe: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "whence.net")

    async def main() -> None:
        async with join(1, settings=fast()) as plain:
            with pytest.raises(JoinError, match="it does not speak TLS: give it a certificate too"):
                async with node_of(safe, 2, contacts=[plain.address]):
                    pass

    within(main())
    assert "the peer speaks TLS, and this process has no certificate" in caplog.text


@pytest.mark.parametrize("which", ["expired", "other authority", "other name"])
def test_a_certificate_that_no_peer_would_accept_is_refused_at_the_start(
    safe: Path, which: str, tmp_path: Path
) -> None:
    make_authority(tmp_path, "other")
    made = {
        "expired": lambda: node_of(safe, 4),
        "other authority": lambda: node_of(safe, 1, authority=tmp_path / "ca.pem"),
        "other name": lambda: node_of(safe, 3, as_pid=2),
    }[which]()
    words = {
        "expired": "member-4.pem is valid from .* and has expired",
        "other authority": "member-1.pem is not signed by .*ca.pem",
        "other name": "its certificate names whence:pid:2, and it is 3",
    }[which]

    async def main() -> None:
        with pytest.raises(UsageError, match=f"no peer would accept this process: .*{words}.*whence certs member"):
            async with made:
                pass

    within(main())


def test_a_certificate_is_replaced_only_if_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_authority(tmp_path, "test")
    _, key = make_member(tmp_path, "billing-1")
    before = key.read_bytes()
    made = ["certs", "member", "billing-2", "billing-1", "--dir", str(tmp_path)]
    assert command(made) == 2
    assert "member-billing-1.pem exists" in capsys.readouterr().err
    assert key.read_bytes() == before
    assert not (tmp_path / "member-billing-2.pem").exists(), "all or none"
    assert command([*made, "--replace"]) == 0
    assert key.read_bytes() != before


def test_tls_1_2_is_refused(safe: Path) -> None:
    async def main() -> None:
        async with node_of(safe, 1) as one:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.load_verify_locations(safe / "ca.pem")
            context.load_cert_chain(safe / "member-2.pem", safe / "member-2.key")
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            host, _, port = one.address.rpartition(":")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(host, int(port), ssl=context)

    within(main())


def test_beyond_loopback_certificates_are_demanded() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="beyond loopback"):
            async with join(1, listen="0.0.0.0:0"):
                pass
        with pytest.raises(UsageError, match="beyond loopback"):
            async with join(1, contacts=["192.0.2.1:4000"]):
                pass
        async with join(1, listen="0.0.0.0:0", insecure=True) as node:
            assert node.address.startswith("0.0.0.0:")

    within(main())


def test_keys_are_for_their_owner_only_and_authorities_are_made_once(safe: Path) -> None:
    for path in safe.glob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="exists"):
        make_authority(safe, "again")


def test_files_that_are_no_certificates_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no authority"):
        make_member(tmp_path, 1)
    (tmp_path / "x").write_text("no certificate")
    with pytest.raises(UsageError, match="cannot be used"):
        join(1, certificate=tmp_path / "x", key=tmp_path / "x", authority=tmp_path / "x")
    with pytest.raises(UsageError, match="belong together"):
        join(1, certificate=tmp_path / "x")


def test_a_certificate_names_at_most_one_pid() -> None:
    assert certified_pid({"subjectAltName": (("DNS", "x"), ("URI", f"{PID_URI}7"))}) == 7
    assert certified_pid({"subjectAltName": (("URI", f"{PID_URI}x"),)}) is None
    assert certified_pid({}) is None


def test_handshakes_that_nobody_finishes_are_counted_as_strangers_and_end(safe: Path) -> None:
    """Encryption costs some 60 kB each: without a bound a few thousand silent connections fill the memory."""

    async def main() -> None:
        async with node_of(safe, 1) as one:
            live, most = one.live, one.live.settings.strangers_max
            listener = live.connections._listener
            assert listener is not None
            silent, at_once = [], 0
            while live.counts["strangers_refused"] < 40:  # some may end meanwhile where the machine is slow
                silent.append(await asyncio.open_connection(*live.connections.endpoint))
                await asyncio.sleep(0)
                at_once = max(at_once, listener.handshakes)
            assert at_once == most
            for reader, _ in silent:
                assert (await reader.read()) == b"", "one too many is closed at once, the others at the deadline"
            while listener.handshakes:
                await asyncio.sleep(0.05)
            assert live.counts["handshake_failed"] >= most
            async with node_of(safe, 2, contacts=[one.address]):
                assert live.peers.connected_pids() == [2]
            for _, writer in silent:
                writer.close()

    within(main())


def test_a_node_is_closed_in_the_middle_of_a_handshake(safe: Path) -> None:
    async def main() -> None:
        async with node_of(safe, 1) as one:
            reader, writer = await asyncio.open_connection(*one.live.connections.endpoint)
            assert one.live.connections._listener is not None
            while not one.live.connections._listener.handshakes:
                await asyncio.sleep(0.01)
        assert await reader.read() == b""
        writer.close()

    within(main())
