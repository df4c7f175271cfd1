"""Downloads of a tarball: from its address or a mirror, with retries, complete or not at all."""

import os
from pathlib import Path
from typing import NamedTuple

from app.crds.download.cancellation import Cancellation
from app.crds.download.partial import Partial
from app.crds.download.redaction import redact
from app.crds.download.request_headers import Validators, check_credentials
from app.crds.download.response import Address, parse_address
from app.crds.download.retry import ATTEMPTS, AttemptError, Timing, choose_delay
from app.crds.download.transfer import Job, Progress, Received, transfer
from app.crds.failures import CRDsError, Exit
from app.crds.source import Source

__all__ = ["Cancellation", "Downloaded", "Progress", "Timing", "Validators", "download"]


class Downloaded(NamedTuple):
    """The result of a download."""

    changed: bool
    """False if the origin says that the known tarball is still current: there is no file then."""
    sha256: str
    size: int
    validators: Validators
    """To ask with the next time; empty if a mirror answered, since they are for one address only."""
    final_url: str
    """Where it came from after redirects, redacted."""
    attempts: int
    """How many there were, with those that failed, over all addresses; redirects are part of one."""


def download(  # noqa: PLR0913 - one parameter for each wish that a caller can have
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
    """Bring in a tarball's bytes, as they are.

    Args:
        source: From where, and how.
        into: A file that does not exist yet; it is made with mode 0600, and there is none unless all went well.
        validators: Of the known tarball from the source's own URL.
        progress: Called after every piece; an exception from it ends the download.
        env_proxies: Whether the environment's proxies count where the source has none.
        allow_private: Whether addresses may be private ones; if not, that is said of the source's proxy, too.
        allow_hosts: The only hosts to ask, redirects and mirrors included: names, or ``.suffix``. Empty: any.
        cancellation: Ends it from another thread, at once, whatever it is doing.
        timing: The clock and its like; real ones by default, with a sleep that a cancellation ends.

    Raises:
        CRDsError: Why there is no tarball, of every address that was asked; or that it was cancelled.
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
            raise CRDsError(Exit.USAGE, f"{redact(url)}: it must be an address of http or https with a host")
    return [address for _, address in found if address is not None]


def _download_from_any(job: Job, addresses: list[Address], validators: Validators) -> Downloaded:
    attempts, failures = 0, list[AttemptError]()
    for place, address in enumerate(addresses):
        if place:
            # An ETag is of one address: a mirror may have other bytes with the same one.
            job.partial.restart()
            validators = Validators()
        for attempt in range(1, ATTEMPTS + 1):
            attempts += 1
            try:
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
    """Wait before another attempt; return False without waiting if there is none to be made."""
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
    """Return one error for all addresses, of the kind of the first one."""
    text = "; mirror ".join(str(failure) for failure in failures)
    if attempts > len(failures):
        text += f" (after {attempts} attempts)"
    return CRDsError(failures[0].exit, text, transient=any(failure.transient for failure in failures))
