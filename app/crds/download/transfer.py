"""One attempt at an address: along its redirects to a body, and that into a file."""

from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from app.crds.download.cancellation import Cancellation, Cutoff
from app.crds.download.connection import Request, answer_to
from app.crds.download.dial import refuse_private_literal
from app.crds.download.errors import cut_off, failure_of
from app.crds.download.partial import Partial
from app.crds.download.proxies import proxy_of
from app.crds.download.redaction import redacted
from app.crds.download.request_headers import Validators, conditions_of, identity_of
from app.crds.download.response import (
    REDIRECTS,
    SNIFFED_BYTES,
    Address,
    address_of,
    check_beginning,
    continues,
    redirect_of,
    refusal_of,
    strong_etag,
)
from app.crds.download.retry import AttemptError, Timing
from app.crds.download.tls_context import context_of
from app.crds.failures import Exit
from app.crds.source import Source

Progress = Callable[[int, int | None], None]
"""Told of the bytes so far, and of how many there will be if that is known."""
_CHUNK: Final = 65536
_HEADERS: Final = {
    "User-Agent": "fleethook",
    "Accept": "*/*",
    # Without it Go's and other clients undo a Content-Encoding that is the file's own gzip.
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
    """How an attempt went well."""

    changed: bool
    validators: Validators
    url: str
    """Where the body came from in the end, with its secrets."""


class _Hop(NamedTuple):
    url: str
    headers: Mapping[str, str]
    trusted: bool
    """Whether the source's credentials are still for it."""


def transfer(job: Job, address: Address, validators: Validators) -> Received:
    """Send one request to an address, follow its redirects, and write the body to the job's file.

    Args:
        job: The download.
        address: The source's own, or one of its mirrors.
        validators: Of the known tarball from this address.

    Raises:
        AttemptError: Nothing whole came; the file may hold a beginning that the next attempt goes on with.
        CRDsError: The disk, or something about the source itself.
    """
    left = job.deadline - job.timing.clock()
    if left <= 0:
        raise cut_off(job.source.seconds)
    own_origin = address_of(job.source.url)
    own = own_origin is not None and address.origin == own_origin.origin
    headers = _HEADERS | conditions_of(validators, size=job.partial.size, etag=job.partial.etag)
    identity = identity_of(job.source, address, own=own)
    hop = _Hop(address.url, identity | headers, own)
    with Cutoff(left, job.cancellation) as cutoff:
        for _ in range(REDIRECTS + 1):
            answer = _hop(job, hop, cutoff)
            if isinstance(answer, Received):
                return answer
            hop = _next(hop, answer, headers)
    raise AttemptError(Exit.HTTP, f"{redacted(address.url)}: more than {REDIRECTS} redirects")


def _next(hop: _Hop, url: str, plain: Mapping[str, str]) -> _Hop:
    """Return the hop after a redirect; a redirect back to an origin does not restore its credentials."""
    before, after = address_of(hop.url), address_of(url)
    if before is not None and after is not None and before.origin == after.origin:
        return hop._replace(url=url)
    return _Hop(url, plain, trusted=False)


def _hop(job: Job, hop: _Hop, cutoff: Cutoff) -> Received | str:
    try:
        return _asked(job, hop, cutoff)
    except AttemptError as failure:
        raise _located(cut_off(job.source.seconds) if cutoff.cancelled else failure, hop.url) from None
    # urllib3 lets some exceptions of http.client and ssl through.
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        raise _located(cut_off(job.source.seconds) if cutoff.cancelled else failure_of(error), hop.url) from None


def _located(failure: AttemptError, url: str) -> AttemptError:
    text = f"{redacted(url)}: {failure}"
    return AttemptError(failure.exit, text, transient=failure.transient, again=failure.again, after=failure.after)


def _asked(job: Job, hop: _Hop, cutoff: Cutoff) -> Received | str:
    _check_host(hop.url, job.allow_hosts)
    source = job.source
    proxy = proxy_of(hop.url, source, job.environment)
    if proxy and not job.allow_private:
        refuse_private_literal(urlsplit(hop.url).hostname or "")
    request = Request(
        url=hop.url,
        headers=hop.headers,
        context=context_of(source, identified=hop.trusted),
        proxy_url=proxy,
        proxy_context=context_of(source, identified=False) if proxy else None,
        allow_private=job.allow_private,
        # A proxy of the environment is where the administrator wants requests to go, private or not.
        allow_private_proxy=job.allow_private or not source.proxy_url,
    )
    with answer_to(request, cutoff) as response:
        target = redirect_of(response.status, response.headers, hop.url)
        return target if target is not None else _received(job, hop, response, cutoff)


def _check_host(url: str, allowed: tuple[str, ...]) -> None:
    host = (urlsplit(url).hostname or "").rstrip(".")
    names = [name.lower() for name in allowed]
    if names and not any(host == name or (name.startswith(".") and host.endswith(name)) for name in names):
        raise AttemptError(Exit.NETWORK, "its host is none of those that are allowed")


def _received(job: Job, hop: _Hop, response: BaseHTTPResponse, cutoff: Cutoff) -> Received:
    headers, status = response.headers, response.status
    validators = Validators(headers.get("ETag", ""), headers.get("Last-Modified", "")).usable()
    asked_whether = "If-None-Match" in hop.headers or "If-Modified-Since" in hop.headers
    if status == 304 and asked_whether:
        known = Validators(hop.headers.get("If-None-Match", ""), hop.headers.get("If-Modified-Since", ""))
        merged = Validators(validators.etag or known.etag, validators.last_modified or known.last_modified)
        return Received(changed=False, validators=merged, url=hop.url)
    if "Range" in hop.headers and status in (206, 416):
        _continue(job.partial, response)
        validators = validators._replace(etag=job.partial.etag)
    elif status == 200:
        resumable = headers.get("Accept-Ranges", "bytes") != "none"
        job.partial.restart(strong_etag(headers) if resumable else "", response.length_remaining)
    else:
        raise refusal_of(status, headers, job.timing.now())
    _copy(job, response)
    if cutoff.cancelled:
        # A body that ends with its connection looks whole then.
        raise cut_off(job.source.seconds)
    return Received(changed=True, validators=validators, url=hop.url)


def _continue(partial: Partial, response: BaseHTTPResponse) -> None:
    rest = response.headers
    if response.status == 206 and continues(rest, size=partial.size, etag=partial.etag, total=partial.total):
        return
    partial.restart()
    raise AttemptError(Exit.NETWORK, "it cannot go on where it was cut off", transient=True, again=True)


def _copy(job: Job, response: BaseHTTPResponse) -> None:
    partial, headers = job.partial, response.headers
    checked = False
    while data := response.read1(_CHUNK, decode_content=False):
        partial.add(data)
        if not checked and partial.size >= SNIFFED_BYTES:
            check_beginning(partial.beginning(SNIFFED_BYTES), headers)
            checked = True
        if job.progress is not None:
            job.progress(partial.size, partial.total)
    if not checked:
        check_beginning(partial.beginning(SNIFFED_BYTES), headers)
    if partial.total not in (None, partial.size):
        raise AttemptError(Exit.NETWORK, "the body is cut off", transient=True, again=True)
