"""Reads the state of a server for the overview: its ``/metrics`` in the background, and the Lease of its leader."""

import asyncio
import base64
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as Line

from fleethook.cluster.api_errors import NOT_FOUND, APIError, UnreachableError
from fleethook.console.review_rates import Increase, Sample, measure_increase
from fleethook.model.json import JSONObject, as_object
from fleethook.outbound.certificate_trust import TrustError, create_context
from fleethook.outbound.response_bodies import ResponseBodyError, read_body
from fleethook.work.threads_and_gc import Worker

REVIEWS: Final = "fleethook_reviews_total"
DURATIONS: Final = "fleethook_review_duration_seconds_bucket"
# A double counts up to this number without gaps; a sum of further ones could be infinite.
_MAX_VALUE: Final = 2.0**53
_PREFIXES: Final = (REVIEWS, DURATIONS)


class MetricsError(ValueError):
    """The text has no metrics of fleethook, or cannot be read; the message quotes none of it."""


def read_sample(text: str, *, time: float) -> Sample:
    """Return the counters of a server.

    Args:
        text: The metrics in the Prometheus text format 0.0.4.
        time: When they were read, in seconds since the epoch.

    Raises:
        MetricsError: The text cannot be used.
    """
    # The other metrics have many series, and the parser takes some 10 µs for each line.
    wanted = [line for line in text.split("\n") if line.startswith(_PREFIXES)]
    if not wanted:
        raise MetricsError("the answer has no metrics of fleethook: give the URL of a server's /metrics")
    try:
        lines = [line for family in text_string_to_metric_families("\n".join(wanted) + "\n") for line in family.samples]
        return _collect(lines, time)
    except (ValueError, KeyError, IndexError):
        raise MetricsError("the answer is not in the Prometheus text format") from None


def _collect(lines: Iterable[Line], time: float) -> Sample:
    reviews: dict[tuple[str, str, str], float] = {}
    buckets: dict[tuple[str, float], float] = {}
    for line in lines:
        labels = line.labels
        if not 0 <= line.value < _MAX_VALUE:  # a NaN, too
            continue
        if line.name == REVIEWS:
            review = labels["route"], labels["operation"], labels["outcome"]
            reviews[review] = reviews.get(review, 0.0) + line.value
        elif line.name == DURATIONS:
            bucket = labels["route"], float(labels["le"])
            buckets[bucket] = buckets.get(bucket, 0.0) + line.value
    return Sample(time, reviews, buckets)


INTERVAL_SECONDS: Final = 5.0
"""Time between two samples."""
MAX_INCREASES: Final = 4_320
"""Kept increases: six hours. One has about 30 numbers, so all of them take some 10 MB."""
MAX_BODY_BYTES: Final = 8 << 20
"""The largest answer. 1,000 logical clusters, the default limit of series, make 4 MB."""
TIMEOUT_SECONDS: Final = 10.0
"""Until the answer of a server is complete."""
_HEADERS: Final = {"Accept": "text/plain; version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "fleethook"}


class MetricsTarget(NamedTuple):
    """The server to sample.

    Attributes:
        url: Its URL with the scheme http or https.
        ca_file: PEM file of the authorities to trust, None for those of the system.
    """

    url: str
    ca_file: Path | None = None


class SamplerState(NamedTuple):
    """The samples of a server.

    Attributes:
        increases: The reviews between consecutive samples, oldest first.
        sampled_at: Seconds since the epoch of the last sample, None before the first.
        problem: Why the last attempt failed, ``""`` if it did not.
        reviews: Reviews that the server has answered since its start, by route, operation and outcome.
    """

    increases: Sequence[Increase] = ()
    sampled_at: float | None = None
    problem: str = ""
    reviews: Mapping[tuple[str, str, str], float] = {}


def check_target(url: str) -> str:
    """Return the reason why a server cannot be sampled, ``""`` if it can. No secret is part of the text."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it is no valid URL"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "it needs the form https://HOST:PORT/metrics"
    if (
        parts.username is not None or parts.query or parts.fragment
    ):  # a password comes after a username, if an empty one
        return "it must have no credentials, query or fragment"
    return ""


class MetricsSampler:
    """Samples one server."""

    def __init__(
        self,
        target: MetricsTarget,
        *,
        clock: Callable[[], float] = time.time,
        max_bytes: int = MAX_BODY_BYTES,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Store the arguments; `run` samples.

        Args:
            target: The server, for which `check_target` finds no reason.
            clock: Returns seconds since the epoch.
            max_bytes: The largest answer.
            timeout: Seconds until the answer is complete.
        """
        self._max_bytes: Final = max_bytes
        self._timeout: Final = timeout
        self.url: Final = target.url
        self._target: Final = target
        self._clock: Final = clock
        # A thread of its own: a slow parse must not delay the work of pages.
        self._worker: Final = Worker()
        self._increases: Final[deque[Increase]] = deque(maxlen=MAX_INCREASES)
        self._last: Sample | None = None
        self._problem = ""

    def find(self) -> SamplerState:
        """Return the samples."""
        last = self._last
        if last is None:
            return SamplerState(problem=self._problem)
        return SamplerState(list(self._increases), last.time, self._problem, last.reviews)

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await self.sample()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def sample(self) -> None:
        """Take one sample. A failure is kept as the problem, and the samples before it stay."""
        try:
            body = await self._fetch()
            sample = await self._worker.run("", _decode, body, self._clock())
        except TimeoutError:
            self._problem = f"no complete answer within {self._timeout:.0f} s"
            return
        except (MetricsError, ResponseBodyError, TrustError, aiohttp.ClientError, OSError) as error:
            self._problem = str(error) or type(error).__name__
            return
        before, self._last, self._problem = self._last, sample, ""
        if before is not None and (increase := measure_increase(before, sample)) is not None:
            self._increases.append(increase)

    async def _fetch(self) -> bytes:
        """Return the body of an answer. No redirect is followed."""
        context = await asyncio.to_thread(_make_tls_context, self._target)
        limits = aiohttp.ClientTimeout(total=self._timeout)
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=limits, auto_decompress=False) as session,
            session.get(self.url, headers=_HEADERS, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise MetricsError(f"the server answers {response.status} instead of 200")
            return await read_body(response, limit=self._max_bytes)


def _decode(body: bytes, at: float) -> Sample:
    return read_sample(body.decode("utf-8", "replace"), time=at)


def _make_tls_context(target: MetricsTarget) -> ssl.SSLContext:
    if target.ca_file is None:
        return create_context("")
    bundle = target.ca_file.read_bytes()
    if not bundle:  # An empty bundle would mean the authorities of the system.
        raise TrustError(f"{target.ca_file} has no certificate")
    return create_context(base64.b64encode(bundle).decode())


KEPT_SECONDS: Final = 5.0
"""Time for which an answer of the apiserver is used. A leader renews its Lease every 2 s."""
LEASE_TIMEOUT_SECONDS: Final = 5.0
# A page does not wait longer for the apiserver, and shows the former answer.
_PATIENCE_SECONDS: Final = 0.2

Get = Callable[..., Awaitable[Any]]
"""Sends a request to the apiserver as `Connection.json` does."""


class LeaseState(NamedTuple):
    """The last answer of the apiserver.

    Attributes:
        lease: The Lease, None if there is none.
        is_read: Whether the apiserver has answered.
        problem: Why the last attempt failed, ``""`` if it did not.
    """

    lease: JSONObject | None = None
    is_read: bool = False
    problem: str = ""


class LeaseWatch:
    """The Lease of the servers in a namespace."""

    def __init__(
        self, get: Get, find_path: Callable[[str], str], *, namespace: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Store the arguments; the first call of `find` reads the Lease.

        Args:
            get: Asks the apiserver.
            find_path: Returns the API path of the Lease in a namespace.
            namespace: Its namespace.
            clock: Returns seconds.
        """
        self._find_path: Final = find_path
        self._others: Final[dict[str, LeaseWatch]] = {}
        self.namespace: Final = namespace
        self._get: Final = get
        self._clock: Final = clock
        self._state = LeaseState()
        self._asked_at = -KEPT_SECONDS
        self._reading: asyncio.Task[None] | None = None

    def watch(self, namespace: str) -> "LeaseWatch":
        """Return the watch of the Lease in another namespace."""
        if namespace == self.namespace:
            return self
        other = LeaseWatch(self._get, self._find_path, namespace=namespace, clock=self._clock)
        return self._others.setdefault(namespace, other)

    async def find(self) -> LeaseState:
        """Return the last answer. An old one is replaced in the background, for which the caller waits a moment."""
        if self._reading is None or (self._reading.done() and self._clock() - self._asked_at >= KEPT_SECONDS):
            self._asked_at = self._clock()
            self._reading = asyncio.create_task(self._read(), name="lease of the leader")
        await asyncio.wait([self._reading], timeout=_PATIENCE_SECONDS)
        return self._state

    async def _read(self) -> None:
        try:
            lease = dict(
                as_object(await self._get("GET", self._find_path(self.namespace), timeout=LEASE_TIMEOUT_SECONDS))
            )
        except APIError as error:
            if error.code == NOT_FOUND:
                self._state = LeaseState(None, is_read=True)
            else:
                self._state = self._state._replace(problem=error.message)
        except (UnreachableError, ValueError) as error:
            self._state = self._state._replace(problem=str(error))
        else:
            self._state = LeaseState(lease, is_read=True)
