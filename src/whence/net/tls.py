"""Who may claim which name or pid: TLS 1.3 both ways, with the name or the pid in the certificate.

Law: with TLS on, a process is believed to have a name only if its certificate, signed by our own CA, says that name.
One without a name is believed to be `pid` only if its certificate says that pid. The number of a process with a name is
not certified: while a number is known as another name's, it is refused (net/names.py). Names and addresses of hosts
play no part: a member may move.
"""

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from whence.core.links.process_names import is_name
from whence.errors import RemoteProtocolError, UsageError

PID_URI, NAME_URI = "whence:pid:", "whence:name:"
"""The subject alternative names (URI) that carry a certificate's pid, or the name of its process."""

SERVER = "whence"
"""What a caller calls the server in its handshake; certificates do not name hosts, and nobody compares it."""

HANDSHAKE_TURNS = 3
"""How often each end of a handshake has its turn, at most."""


class Safety:
    """The contexts of a node, made from its certificate, key and CA."""

    def __init__(self, certificate: Path, key: Path, authority: Path) -> None:
        """Read the files. Raises UsageError that names what is wrong with them."""
        try:
            self.server = _context(ssl.PROTOCOL_TLS_SERVER, certificate, key, authority)
            self.client = _context(ssl.PROTOCOL_TLS_CLIENT, certificate, key, authority)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise UsageError(
                f"the certificate {certificate}, its key or the authority {authority} cannot be used: {reason}"
            ) from None
        self._files = certificate, authority

    def doubts(self, pid: int, name: str = "") -> str:
        """Return what a peer may object to in this process's own certificate; empty where nothing is found.

        TLS ends a connection without giving the caller a reason, so a refused process looks here.
        """
        certificate = x509.load_pem_x509_certificate(self._files[0].read_bytes())
        now = datetime.now(UTC)
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            return (
                f"its certificate {self._files[0]} is valid from {certificate.not_valid_before_utc:%Y-%m-%d} to "
                f"{certificate.not_valid_after_utc:%Y-%m-%d}, and has expired or not begun"
            )
        if objection := self._objection():
            return f"its certificate {self._files[0]} is not signed by {self._files[1]} ({objection})"
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        named = names.get_values_for_type(x509.UniformResourceIdentifier)
        if identity_uri(pid, name) in named:
            return ""
        return f"its certificate names {', '.join(named)}, and it is {name or pid}"

    def _objection(self) -> str:
        """Return what TLS objects to where this process calls itself: any peer of its authority would, too."""
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            self.client.wrap_bio(to_client, to_server, server_hostname=SERVER),
            self.server.wrap_bio(to_server, to_client, server_side=True),
        ]
        for end in ends * HANDSHAKE_TURNS:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return str(getattr(error, "verify_message", "") or error.reason)
        return ""

    def why_refused(self, error: ssl.SSLError) -> str:
        """Say why TLS failed with a peer, and what to do."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not accepted here: {error.verify_message}. Give all processes valid certificates "
                f"of one authority, here {self._files[1]}"
            )
        if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
            return "it does not speak TLS: give it a certificate too, or start all processes without"
        return f"TLS failed: {(error.reason or 'no reason given').lower().replace('_', ' ')}"

    def check(self, transport: asyncio.Transport, pid: int, name: str = "") -> None:
        """Compare the peer's certificate with the name it claims, or with its pid where it has no name. Raises
        RemoteProtocolError."""
        certificate = transport.get_extra_info("peercert") or {}
        certified = certified_name(certificate) or certified_pid(certificate)
        if certified != (name or pid):
            raise RemoteProtocolError(
                f"the peer calls itself {name or pid}, and its certificate says {certified}: give it one of its own "
                f"(whence certs member {name or pid})"
            )


def identity_uri(pid: int, name: str) -> str:
    """Return what a certificate says of a process: its name, or its pid where it has none."""
    return f"{NAME_URI}{name}" if name else f"{PID_URI}{pid}"


def certified_name(certificate: dict[str, object]) -> str:
    """Return the name that a verified certificate names; empty if it names none."""
    return next((name for name in _uris(certificate, NAME_URI) if is_name(name)), "")


def certified_pid(certificate: dict[str, object]) -> int | None:
    """Return the pid that a verified certificate names."""
    return next((int(pid) for pid in _uris(certificate, PID_URI) if pid.isdecimal()), None)


def _uris(certificate: dict[str, object], prefix: str) -> list[str]:
    names = certificate.get("subjectAltName", ())
    assert isinstance(names, tuple)
    return [name[len(prefix) :] for kind, name in names if kind == "URI" and name.startswith(prefix)]


def _context(protocol: int, certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, key)
    return context
