"""Who may claim which pid: TLS 1.3 both ways, with the pid in the certificate.

Law: with TLS on, a process is believed to be `pid` only if its certificate, signed by our own CA, says so. Names and
addresses of hosts play no part: a member may move.
"""

import asyncio
import ssl
from pathlib import Path

from whence.errors import RemoteProtocolError, UsageError

PID_URI = "whence:pid:"
"""The subject alternative name (URI) that carries a certificate's pid."""


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

    def check(self, transport: asyncio.Transport, pid: int) -> None:
        """Compare the peer's certificate with the pid it claims. Raises RemoteProtocolError."""
        certified = certified_pid(transport.get_extra_info("peercert") or {})
        if certified != pid:
            raise RemoteProtocolError(f"the peer calls itself {pid}, and its certificate says {certified}")


def certified_pid(certificate: dict[str, object]) -> int | None:
    """Return the pid that a verified certificate names."""
    names = certificate.get("subjectAltName", ())
    assert isinstance(names, tuple)
    for kind, name in names:
        if kind == "URI" and name.startswith(PID_URI) and name[len(PID_URI) :].isdecimal():
            return int(name[len(PID_URI) :])
    return None


def _context(protocol: int, certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, key)
    return context
