"""Downloads a tarball from its URL or a mirror, with retries; the file is complete or does not exist."""

import os
from pathlib import Path
from typing import NamedTuple

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.http_requests import Address, Validators, check_credentials, parse_address
from fleethook.engines.crds.download.retries import ATTEMPTS, AttemptError, Cancellation, Timing, choose_delay
from fleethook.engines.crds.download.transfer import Job, Partial, Progress, Received, transfer
from fleethook.engines.crds.tarball_source import Source, redact
from fleethook.tracing.spans import child_span

__all__ = ["Cancellation", "Downloaded", "Progress", "Timing", "Validators", "download"]


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


def download(  # noqa: PLR0913 - one parameter for each setting
    source: Source,
    into: Path,
    *,
    validators: Validators | None = None,
    progress: Progress | None = None,
    env_proxies: bool = True,
    allow_private: bool = True,
    allow_hosts: tuple[str, ...] = (),
    cancellation: Cancellation | None = None,
    timing: Timing | None = None,
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
        cancellation: Ends the download at once, from another thread.
        timing: Clock, sleep and jitter; by default the real ones, with a sleep that a cancellation ends.

    Raises:
        CRDsError: The download failed or was cancelled; the message has the error of every URL.
    """
    cancellation = cancellation or Cancellation()
    timing = timing or Timing(sleep=cancellation.wait)
    addresses = _parse_addresses(source)
    check_credentials(source)
    with Partial(into, max_bytes=source.max_bytes) as partial:
        job = Job(
            source=source,
            partial=partial,
            deadline=timing.clock() + source.seconds,
            timing=timing,
            cancellation=cancellation,
            progress=progress,
            environment=os.environ if env_proxies else {},
            allow_private=allow_private,
            allow_hosts=allow_hosts,
        )
        return _download_from_any(job, addresses, (validators or Validators()).usable())


def _parse_addresses(source: Source) -> list[Address]:
    found = [(url, parse_address(url)) for url in (source.url, *source.mirrors)]
    for url, address in found:
        if address is None:
            raise CRDsError(Exit.USAGE, f"{redact(url)}: must be an http or https URL with a host")
    return [address for _, address in found if address is not None]


def _download_from_any(job: Job, addresses: list[Address], validators: Validators) -> Downloaded:
    attempts, failures = 0, list[AttemptError]()
    for place, address in enumerate(addresses):
        if place:
            # An ETag belongs to one URL: a mirror may have other bytes with the same ETag.
            job.partial.restart()
            validators = Validators()
        for attempt in range(1, ATTEMPTS + 1):
            attempts += 1
            try:
                with child_span("download", "client", {"url.full": redact(address.url), "fleethook.attempt": attempt}):
                    received = _check_digest(job, transfer(job, address, validators))
            except AttemptError as failure:
                _check_cancelled(job)
                if not _wait_before_retry(job, failure, attempt):
                    failures.append(failure)
                    break
            else:
                return _finish(job.partial, received, attempts=attempts, own=not place)
    raise _combine_failures(failures, attempts)


def _check_cancelled(job: Job) -> None:
    if job.cancellation.cancelled:
        raise CRDsError(Exit.INTERRUPTED, f"{redact(job.source.url)}: cancelled", transient=True) from None


def _check_digest(job: Job, received: Received) -> Received:
    wanted, found = job.source.sha256.strip().lower(), job.partial.sha256
    if received.changed and wanted and wanted != found:
        raise AttemptError(Exit.INTEGRITY, f"{redact(received.url)}: its sha256 is {found}, but should be {wanted}")
    return received


def _wait_before_retry(job: Job, failure: AttemptError, attempt: int) -> bool:
    """Wait before another attempt; return False without waiting if there is none."""
    delay = choose_delay(failure, attempt, job.timing.random)
    if delay is None or job.timing.clock() + delay >= job.deadline:
        return False
    job.timing.sleep(delay)
    return True


def _finish(partial: Partial, received: Received, *, attempts: int, own: bool) -> Downloaded:
    validators = received.validators if own else Validators()
    final_url = redact(received.url)
    if not received.changed:
        return Downloaded(False, "", 0, validators, final_url, attempts)
    return Downloaded(True, partial.finish(), partial.size, validators, final_url, attempts)


def _combine_failures(failures: list[AttemptError], attempts: int) -> CRDsError:
    """Return one error for all URLs, with the exit code of the first one."""
    text = "; mirror ".join(str(failure) for failure in failures)
    if attempts > len(failures):
        text += f" (after {attempts} attempts)"
    return CRDsError(failures[0].exit, text, transient=any(failure.transient for failure in failures))
