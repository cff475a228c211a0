"""Beyond loopback nobody is believed without a certificate, and a certificate speaks for one pid only."""

import asyncio
import ssl
import stat
from pathlib import Path

import pytest

from tests.net.live import QUICK, fast, take, within
from whence.api.node import Node, join
from whence.errors import JoinError, UsageError
from whence.net.certs import make_authority, make_member
from whence.net.tls import PID_URI, certified_pid


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
    "forged pid": "its certificate names whence:pid:2, and it is 3", "expired": "has expired",
    "other authority": "CERTIFICATE_VERIFY_FAILED", "plain": "it does not greet",
}  # fmt: skip
"""What whoever is refused is told of it."""


@pytest.mark.parametrize("who", REASONS)
def test_a_peer_without_the_right_certificate_is_refused(safe: Path, who: str, tmp_path: Path) -> None:
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
            silent = [await asyncio.open_connection(*live.connections.endpoint) for _ in range(most + 40)]
            while live.counts["strangers_refused"] < 40:
                await asyncio.sleep(0.01)
            assert listener.handshakes == most
            assert (await silent[-1][0].read()) == b"", "one too many is closed at once"
            while listener.handshakes:
                await asyncio.sleep(0.05)
            assert live.counts["handshake_failed"] == most
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
