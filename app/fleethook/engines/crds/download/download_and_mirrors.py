"""Downloads a tarball from its URL or a mirror; its file is complete or does not exist."""

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self
from urllib.parse import urlsplit

from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from fleethook.engines.crds.archive.tarball_unpacking import SNIFFED_BYTES, describe_format
from fleethook.engines.crds.download.download_errors_and_retries import (
    RETRY,
    AttemptError,
    classify_error,
    make_retryable,
    make_status_error,
    make_timeout_error,
    read_retry_after,
    wait_before_retry,
)
from fleethook.engines.crds.download.requests_and_connections import (
    DownloadDeadline,
    DownloadRequest,
    Hop,
    RequestAddress,
    Validators,
    build_tls_context,
    check_credentials,
    check_host,
    find_redirect,
    follow_redirects,
    parse_address,
    refuse_private_literal,
    send_request,
)
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit, redact
from fleethook.outbound.private_addresses_and_proxies import choose_proxy
from fleethook.tracing.spans_and_otel_variables import child_span

Progress = Callable[[int, int | None], None]
"""Called with the number of received bytes, and the expected total or None."""
_CHUNK: Final = 65536


class TarballFile:
    """A new file for a body, with a limit and a digest. It is removed at the end of the block unless it is finished."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        """Create the file.

        Raises:
            CRDsError: The file exists already, or cannot be created.
        """
        self.size = 0
        self._path: Final = path
        self._max_bytes: Final = max_bytes
        self._digest = hashlib.sha256()
        self._finished = False
        with _translate_os_errors(path):
            self._file: Final = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b", buffering=0)

    def restart(self, total: int | None = None) -> None:
        """Empty the file for a body of ``total`` bytes, None if unknown; raises AttemptError if it is too large."""
        if total is not None and total > self._max_bytes:
            raise self._make_too_large_error(f"{total} bytes")
        with _translate_os_errors(self._path):
            self._file.seek(0)
            self._file.truncate()
        self._digest = hashlib.sha256()
        self.size = 0

    def add(self, data: bytes) -> None:
        """Append data; raises AttemptError if the file becomes too large, CRDsError if it cannot be written."""
        if self.size + len(data) > self._max_bytes:
            raise self._make_too_large_error("the body has more")
        with _translate_os_errors(self._path):
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        self._digest.update(data)
        self.size += len(data)

    def finish(self) -> str:
        """Sync the file to disk, keep it, and return its SHA-256."""
        with _translate_os_errors(self._path):
            os.fsync(self._file.fileno())
        self._finished = True
        return self.sha256

    @property
    def sha256(self) -> str:
        """The digest of the received bytes."""
        return self._digest.hexdigest()

    def _make_too_large_error(self, what: str) -> AttemptError:
        return AttemptError(Exit.LIMIT, f"larger than the limit of {self._max_bytes} bytes: {what}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        if not self._finished:
            self._path.unlink(missing_ok=True)


@contextmanager
def _translate_os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "I/O error"
        hint = ": make room or use another cache directory" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise CRDsError(Exit.DISK, f"cannot write {path}: {reason.lower()}{hint}", transient=True) from error


class Job(NamedTuple):
    """The state that all attempts of a download share."""

    source: TarballSource
    file: TarballFile
    deadline: DownloadDeadline
    progress: Progress | None
    environment: Mapping[str, str]
    allow_private: bool
    allow_hosts: tuple[str, ...]
    sleep: Callable[[float], object]


class TransferResult(NamedTuple):
    """The result of a successful attempt."""

    changed: bool
    validators: Validators
    url: str
    """URL after redirects, not redacted."""


def transfer(job: Job, address: RequestAddress, validators: Validators) -> TransferResult:
    """Send a request to an address, follow its redirects, and write the body to the file; raises AttemptError."""
    return follow_redirects(job.source, address, validators, lambda hop: _send(job, hop, validators))


def _send(job: Job, hop: Hop, validators: Validators) -> TransferResult | str:
    try:
        return _request(job, hop, validators)
    except AttemptError as error:
        failure = error
    # urllib3 lets some exceptions of http.client and ssl through.
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        failure = classify_error(error)
    if job.deadline.left <= 0:
        failure = make_timeout_error(job.source.seconds)
    text = f"{redact(hop.url)}: {failure}"
    raise AttemptError(failure.exit, text, transient=failure.transient, again=failure.again, after=failure.after)


def _request(job: Job, hop: Hop, validators: Validators) -> TransferResult | str:
    check_host(hop.url, job.allow_hosts)
    source = job.source
    proxy = choose_proxy(hop.url, job.environment, explicit=source.proxy_url, exceptions=source.no_proxy)
    if proxy and not job.allow_private:
        refuse_private_literal(urlsplit(hop.url).hostname or "")
    request = DownloadRequest(
        url=hop.url,
        headers=hop.headers,
        context=build_tls_context(source, identified=hop.trusted),
        proxy_url=proxy,
        proxy_context=build_tls_context(source, identified=False) if proxy else None,
        # The administrator sets the proxy of the environment, so its address may be private.
        allow_private=job.allow_private or bool(proxy and not source.proxy_url),
    )
    with send_request(request, job.deadline) as response:
        target = find_redirect(response.status, response.headers, hop.url)
        return target if target is not None else _receive(job, hop, response, validators)


def _receive(job: Job, hop: Hop, response: BaseHTTPResponse, known: Validators) -> TransferResult:
    headers, status = response.headers, response.status
    validators = Validators(headers.get("ETag", ""), headers.get("Last-Modified", "")).usable()
    if status == 304 and any(known):
        # A 304 may omit the validators of the unchanged body (RFC 9110, 15.4.5).
        merged = Validators(validators.etag or known.etag, validators.last_modified or known.last_modified)
        return TransferResult(changed=False, validators=merged, url=hop.url)
    if status != 200:
        raise make_status_error(status, read_retry_after(response))
    total = response.length_remaining
    job.file.restart(total)
    _copy_body(job, response, total)
    if job.deadline.left <= 0:
        # Shutting the connection down ends a body without Content-Length as if it were complete.
        raise make_timeout_error(job.source.seconds)
    if total not in (None, job.file.size):
        raise make_retryable("the body is cut off")
    return TransferResult(changed=True, validators=validators, url=hop.url)


def _copy_body(job: Job, response: BaseHTTPResponse, total: int | None) -> None:
    beginning = b""
    checked = False
    while data := response.read1(_CHUNK, decode_content=False):
        job.file.add(data)
        if not checked:
            beginning += data[:SNIFFED_BYTES]
            checked = len(beginning) >= SNIFFED_BYTES
            if checked:
                _check_beginning(beginning, response.headers)
        if job.progress is not None:
            job.progress(job.file.size, total)
    if not checked:
        _check_beginning(beginning, response.headers)


def _check_beginning(beginning: bytes, headers: Mapping[str, str]) -> None:
    """Check that a body is gzip, regardless of its Content-Encoding; raises AttemptError.

    An origin that sends ``Content-Encoding: gzip`` with a ``.tar.gz`` means the gzip of the file itself. The request
    allows no encoding, so other encodings are not decoded.
    """
    what = describe_format(beginning)
    if what and headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        what = "it has a Content-Encoding, although the request allows only identity"
    if what:
        raise AttemptError(Exit.ARCHIVE, f"the body is not gzip: {what}")


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
    with TarballFile(into, max_bytes=source.max_bytes) as file, DownloadDeadline(source.seconds) as deadline:
        job = Job(source, file, deadline, progress, environment, allow_private, allow_hosts, sleep)
        return _download_from_any(job, addresses, (validators or Validators()).usable())


def _parse_addresses(source: TarballSource) -> list[RequestAddress]:
    found = [(url, parse_address(url)) for url in (source.url, *source.mirrors)]
    for url, address in found:
        if address is None:
            raise CRDsError(Exit.USAGE, f"{redact(url)}: must be an http or https URL with a host")
    return [address for _, address in found if address is not None]


def _download_from_any(job: Job, addresses: list[RequestAddress], validators: Validators) -> Downloaded:
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
                following = wait_before_retry(failure, retry, left=job.deadline.left, sleep=job.sleep)
                if following is None:
                    failures.append(failure)
                    break
                retry = following
    raise _combine_failures(failures, attempts)


def _check_digest(job: Job, received: TransferResult) -> TransferResult:
    expected, found = job.source.sha256.strip().lower(), job.file.sha256
    if received.changed and expected and expected != found:
        raise AttemptError(Exit.INTEGRITY, f"{redact(received.url)}: its sha256 is {found}, but should be {expected}")
    return received


def _finish(file: TarballFile, received: TransferResult, *, attempts: int, own: bool) -> Downloaded:
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


class Downloader(Protocol):
    """The interface of `download`."""

    def __call__(
        self,
        source: TarballSource,
        into: Path,
        *,
        validators: Validators | None,
        progress: Progress | None,
        env_proxies: bool,
    ) -> Downloaded:
        """Download the tarball, unless the validators show that it has not changed."""
        ...
