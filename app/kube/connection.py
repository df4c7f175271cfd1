"""A connection to one apiserver, with kubernetes-asyncio's authentication and transport.

That library reads kubeconfig files and in-cluster service accounts, runs exec plugins, and reloads a pod's token every
minute. What it does not do is notice that credentials have expired otherwise; so they are read anew when the server
answers 401, which covers exec plugins, client certificates replaced on disk and rewritten kubeconfig files alike.
"""

import asyncio
import contextlib
import logging
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final, Self

import aiohttp
import msgspec
from kubernetes_asyncio import config as kube_config
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.client.rest import RESTClientObject

from app.kube.errors import APIError, UnreachableError, parse_api_error
from app.kube.rest_config import RestConfig, open_transport, read_body
from app.model.json import JSON, JSONObject

_log: Final = logging.getLogger(__name__)

# A list of 500 objects takes an apiserver well under a second; one that is starting or overloaded may take longer.
_REQUEST_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 5.0
_RELOAD_SECONDS: Final = 5.0

# kubernetes-asyncio's own: an event of a large object is longer than aiohttp's.
_READ_BYTES: Final = 2**21

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_JSON: Final = "application/json"
_CLUSTERS: Final = "/clusters/"
# kcp, cli/pkg/helpers: ParseClusterURL.
_CLUSTER_PATH: Final = re.compile(r"(/clusters/[^/]+)?/*$")


class Connection:
    """Requests to one apiserver; use as an asynchronous context manager."""

    def __init__(self, kubeconfig: Path | RestConfig | None, *, context: str | None = None) -> None:
        """Prepare a connection.

        Args:
            kubeconfig: The file to read, or None for the service account of the pod that this runs in, or credentials.
            context: The context in that file, or None for its current one.
        """
        self._kubeconfig: Final = kubeconfig
        self._max_bytes: Final = kubeconfig.max_response_bytes if isinstance(kubeconfig, RestConfig) else None
        self._context: Final = context
        self._configuration: Configuration | None = None
        self._transport: RESTClientObject | None = None
        self._reloaded_at = -_RELOAD_SECONDS
        self._loading: Final = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Read the credentials; raises UnreachableError if they cannot be used."""
        await self._load()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        if self._transport is not None:
            await self._transport.close()

    @property
    def host(self) -> str:
        """The server's address, for messages."""
        return str(self._configuration.host) if self._configuration else "(not connected)"

    async def _load(self) -> None:
        if isinstance(self._kubeconfig, RestConfig):
            self._configuration, self._transport = await open_transport(self._kubeconfig)
            return
        configuration = Configuration()
        try:
            if self._kubeconfig is None:
                kube_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                await kube_config.load_kube_config(
                    config_file=str(self._kubeconfig),
                    context=self._context,
                    client_configuration=configuration,
                    persist_config=False,
                )
            transport = RESTClientObject(configuration)
            if self._kubeconfig is None:
                _disable_proxy(transport)
        except (kube_config.ConfigException, OSError, ssl.SSLError, ValueError) as error:
            source = self._kubeconfig or "the pod's service account"
            raise UnreachableError(f"credentials cannot be read from {source}: {error}") from error
        former, self._transport, self._configuration = self._transport, transport, configuration
        if former is not None:
            # Streams that are still open on it end, and are taken up again with the new credentials.
            await former.close()

    async def _reload(self, used: RESTClientObject) -> bool:
        """Read the credentials again after a 401; return whether it is worth asking again."""
        if isinstance(self._kubeconfig, RestConfig):
            return False
        async with self._loading:
            if self._transport is not used:
                return True
            if time.monotonic() - self._reloaded_at < _RELOAD_SECONDS:
                return False
            self._reloaded_at = time.monotonic()
            _log.info("credentials were refused; reading them again")
            await self._load()
            return True

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JSONObject | list[JSON] | None = None,
        content_type: str = _JSON,
        timeout: float = _REQUEST_SECONDS,  # noqa: ASYNC109 - of the transport, which tells it from a cancellation
    ) -> bytes:
        """Return the body of the answer.

        Raises:
            APIError: The server said no.
            UnreachableError: It did not answer.
        """
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)
        async with self._send(method, path, query, body=body, content_type=content_type, limits=limits) as response:
            return await read_body(response, self._max_bytes)

    async def json(self, method: str, path: str, **rest: JSON) -> JSON:
        """Return the decoded answer of `request`."""
        return msgspec.json.decode(await self.request(method, path, **rest))

    @contextlib.asynccontextmanager
    async def lines(self, path: str, *, query: Mapping[str, str], idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream and yield its lines as they arrive.

        Args:
            path: What to watch.
            query: How.
            idle: Seconds without a byte after which the connection counts as lost.

        Raises:
            APIError: The server said no.
            UnreachableError: It did not answer, or the stream was cut.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle)
        async with self._send("GET", path, query, body=None, content_type=_JSON, limits=limits) as response:
            try:
                yield _split_lines(response.content)
            finally:
                _abort(response)

    @contextlib.asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        *,
        body: JSONObject | list[JSON] | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        for attempt in range(2):
            transport, configuration = self._transport, self._configuration
            assert transport is not None
            assert configuration is not None
            headers = {"Accept": _JSON, "Content-Type": content_type, "User-Agent": "fleethook"}
            try:
                for credential in (await configuration.auth_settings()).values():
                    headers[credential["key"]] = credential["value"]
                response = await transport.request(
                    method,
                    build_url(str(configuration.host), path),
                    query_params=dict(query) if query else None,
                    headers=headers,
                    body=body,
                    _preload_content=False,
                    _request_timeout=limits,
                )
                async with response:
                    if response.status == 401 and attempt == 0 and await self._reload(transport):
                        continue
                    if response.status >= 400:
                        raise parse_api_error(response.status, await read_body(response, self._max_bytes))
                    yield response
                    return
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise UnreachableError(f"{configuration.host}: {str(error) or type(error).__name__}") from error
        raise APIError(401, "Unauthorized", "the credentials were refused")


def build_url(host: str, path: str) -> str:
    """Return the URL of a request.

    The kubeconfig files that kcp writes name a logical cluster in the server's URL. A path that names one itself is not
    inside that cluster, so the cluster of the URL is left out, as kcp's own clients do.

    Args:
        host: The server's URL, as a kubeconfig file has it.
        path: The path of the API, with ``/clusters/NAME`` in front to name a logical cluster of kcp.
    """
    base = _CLUSTER_PATH.sub("", host) if path.startswith(_CLUSTERS) else host.rstrip("/")
    return f"{base}{path}"


def _disable_proxy(transport: RESTClientObject) -> None:
    """Have no proxy of the environment between a pod and its own apiserver.

    Such variables are there for the world outside, and what usually takes the cluster's addresses out of them, a
    network in NO_PROXY, is unknown to aiohttp.
    """
    session = transport.pool_manager
    transport.pool_manager = aiohttp.ClientSession(connector=session.connector, read_bufsize=_READ_BYTES)
    session.detach()


def _abort(response: aiohttp.ClientResponse) -> None:
    """End the connection of a stream at once: TLS would wait for the server's part, beyond the end of the loop."""
    connection = response.connection
    if connection is not None and isinstance(connection.transport, asyncio.Transport):
        connection.transport.abort()


async def _split_lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length; the reader's own line iteration has a limit that a large object exceeds."""
    rest: list[bytes] = []
    async for chunk in content.iter_any():
        head, separator, tail = chunk.partition(b"\n")
        while separator:
            rest.append(head)
            yield b"".join(rest)
            rest.clear()
            head, separator, tail = tail.partition(b"\n")
        rest.append(head)
