"""A connection to one kube-apiserver, with kubernetes-asyncio's authentication and transport.

kubernetes-asyncio reads kubeconfig files and in-cluster service accounts, runs exec plugins, and reloads a pod's token
every minute. It does not notice other expired credentials. `Connection` therefore loads the credentials again after a
401. This covers exec plugins, client certificates replaced on disk, and rewritten kubeconfig files.

The packages of kubernetes-asyncio import the models and the API methods of all kinds: 830 modules, which take 0.9 s of
CPU and 63 MB. Its authentication and transport use none of them. So the ``__init__`` of these packages runs only if
code asks for a name that it defines, for example an interpreter in Python of a user.
"""

import asyncio
import contextlib
import logging
import os
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, Final, Self

import aiohttp
import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError, parse_api_error
from fleethook.model.formats.text import describe_os_error
from fleethook.model.json import JSON, JSONObject
from fleethook.outbound.private_addresses_and_proxies import choose_proxy
from fleethook.tracing.spans_and_otel_variables import child_span

_ROOT: Final = "kubernetes_asyncio"
_PACKAGES: Final = (_ROOT, f"{_ROOT}.client", f"{_ROOT}.client.models")
_CLASSES: Final = {"ApiClient": f"{_ROOT}.client.api_client", "Configuration": f"{_ROOT}.client.configuration"}
"""The classes that the modules of authentication import from ``kubernetes_asyncio.client``."""
_ASKED_FOR: Final = frozenset({"__all__", "__version__"})
_loading: Final = RLock()


class _DeferredPackage(ModuleType):
    """A package whose ``__init__`` runs when a name is neither a module of it nor one of `_CLASSES`."""

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED_FOR:
            return self._load(name)
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _CLASSES:
            return getattr(import_module(_CLASSES[name]), name)
        module = f"{self.__name__}.{name}"
        return self._load(name) if find_spec(module) is None else import_module(module)

    def _load(self, name: str) -> Any:
        with _loading:
            if type(self) is _DeferredPackage:
                self.__class__ = ModuleType  # type: ignore[assignment]  # as importlib.util.LazyLoader does
                assert self.__spec__ is not None
                assert self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _defer_packages() -> None:
    for name in _PACKAGES:
        spec = find_spec(name)
        assert spec is not None
        package = module_from_spec(spec)
        package.__class__ = _DeferredPackage
        sys.modules[name] = package
        parent, _, member = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], member, package)


if _ROOT not in sys.modules:
    _defer_packages()

from kubernetes_asyncio import config as kube_config  # noqa: E402 - after the packages are deferred
from kubernetes_asyncio.client import Configuration  # noqa: E402 - as above
from kubernetes_asyncio.client.rest import RESTClientObject  # noqa: E402 - as above

# kubernetes-asyncio's value. A watch event of a large object exceeds aiohttp's default.
_READ_BYTES: Final = 2**21
_log: Final = logging.getLogger(__name__)

# kube-apiserver lists 500 objects in well under a second, and takes longer while it starts or is overloaded.
_REQUEST_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 5.0
_RELOAD_SECONDS: Final = 5.0

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_JSON: Final = "application/json"
# Paths of a logical cluster, and of services such as the cache server.
_KCP_PATHS: Final = ("/clusters/", "/services/")
_UNDERSTANDABLE: Final = (kube_config.ConfigException, OSError, ssl.SSLError, ValueError)
"""Errors of credentials that name the cause."""
# kcp, cli/pkg/helpers: ParseClusterURL.
_CLUSTER_PATH: Final = re.compile(r"(/clusters/[^/]+)?/*$")


class Connection:
    """Sends requests to one kube-apiserver; use it as an asynchronous context manager."""

    def __init__(self, kubeconfig: Path | None, *, context: str | None = None, server: str | None = None) -> None:
        """Store the arguments; `__aenter__` reads the credentials.

        Args:
            kubeconfig: The kubeconfig file. None uses the pod's service account.
            context: The context in the kubeconfig file; None uses its current context.
            server: The URL of another server for the same credentials and authorities; None uses the kubeconfig's.
        """
        self._kubeconfig: Final = kubeconfig
        self._context: Final = context
        self._server: Final = server
        self._configuration: Configuration | None = None
        self._transport: RESTClientObject | None = None
        self._reloaded_at = -_RELOAD_SECONDS
        self._loading: Final = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Read the credentials; raises UnreachableError if they are unusable."""
        await self._load()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        if self._transport is not None:
            await self._transport.close()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None

    @property
    def host(self) -> str:
        """The server's address, for messages."""
        return str(self._configuration.host) if self._configuration else "(not connected)"

    async def _load(self) -> None:
        configuration = Configuration()
        # It logs the error of a credential plugin, and raises it, too.
        logging.getLogger("kubernetes_asyncio.config.kube_config").setLevel(logging.CRITICAL)
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
            if self._server is not None:
                configuration.host = self._server
            # The proxy of a pod's environment is for addresses outside the cluster.
            transport = _open_transport(configuration, {} if self._kubeconfig is None else os.environ)
        # The client library raises many types of errors for a malformed kubeconfig: TypeError, KeyError, those of YAML.
        except Exception as error:
            source = self._kubeconfig or "the pod's service account"
            reason = str(error) if isinstance(error, _UNDERSTANDABLE) else "it is no kubeconfig"
            if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
                # The event loop does not name a missing credential plugin.
                reason = f"{'' if error.filename else 'a file or program that it names: '}{describe_os_error(error)}"
            elif self._kubeconfig is None:
                reason = f"{reason.rstrip('.')}; outside of a pod, give --kubeconfig FILE"
            raise UnreachableError(f"credentials cannot be read from {source}: {' '.join(reason.split())}") from error
        former, self._transport, self._configuration = self._transport, transport, configuration
        if former is not None:
            # This ends open watches. Their callers open them again with the new credentials.
            await former.close()

    async def _reload(self, used: RESTClientObject) -> bool:
        """Read the credentials again after a 401; return whether the caller should retry."""
        async with self._loading:
            if self._transport is not used:
                return True
            if time.monotonic() - self._reloaded_at < _RELOAD_SECONDS:
                return False
            self._reloaded_at = time.monotonic()
            _log.info("the API server rejected the credentials; reading them again")
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
        timeout: float = _REQUEST_SECONDS,  # noqa: ASYNC109 - the transport's timeout, which differs from a cancellation
    ) -> bytes:
        """Send a request and return the body of the response.

        Args:
            method: The HTTP method.
            path: The path of the API; see `build_url` for paths in kcp.
            query: The query parameters.
            body: The JSON body.
            content_type: The type of the body, for example `MERGE_PATCH`.
            timeout: Seconds until the response is complete.

        Raises:
            APIError: The server answered with an error.
            UnreachableError: The server did not answer.
        """
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)
        facts = {"http.request.method": method, "url.path": path}
        with child_span(f"apiserver {method}", "client", facts):
            async with self._send(method, path, query, body=body, content_type=content_type, limits=limits) as response:
                return await response.read()

    async def json(self, method: str, path: str, **rest: JSON) -> JSON:
        """Send a request as `request` does and return the decoded JSON of the response."""
        text = await self.request(method, path, **rest)
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise UnreachableError(f"{self.host}{path}: {_NO_SERVER}: the answer is no JSON: {error}") from error

    @contextlib.asynccontextmanager
    async def lines(self, path: str, *, query: Mapping[str, str], idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and yield its lines as they arrive.

        Args:
            path: The path of the API to watch.
            query: The parameters of the watch.
            idle: Seconds without data after which the watch ends. A quiet watch is no fault: the next request reports a
                lost connection.

        Raises:
            APIError: The server answered with an error.
            UnreachableError: The server did not answer, or the connection broke.
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
        is_answered = False
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
                    if response.status == 401:
                        break
                    if response.status >= 400:
                        raise parse_api_error(response.status, await response.read())
                    is_answered = True
                    yield response
                    return
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                # After a 401, another request has replaced the transport, and closed the connection of this one.
                if not is_answered and self._transport is not transport:
                    continue
                raise UnreachableError(f"{configuration.host}: {_describe(error)}") from error
        source = self._kubeconfig or "the pod's service account"
        text = f"the API server rejected the credentials of {source}: a token may have expired"
        raise APIError(401, "Unauthorized", text)


_NO_SERVER: Final = "this is no URL of an apiserver: correct it in the kubeconfig"


def _describe(error: BaseException) -> str:
    """Return why a server did not answer. The HTTP client names its own arguments instead of a refused connection."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
    if cause is not None and not isinstance(cause, ssl.SSLError) and (cause.errno or 0) > 0:
        return os.strerror(cause.errno or 0).lower()
    if isinstance(error, aiohttp.InvalidURL | aiohttp.TooManyRedirects):
        return _NO_SERVER
    return str(error) or type(error).__name__


def build_url(host: str, path: str) -> str:
    """Return the URL of a request.

    In kcp's kubeconfig files, the server's URL ends with the path of a logical cluster. If ``path`` names a logical
    cluster too, it replaces the one of the URL, as in kcp's own clients.

    Args:
        host: The server's URL from a kubeconfig file.
        path: The path of the API, prefixed with ``/clusters/NAME`` for a logical cluster of kcp.
    """
    base = _CLUSTER_PATH.sub("", host) if path.startswith(_KCP_PATHS) else host.rstrip("/")
    return f"{base}{path}"


def _open_transport(configuration: Configuration, environment: Mapping[str, str]) -> RESTClientObject:
    """Return a transport whose requests all use one proxy, or none.

    With ``trust_env`` as kubernetes-asyncio sets it, aiohttp reads netrc and the environment in a thread at each
    request, sends passwords of netrc to the API server, and does not support networks in NO_PROXY.

    Raises:
        ValueError: The proxy is not one for HTTP.
    """
    proxy = choose_proxy(str(configuration.host), environment, explicit=configuration.proxy or "")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise ValueError("the proxy has no URL with http:// or https://, and other proxies are not supported")
    transport = RESTClientObject(configuration)
    session = transport.pool_manager
    transport.pool_manager = aiohttp.ClientSession(connector=session.connector, read_bufsize=_READ_BYTES)
    session.detach()
    transport.proxy = proxy
    return transport


def _abort(response: aiohttp.ClientResponse) -> None:
    """Abort the connection of a watch: closing TLS waits for the server, possibly beyond the end of the event loop."""
    connection = response.connection
    if connection is not None and isinstance(connection.transport, asyncio.Transport):
        connection.transport.abort()


async def _split_lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length until the stream ends or is idle.

    aiohttp's own line iteration fails for the events of large objects.
    """
    rest: list[bytes] = []
    with contextlib.suppress(aiohttp.SocketTimeoutError):
        async for chunk in content.iter_any():
            head, separator, tail = chunk.partition(b"\n")
            while separator:
                rest.append(head)
                yield b"".join(rest)
                rest.clear()
                head, separator, tail = tail.partition(b"\n")
            rest.append(head)
