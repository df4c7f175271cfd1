"""Certificates in a directory: created on first start or provided by others, and the reasons why they are unusable.

An administrator or cert-manager may provide them.
"""

import asyncio
import contextlib
import logging
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleethook.cluster.certificates.certificate_authority import (
    KeyPair,
    is_current,
    is_server_name,
    issue_serving,
    list_names,
    new_authority,
)
from fleethook.model.formats.text import describe_os_error

_log: Final = logging.getLogger(__name__)


class CertificateError(Exception):
    """Certificate files are unusable; the text names the files and the remedy."""


class CertificateFiles(NamedTuple):
    """The paths of the serving certificate, its key and its CA certificate.

    ``created`` is true if `ensure_certificates` issued the serving certificate just now.
    """

    certificate: Path
    key: Path
    authority_certificate: Path
    created: bool


def ensure_certificates(directory: Path, *, names: Sequence[str], now: datetime) -> CertificateFiles:
    """Return the serving certificate in ``directory``, and issue a CA and a certificate if necessary.

    A directory with ``tls.crt`` and ``tls.key`` and without ``ca.key`` is provided from outside, for example as a
    mounted Secret of cert-manager. It is never written to. In other directories, the CA is created once. A new serving
    certificate is issued if it is missing or past two thirds of its lifetime, if it lacks one of ``names``, or if it
    does not match its key.

    Raises:
        CertificateError: The CA's files are unusable, its key is missing, or a certificate cannot have a name.
        OSError: The directory is not writable.
    """
    wrong = [name for name in names if not is_server_name(name)]
    if wrong:
        raise CertificateError(f"{wrong[0]!r} is neither an IP address nor a DNS name in ASCII")
    files = CertificateFiles(directory / "tls.crt", directory / "tls.key", directory / "ca.crt", created=False)
    authority_key = directory / "ca.key"
    if files.certificate.exists() and files.key.exists() and not authority_key.exists():
        return files
    is_provided = not authority_key.exists() and not files.authority_certificate.exists()
    if is_provided and files.certificate.exists() != files.key.exists():
        present, absent = (
            (files.certificate, files.key) if files.certificate.exists() else (files.key, files.certificate)
        )
        raise CertificateError(
            f"{present} has no {absent.name} beside it: add it, or remove {present.name} to create both"
        )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = "is not a directory" if directory.exists() else f"cannot be created: {describe_os_error(error)}"
        raise CertificateError(
            f"the directory of the certificate, {directory}, {reason}; give another --cert-dir"
        ) from None
    with _hold_lock(directory):
        authority = _load_or_create_authority(files.authority_certificate, authority_key, now=now)
        if _has_current_certificate(files, authority, names=names, now=now):
            return files
        serving = issue_serving(authority, names=names, now=now)
        write_file(files.key, serving.key_pem, mode=0o600)
        write_file(files.certificate, serving.certificate_pem, mode=0o644)
    return files._replace(created=True)


async def renew_certificates(directory: Path, *, names: Sequence[str], check_seconds: float) -> None:
    """Call `ensure_certificates` every ``check_seconds``, until cancelled."""
    while True:
        await asyncio.sleep(check_seconds)
        try:
            if ensure_certificates(directory, names=names, now=datetime.now(UTC)).created:
                _log.info("certificate renewed", extra={"fields": {"directory": str(directory)}})
        except (CertificateError, OSError) as error:
            _log.error("cannot check the certificates in %s: %s", directory, error)


@contextlib.contextmanager
def _hold_lock(directory: Path) -> Iterator[None]:
    """Let only one process at a time issue certificates: worker processes start together."""
    import fcntl  # noqa: PLC0415 - exists on Unix only

    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _load_or_create_authority(certificate: Path, key: Path, *, now: datetime) -> KeyPair:
    if certificate.exists() and key.exists():
        authority = KeyPair(certificate.read_bytes(), key.read_bytes())
        try:
            fits = authority.certificate.public_key() == authority.key.public_key()
        except ValueError as error:
            raise CertificateError(
                f"{certificate} or {key} cannot be read ({error}); remove both to create a new CA"
            ) from None
        if not fits:
            raise CertificateError(f"{key} is not the key of {certificate}; remove both to create a new CA")
        if authority.certificate.not_valid_after_utc > now:
            return authority
    elif certificate.exists():
        # A new CA would replace one that clients trust.
        raise CertificateError(f"{key} is missing, so {certificate} can sign nothing; remove it to create a new CA")
    authority = new_authority(now=now)
    write_file(key, authority.key_pem, mode=0o600)
    write_file(certificate, authority.certificate_pem, mode=0o644)
    return authority


def _has_current_certificate(
    files: CertificateFiles, authority: KeyPair, *, names: Sequence[str], now: datetime
) -> bool:
    if not (files.certificate.exists() and files.key.exists()):
        return False
    return is_current(KeyPair(files.certificate.read_bytes(), files.key.read_bytes()), authority, names=names, now=now)


def write_file(path: Path, data: bytes, *, mode: int) -> None:
    """Replace a file atomically; ``mode`` applies before the first byte is written."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
        reason = describe_os_error(error) if isinstance(error, OSError) else f"{file}: {error}"
        yield f"its key cannot be read: {reason}"
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
