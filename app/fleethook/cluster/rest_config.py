"""The address and credentials of a kube-apiserver in memory, for kubeconfigs from untrusted sources such as Secrets.

For a kubeconfig, kubernetes-asyncio runs exec plugins, reads the files that it names and writes keys to temporary
files. A kubeconfig in a Secret must cause none of that.
"""

import ssl
from types import SimpleNamespace
from typing import Final, NamedTuple

import aiohttp

from fleethook.cluster.client_library import Configuration, RESTClientObject

_READ_BYTES: Final = 2**21
# kube-apiserver accepts objects up to 3 MiB, and etcd up to 1.5 MiB by default. A list of all CRDs may be larger.
MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024


class RestConfig(NamedTuple):
    """The address and credentials of a kube-apiserver (client-go: rest.Config)."""

    server: str
    """The server's https URL."""
    tls: ssl.SSLContext
    """Trusts the server's certificate authority and presents the client certificate, if any."""
    token: str = ""
    """The bearer token, ``""`` for none."""
    max_response_bytes: int = MAX_RESPONSE_BYTES
    """The maximum size of a response in bytes."""

    def __repr__(self) -> str:
        return f"RestConfig({self.server!r}, …)"


async def open_transport(access: RestConfig) -> tuple[Configuration, RESTClientObject]:
    """Return the configuration, and a transport that ignores redirects and the environment's proxy settings."""
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
        raise aiohttp.ClientError("the server redirects, which is not followed: use the URL of the API server itself")

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(refuse)
    return trace


async def read_body(response: aiohttp.ClientResponse, limit: int | None) -> bytes:
    """Return the body of a response; raises aiohttp.ClientError if the body has more than ``limit`` bytes."""
    if limit is None:
        return await response.read()
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise aiohttp.ClientError(f"the response has more than {limit} bytes")
    return bytes(body)
