"""Makes one attempt: sends a request, follows redirects, and writes the body to the file of the download.

The file has a limit and a digest, and is removed unless the download finishes.
"""

import base64
import errno
import hashlib
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from fleethook.cluster.proxies import choose_proxy
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import write_all
from fleethook.engines.crds.download.dial import refuse_private_literal
from fleethook.engines.crds.download.http_requests import (
    REDIRECTS,
    SNIFFED_BYTES,
    Address,
    Request,
    Validators,
    build_condition_headers,
    build_credential_headers,
    check_beginning,
    continues_partial,
    find_redirect,
    make_status_error,
    parse_address,
    read_strong_etag,
    send_request,
)
from fleethook.engines.crds.download.retries import (
    AttemptError,
    Cancellation,
    Deadline,
    Timing,
    classify_error,
    make_timeout_error,
)
from fleethook.engines.crds.tarball_source import Source, redact
from fleethook.outbound.endpoint import Credential, CredentialError
from fleethook.outbound.tls.trust import TrustError, create_context


class Partial:
    """The received part of a body.

    Attributes:
        size: Bytes written.
        etag: The strong ETag of their response, to request the rest; ``""`` if there is none.
        total: Expected size of the complete body; None if it is unknown.
    """

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        """Create the file.

        Raises:
            CRDsError: The file exists already, or cannot be created.
        """
        self.size = 0
        self.etag = ""
        self.total: int | None = None
        self._path = path
        self._most = max_bytes
        self._digest = hashlib.sha256()
        self._finished = False
        with _translate_os_errors(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def restart(self, etag: str = "", total: int | None = None) -> None:
        """Empty the file, for a body that starts with its first byte.

        Raises:
            AttemptError: The body will be too large.
        """
        if total is not None and total > self._most:
            raise self._make_too_large_error(f"{total} bytes")
        with _translate_os_errors(self._path):
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
        self._digest = hashlib.sha256()
        self.size, self.etag, self.total = 0, etag, total

    def add(self, data: bytes) -> None:
        """Append data.

        Raises:
            AttemptError: The file becomes too large.
            CRDsError: The data cannot be written.
        """
        if self.size + len(data) > self._most:
            raise self._make_too_large_error("the body has more")
        with _translate_os_errors(self._path):
            write_all(self._file, data)
        self._digest.update(data)
        self.size += len(data)

    def read_beginning(self, count: int) -> bytes:
        """Return the first bytes of the file."""
        return os.pread(self._file, count, 0)

    def finish(self) -> str:
        """Sync the file to disk, keep it, and return its SHA-256."""
        with _translate_os_errors(self._path):
            os.fsync(self._file)
        self._finished = True
        return self._digest.hexdigest()

    @property
    def sha256(self) -> str:
        """The digest of the received part."""
        return self._digest.hexdigest()

    def _make_too_large_error(self, what: str) -> AttemptError:
        return AttemptError(Exit.LIMIT, f"larger than the limit of {self._most} bytes: {what}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._file)
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


def build_tls_context(source: Source, *, identified: bool) -> ssl.SSLContext:
    """Return a TLS context that trusts the source's authorities, or the system's if the source has none.

    Args:
        source: The source with ``ca_pem`` and client certificate.
        identified: Present the client certificate. Only for the source's own origin.

    Raises:
        CRDsError: A certificate is missing or invalid, or does not match its key.
    """
    given = source.credentials
    shown = given.client_certificate_pem if identified else b""
    try:
        credential = Credential(certificate_pem=shown, key_pem=given.client_key_pem if shown else b"")
        return create_context(base64.b64encode(source.ca_pem).decode(), credential)
    except TrustError:
        raise CRDsError(Exit.USAGE, "the CA bundle has no PEM certificate") from None
    except CredentialError as error:
        raise CRDsError(Exit.USAGE, str(error)) from None


Progress = Callable[[int, int | None], None]
"""Called with the number of received bytes, and the expected total or None."""
_CHUNK: Final = 65536
_HEADERS: Final = {
    "User-Agent": "fleethook",
    "Accept": "*/*",
    # Some origins send a .tar.gz with `Content-Encoding: gzip`; decoding would remove the file's own gzip.
    "Accept-Encoding": "identity",
}


class Job(NamedTuple):
    """The state that all attempts of a download share."""

    source: Source
    partial: Partial
    deadline: float
    timing: Timing
    cancellation: Cancellation
    progress: Progress | None = None
    environment: Mapping[str, str] = {}
    allow_private: bool = True
    allow_hosts: tuple[str, ...] = ()


class Received(NamedTuple):
    """The result of a successful attempt."""

    changed: bool
    validators: Validators
    url: str
    """URL after redirects, not redacted."""


class _Hop(NamedTuple):
    url: str
    headers: Mapping[str, str]
    trusted: bool
    """Whether the source's credentials may be sent to it."""


def transfer(job: Job, address: Address, validators: Validators) -> Received:
    """Send one request to an address, follow its redirects, and write the body to the job's file.

    Args:
        job: The download.
        address: The address of the source, or of a mirror.
        validators: Validators of the known tarball from this address.

    Raises:
        AttemptError: The attempt failed. The file may have a part of the body, which the next attempt resumes.
        CRDsError: The file cannot be written, or the source is invalid.
    """
    left = job.deadline - job.timing.clock()
    if left <= 0:
        raise make_timeout_error(job.source.seconds)
    own_origin = parse_address(job.source.url)
    own = own_origin is not None and address.origin == own_origin.origin
    headers = _HEADERS | build_condition_headers(validators, size=job.partial.size, etag=job.partial.etag)
    identity = build_credential_headers(job.source, address, own=own)
    hop = _Hop(address.url, identity | headers, own)
    with Deadline(left, job.cancellation) as deadline:
        for _ in range(REDIRECTS + 1):
            answer = _send(job, hop, deadline)
            if isinstance(answer, Received):
                return answer
            hop = _follow_redirect(hop, answer, headers)
    raise AttemptError(Exit.HTTP, f"{redact(address.url)}: more than {REDIRECTS} redirects")


def _follow_redirect(hop: _Hop, url: str, plain: Mapping[str, str]) -> _Hop:
    """Return the request after a redirect; a redirect back to the first origin does not restore credentials."""
    before, after = parse_address(hop.url), parse_address(url)
    if before is not None and after is not None and before.origin == after.origin:
        return hop._replace(url=url)
    return _Hop(url, plain, trusted=False)


def _send(job: Job, hop: _Hop, deadline: Deadline) -> Received | str:
    try:
        return _request(job, hop, deadline)
    except AttemptError as failure:
        raise _add_url(make_timeout_error(job.source.seconds) if deadline.cancelled else failure, hop.url) from None
    # urllib3 lets some exceptions of http.client and ssl through.
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        raise _add_url(
            make_timeout_error(job.source.seconds) if deadline.cancelled else classify_error(error), hop.url
        ) from None


def _add_url(failure: AttemptError, url: str) -> AttemptError:
    text = f"{redact(url)}: {failure}"
    return AttemptError(failure.exit, text, transient=failure.transient, again=failure.again, after=failure.after)


def _request(job: Job, hop: _Hop, deadline: Deadline) -> Received | str:
    _check_host(hop.url, job.allow_hosts)
    source = job.source
    proxy = choose_proxy(hop.url, job.environment, explicit=source.proxy_url, exceptions=source.no_proxy)
    if proxy and not job.allow_private:
        refuse_private_literal(urlsplit(hop.url).hostname or "")
    request = Request(
        url=hop.url,
        headers=hop.headers,
        context=build_tls_context(source, identified=hop.trusted),
        proxy_url=proxy,
        proxy_context=build_tls_context(source, identified=False) if proxy else None,
        allow_private=job.allow_private,
        # The administrator sets the proxy of the environment, so its address may be private.
        allow_private_proxy=job.allow_private or not source.proxy_url,
    )
    with send_request(request, deadline) as response:
        target = find_redirect(response.status, response.headers, hop.url)
        return target if target is not None else _receive(job, hop, response, deadline)


def _check_host(url: str, allowed: tuple[str, ...]) -> None:
    host = (urlsplit(url).hostname or "").rstrip(".")
    names = [name.lower() for name in allowed]
    if names and not any(host == name or (name.startswith(".") and host.endswith(name)) for name in names):
        raise AttemptError(Exit.NETWORK, "its host is not one of the allowed hosts")


def _receive(job: Job, hop: _Hop, response: BaseHTTPResponse, deadline: Deadline) -> Received:
    headers, status = response.headers, response.status
    validators = Validators(headers.get("ETag", ""), headers.get("Last-Modified", "")).usable()
    asked_whether = "If-None-Match" in hop.headers or "If-Modified-Since" in hop.headers
    if status == 304 and asked_whether:
        known = Validators(hop.headers.get("If-None-Match", ""), hop.headers.get("If-Modified-Since", ""))
        merged = Validators(validators.etag or known.etag, validators.last_modified or known.last_modified)
        return Received(changed=False, validators=merged, url=hop.url)
    if "Range" in hop.headers and status in (206, 416):
        _check_range(job.partial, response)
        validators = validators._replace(etag=job.partial.etag)
    elif status == 200:
        resumable = headers.get("Accept-Ranges", "bytes") != "none"
        job.partial.restart(read_strong_etag(headers) if resumable else "", response.length_remaining)
    else:
        raise make_status_error(status, headers, job.timing.now())
    _copy_body(job, response)
    if deadline.cancelled:
        # Shutting the connection down ends a body without Content-Length as if it were complete.
        raise make_timeout_error(job.source.seconds)
    return Received(changed=True, validators=validators, url=hop.url)


def _check_range(partial: Partial, response: BaseHTTPResponse) -> None:
    rest = response.headers
    if response.status == 206 and continues_partial(rest, size=partial.size, etag=partial.etag, total=partial.total):
        return
    partial.restart()
    raise AttemptError(Exit.NETWORK, "the origin cannot resume the download", transient=True, again=True)


def _copy_body(job: Job, response: BaseHTTPResponse) -> None:
    partial, headers = job.partial, response.headers
    checked = False
    while data := response.read1(_CHUNK, decode_content=False):
        partial.add(data)
        if not checked and partial.size >= SNIFFED_BYTES:
            check_beginning(partial.read_beginning(SNIFFED_BYTES), headers)
            checked = True
        if job.progress is not None:
            job.progress(partial.size, partial.total)
    if not checked:
        check_beginning(partial.read_beginning(SNIFFED_BYTES), headers)
    if partial.total not in (None, partial.size):
        raise AttemptError(Exit.NETWORK, "the body is cut off", transient=True, again=True)
