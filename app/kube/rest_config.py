"""Access to an apiserver by credentials in memory, for kubeconfig files that other people write.

kubernetes-asyncio runs the exec plugins of a kubeconfig, reads the files that it names and writes keys to temporary
files. None of that may happen with a kubeconfig out of a Secret.
"""

import ssl
from types import SimpleNamespace
from typing import Final, NamedTuple

import aiohttp
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.client.rest import RESTClientObject

_READ_BYTES: Final = 2**21
# kube-apiserver takes objects of 3 MiB at most, and etcd by default of 1.5 MiB; a list of all CRDs may have more.
MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024


class RestConfig(NamedTuple):
    """Address and credentials of an apiserver."""

    server: str
    """URL, https."""
    tls: ssl.SSLContext
    """Trusts the server's authority and shows the client certificate, if there is one."""
    token: str = ""
    """Bearer token, ``""`` for none."""
    max_response_bytes: int = MAX_RESPONSE_BYTES
    """The largest response that is read."""

    def __repr__(self) -> str:
        return f"RestConfig({self.server!r}, …)"


async def open_transport(access: RestConfig) -> tuple[Configuration, RESTClientObject]:
    """Return the configuration and a transport that follows no redirect and uses no proxy of the environment."""
    configuration = Configuration(host=access.server)
    if access.token:
        configuration.api_key["BearerToken"] = f"Bearer {access.token}"
    transport = RESTClientObject(configuration)
    unused = transport.pool_manager
    transport.pool_manager = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.tls), read_bufsize=_READ_BYTES, trace_configs=[_refuse_redirects()]
    )
    await unused.close()
    return configuration, transport


def _refuse_redirects() -> aiohttp.TraceConfig:
    async def refuse(
        _session: aiohttp.ClientSession, _context: SimpleNamespace, _redirect: aiohttp.TraceRequestRedirectParams
    ) -> None:
        raise aiohttp.ClientError("the server redirects, which is not followed")

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(refuse)
    return trace


async def read_body(response: aiohttp.ClientResponse, limit: int | None) -> bytes:
    """Return the body of a response; raises aiohttp.ClientError if it has more than ``limit`` bytes."""
    if limit is None:
        return await response.read()
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise aiohttp.ClientError(f"the response has more than {limit} bytes")
    return bytes(body)
