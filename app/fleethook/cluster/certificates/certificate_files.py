"""Certificates in a directory: created on first start or provided by others.

An administrator or cert-manager may provide them.
"""

import asyncio
import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from fleethook.cluster.certificates.certificate_authority import (
    KeyPair,
    is_current,
    is_server_name,
    issue_serving,
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
    """Let only one process at a time issue certificates."""
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
