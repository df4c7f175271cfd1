"""Downloads a tarball from its URL or a mirror, with retries; the file is complete or does not exist."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.util import Retry

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.download_errors import AttemptError
from fleethook.engines.crds.download.http_requests import (
    Address,
    Deadline,
    Validators,
    check_credentials,
    parse_address,
)
from fleethook.engines.crds.download.transfer import RETRY, Job, Progress, Received, TarballFile, transfer
from fleethook.engines.crds.tarball_source import TarballSource, redact
from fleethook.tracing.spans import child_span

__all__ = ["Downloaded", "Progress", "Validators", "download"]


class Downloaded(NamedTuple):
    """The result of a download."""

    changed: bool
    """False if the origin confirms the known tarball as current; then there is no file."""
    sha256: str
    size: int
    validators: Validators
    """Validators for the next conditional request; empty if a mirror answered, because they belong to one URL."""
    final_url: str
    """URL after redirects, redacted."""
    attempts: int
    """Number of attempts over all URLs, failed ones included; an attempt includes its redirects."""


def download(
    source: TarballSource,
    into: Path,
    *,
    validators: Validators | None = None,
    progress: Progress | None = None,
    env_proxies: bool = True,
    allow_private: bool = True,
    allow_hosts: tuple[str, ...] = (),
    sleep: Callable[[float], object] = time.sleep,
) -> Downloaded:
    """Download the bytes of a tarball without decoding them.

    Args:
        source: The origin and the settings of the download.
        into: Path of a new file. It gets mode 0600, and is removed unless the download succeeds.
        validators: Validators of the known tarball from the source's own URL.
        progress: Called after every chunk; an exception from it ends the download.
        env_proxies: Use the proxies of the environment if the source has none.
        allow_private: Allow private addresses, also of the source's proxy.
        allow_hosts: The only allowed hosts, redirects and mirrors included: names, or ``.suffix``. Empty allows any.
        sleep: Waits between attempts.

    Raises:
        CRDsError: The download failed; the message has the error of every URL.
    """
    addresses = _parse_addresses(source)
    check_credentials(source)
    environment = os.environ if env_proxies else {}
    with TarballFile(into, max_bytes=source.max_bytes) as file, Deadline(source.seconds) as deadline:
        job = Job(source, file, deadline, progress, environment, allow_private, allow_hosts, sleep)
        return _download_from_any(job, addresses, (validators or Validators()).usable())


def _parse_addresses(source: TarballSource) -> list[Address]:
    found = [(url, parse_address(url)) for url in (source.url, *source.mirrors)]
    for url, address in found:
        if address is None:
            raise CRDsError(Exit.USAGE, f"{redact(url)}: must be an http or https URL with a host")
    return [address for _, address in found if address is not None]


def _download_from_any(job: Job, addresses: list[Address], validators: Validators) -> Downloaded:
    attempts, failures = 0, list[AttemptError]()
    for place, address in enumerate(addresses):
        # An ETag belongs to one URL: a mirror may have other bytes with the same ETag.
        known, retry = Validators() if place else validators, RETRY
        while True:
            attempts += 1
            try:
                with child_span("download", "client", {"url.full": redact(address.url), "fleethook.attempt": attempts}):
                    received = _check_digest(job, transfer(job, address, known))
                return _finish(job.file, received, attempts=attempts, own=not place)
            except AttemptError as failure:
                following = _wait_before_retry(job, failure, retry)
                if following is None:
                    failures.append(failure)
                    break
                retry = following
    raise _combine_failures(failures, attempts)


def _check_digest(job: Job, received: Received) -> Received:
    wanted, found = job.source.sha256.strip().lower(), job.file.sha256
    if received.changed and wanted and wanted != found:
        raise AttemptError(Exit.INTEGRITY, f"{redact(received.url)}: its sha256 is {found}, but should be {wanted}")
    return received


def _wait_before_retry(job: Job, failure: AttemptError, retry: Retry) -> Retry | None:
    """Wait before another attempt and return the rest of the retries; None, without waiting, to stop."""
    if not failure.again:
        return None
    try:
        rest = retry.increment("GET", error=HTTPError())
    except MaxRetryError:
        return None
    delay = rest.get_backoff_time() if failure.after is None else failure.after
    if delay >= job.deadline.left:
        return None
    job.sleep(delay)
    return rest


def _finish(file: TarballFile, received: Received, *, attempts: int, own: bool) -> Downloaded:
    validators = received.validators if own else Validators()
    final_url = redact(received.url)
    if not received.changed:
        return Downloaded(False, "", 0, validators, final_url, attempts)
    return Downloaded(True, file.finish(), file.size, validators, final_url, attempts)


def _combine_failures(failures: list[AttemptError], attempts: int) -> CRDsError:
    """Return one error for all URLs, with the exit code of the first one."""
    text = "; mirror ".join(str(failure) for failure in failures)
    if attempts > len(failures):
        text += f" (after {attempts} attempts)"
    return CRDsError(failures[0].exit, text, transient=any(failure.transient for failure in failures))
