"""A small certificate authority for one cluster, and certificates that bind a member's name or pid to its key.

Keys are on the curve P-256, in files that only their owner can read. A certificate names its process as the URI
`whence:name:<name>`, or `whence:pid:<n>` (net/tls.py reads it); host names play no part.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from whence.errors import UsageError
from whence.net.tls import identity_uri

AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca.key"
AUTHORITY_DAYS, MEMBER_DAYS = 3650, 365
SLACK = timedelta(hours=1)
"""Certificates begin a little in the past: clocks of members differ."""


def make_authority(directory: Path, cluster: str, days: int = AUTHORITY_DAYS) -> Path:
    """Make a new authority in a directory; return its certificate. Raises UsageError if there is one already."""
    if (directory / AUTHORITY_KEY).exists():
        raise UsageError(f"{directory / AUTHORITY_KEY} exists: an authority is made once; remove it to start over")
    directory.mkdir(parents=True, exist_ok=True)
    key, name = ec.generate_private_key(ec.SECP256R1()), _name(f"whence authority of {cluster}")
    builder = _dated(x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()), days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    _write(directory / AUTHORITY_KEY, _pem(key), 0o600)
    _write(directory / AUTHORITY, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return directory / AUTHORITY


def check_no_member(directory: Path, who: int | str) -> None:
    """Raise UsageError if there is a certificate or key of a name, or of a pid, beside the authority already."""
    if found := [path for path in _member_files(directory, who) if path.exists()]:
        raise UsageError(f"{found[0]} exists, and {who} may use it: --replace makes a new certificate and key instead")


def make_member(
    directory: Path, who: int | str, days: float = MEMBER_DAYS, *, replace: bool = False
) -> tuple[Path, Path]:
    """Make the certificate and key of a name, or of a pid, beside the authority; return both paths. Raises UsageError,
    also where there are such files already, unless they are to be replaced."""
    authority, signer = _load_authority(directory)
    if not replace:
        check_no_member(directory, who)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder().subject_name(_name(f"whence member {who}")).issuer_name(authority.subject)
    builder = _dated(builder.public_key(key.public_key()), days)
    uri = identity_uri(who, "") if isinstance(who, int) else identity_uri(0, who)
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = builder.add_extension(both, critical=False)
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = builder.add_extension(signed_by, critical=False).sign(signer, hashes.SHA256())
    paths = _member_files(directory, who)
    _write(paths[1], _pem(key), 0o600)
    _write(paths[0], certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return paths


def _member_files(directory: Path, who: int | str) -> tuple[Path, Path]:
    return directory / f"member-{who}.pem", directory / f"member-{who}.key"


def _load_authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((directory / AUTHORITY).read_bytes())
        key = serialization.load_pem_private_key((directory / AUTHORITY_KEY).read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise UsageError(f"{directory} holds no authority; make one with `whence certs ca`: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UsageError(f"{directory / AUTHORITY_KEY} is no key that whence certs made")
    return certificate, key


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _dated(builder: x509.CertificateBuilder, days: float) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    begin = min(now - SLACK, now + timedelta(days=days) - SLACK)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(begin).not_valid_after(now + timedelta(days=days))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file with this mode from the start: a private one is never readable by others. Raises UsageError."""
    try:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
            out.write(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
