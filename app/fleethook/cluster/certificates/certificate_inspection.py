"""Finds the reasons why clients would refuse the certificates of a directory, or why the server could not use them."""

import stat
from collections.abc import Iterator, Sequence
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleethook.cluster.certificates.certificate_authority import list_names

_FILES: Final = {"tls.crt": "tls.key", "ca.crt": "ca.key"}
"""The files of certificates, and of the key of the first one in each."""
_EXPOSING: Final = stat.S_IRWXG | stat.S_IRWXO


class InspectionError(ValueError):
    """A file has no certificates that can be read; the text names it."""


class Inspected(NamedTuple):
    """A certificate of a file, and its problems."""

    file: Path
    certificate: x509.Certificate
    problems: tuple[str, ...]


def inspect_directory(directory: Path, *, names: Sequence[str], now: datetime) -> list[Inspected]:
    """Return the certificates in ``tls.crt`` and ``ca.crt`` with their problems; empty without both files.

    Args:
        directory: The directory.
        names: DNS names and IP addresses that clients use.
        now: The time.

    Raises:
        InspectionError: A file has no certificate.
        OSError: A file cannot be read.
    """
    found = {name: _read_certificates(directory / name) for name in _FILES if (directory / name).exists()}
    authorities, serving = found.get("ca.crt", []), found.get("tls.crt", [])
    inspected = []
    for file, certificates in found.items():
        for position, certificate in enumerate(certificates):
            problems = list(_check_time(certificate, now))
            if position == 0:
                problems += _check_key(certificate, directory / _FILES[file], needed=file == "tls.crt")
            if file == "ca.crt":
                problems += _check_authority(certificate)
            elif position == 0:
                problems += _check_serving(certificate, serving[1:], authorities, names)
            inspected.append(Inspected(directory / file, certificate, tuple(problems)))
    return inspected


def _read_certificates(file: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(file.read_bytes())
    except ValueError as error:
        raise InspectionError(f"cannot read {file}: {error}") from None


def _check_time(certificate: x509.Certificate, now: datetime) -> Iterator[str]:
    if certificate.not_valid_before_utc > now:
        yield f"it is not valid before {certificate.not_valid_before_utc.isoformat()}"
    if certificate.not_valid_after_utc < now:
        yield f"it expired at {certificate.not_valid_after_utc.isoformat()}"


def _check_key(certificate: x509.Certificate, file: Path, *, needed: bool) -> Iterator[str]:
    """Yield the problems of the key of a certificate."""
    if not file.exists():
        if needed:
            yield f"its key is missing: {file}"
        return
    try:
        key: Any = load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError, OSError) as error:
        # The text of the library has no part of the key.
        yield f"its key cannot be read: {file}: {error}"
    else:
        if key.public_key() != certificate.public_key():
            yield f"{file} is the key of another certificate"
    # A mounted Secret has links to files that everybody in the container may read.
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & _EXPOSING and not file.is_symlink():
        yield f"other users may use its key: {file} has mode {mode:04o}, expected 0600"


def _check_authority(certificate: x509.Certificate) -> Iterator[str]:
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    if not is_authority:
        yield "it is no CA (basicConstraints), so clients refuse the certificates that it signs"


def _check_serving(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    authorities: Sequence[x509.Certificate],
    names: Sequence[str],
) -> Iterator[str]:
    """Yield the problems of a serving certificate, except those of its time and key."""
    present = list_names(certificate)
    if not present:
        yield "it has no subject alternative name, so clients refuse it"
    missing = [name for name in names if not _covers(present, name)]
    if present and missing:
        yield f"it lacks the names {', '.join(missing)}"
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        pass
    else:
        if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(usage):
            yield "its extended key usage is not that of a server (serverAuth)"
    if authorities and not _is_signed(certificate, intermediates, authorities):
        yield "no CA of ca.crt has signed it"


def _covers(present: frozenset[str], name: str) -> bool:
    """Return whether a name is among those of a certificate, or the wildcard of its domain is."""
    try:
        return str(ip_address(name)) in present
    except ValueError:
        lower = {one.lower() for one in present}
        return name.lower() in lower or f"*.{name.lower().partition('.')[2]}" in lower


def _is_signed(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    authorities: Sequence[x509.Certificate],
) -> bool:
    """Return whether a path of signatures leads from a certificate to an authority."""
    if certificate in authorities or any(_has_issued(one, certificate) for one in authorities):
        return True
    return any(
        _has_issued(one, certificate)
        and _is_signed(one, [other for other in intermediates if other != one], authorities)
        for one in intermediates
    )


def _has_issued(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
