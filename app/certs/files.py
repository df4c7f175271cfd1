"""Certificates in a directory: made on first start, used as they are where somebody else puts them."""

import asyncio
import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from app.certs.authority import KeyPair, is_current, issue_serving, new_authority

_log: Final = logging.getLogger(__name__)


class CertificateError(Exception):
    """Certificate files that cannot be used; the text names the file and what to do."""


class CertificateFiles(NamedTuple):
    """Where the serving certificate and its authority are."""

    certificate: Path
    key: Path
    authority_certificate: Path
    created: bool


def ensure_certificates(directory: Path, *, names: Sequence[str], now: datetime) -> CertificateFiles:
    """Return a serving certificate in ``directory``, issuing what is missing.

    A directory with ``tls.crt`` and ``tls.key`` and no ``ca.key`` belongs to somebody else (a mounted Secret,
    cert-manager) and is never written to. Otherwise an authority is made once and the serving certificate whenever it
    is missing, past two thirds of its life, does not cover ``names`` or does not fit its key.

    Raises:
        CertificateError: Files are there and cannot be used.
        OSError: The directory cannot be written.
    """
    files = CertificateFiles(directory / "tls.crt", directory / "tls.key", directory / "ca.crt", created=False)
    authority_key = directory / "ca.key"
    if files.certificate.exists() and files.key.exists() and not authority_key.exists():
        return files
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _hold_lock(directory):
        authority = _load_or_create_authority(files.authority_certificate, authority_key, now=now)
        if _has_current_certificate(files, authority, names=names, now=now):
            return files
        serving = issue_serving(authority, names=names, now=now)
        write_file(files.key, serving.key_pem, mode=0o600)
        write_file(files.certificate, serving.certificate_pem, mode=0o644)
    return files._replace(created=True)


async def renew_certificates(directory: Path, *, names: Sequence[str], check_seconds: float) -> None:
    """Renew what `ensure_certificates` made when that is due, until cancelled."""
    while True:
        await asyncio.sleep(check_seconds)
        try:
            if ensure_certificates(directory, names=names, now=datetime.now(UTC)).created:
                _log.info("certificate renewed", extra={"fields": {"directory": str(directory)}})
        except (CertificateError, OSError) as error:
            _log.error("certificates were not checked: %s", error)


@contextlib.contextmanager
def _hold_lock(directory: Path) -> Iterator[None]:
    """Let one process at a time issue: worker processes start together."""
    import fcntl  # noqa: PLC0415 - only Unix has it, and only this function needs it

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
                f"{certificate} or {key} cannot be read ({error}); remove both to start anew"
            ) from None
        if not fits:
            raise CertificateError(f"{key} is not the key of {certificate}; remove both to start anew")
        if authority.certificate.not_valid_after_utc > now:
            return authority
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
    """Write a file so that it is there whole or not at all, and never readable by more than ``mode`` allows."""
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
