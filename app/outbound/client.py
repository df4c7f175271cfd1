"""POSTing a body to a webhook and getting one back."""

import asyncio
import base64
import ssl
from collections import OrderedDict
from typing import Final, Self

import aiohttp

from app.outbound.breaker import Breaker
from app.outbound.endpoint import Endpoint

# What an answer may have; a webhook that sends more is cut off.
RESPONSE_LIMIT: Final = 8 * 1024 * 1024
_SESSIONS: Final = 200
_CONNECTIONS: Final = 32
_CHUNK: Final = 65536
_SHOWN: Final = 300


class CallError(Exception):
    """A call that brought no answer; the text says why, and never what was sent."""


class HookClient:
    """Keeps connections and breakers, by endpoint; use as an asynchronous context manager, or close it."""

    def __init__(self, *, response_limit: int = RESPONSE_LIMIT) -> None:
        """Prepare; ``response_limit`` in bytes."""
        self._limit: Final = response_limit
        self._sessions: Final[OrderedDict[tuple[str, str], aiohttp.ClientSession]] = OrderedDict()
        self._breakers: Final[dict[str, Breaker]] = {}

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        while self._sessions:
            await self._sessions.popitem()[1].close()

    async def post(self, endpoint: Endpoint, body: bytes, *, seconds: float) -> bytes:
        """Return what the webhook answers.

        Args:
            endpoint: Where.
            body: JSON.
            seconds: How long it may take, all in all; the webhook is told, too.

        Raises:
            CallError: There is no answer that can be used.
        """
        breaker = self._breakers.setdefault(endpoint.url, Breaker())
        if not breaker.allow():
            raise CallError(
                f"failed to call webhook: {endpoint.url} failed several times in a row and is not asked for now"
            )
        ok = False
        try:
            async with asyncio.timeout(seconds):
                answer = await self._post(endpoint, body, seconds=seconds)
            ok = True
        except TimeoutError:
            raise CallError(f"failed to call webhook: Post {endpoint.url!r}: no answer within {seconds:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise CallError(f"failed to call webhook: Post {endpoint.url!r}: {reason}") from error
        finally:
            breaker.record(ok=ok)
        return answer

    async def _post(self, endpoint: Endpoint, body: bytes, *, seconds: float) -> bytes:
        session = self._session(endpoint)
        async with session.post(
            endpoint.url,
            data=body,
            params={"timeout": f"{-(-seconds // 1):.0f}s"},
            headers={"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "fleethook"},
            server_hostname=endpoint.server_name or None,
            allow_redirects=False,
        ) as response:
            answer = await self._read(response, endpoint)
            if not 200 <= response.status <= 206:
                shown = answer[:_SHOWN].decode("utf-8", "replace").strip()
                raise CallError(f"failed to call webhook: Post {endpoint.url!r}: HTTP {response.status}: {shown}")
            return answer

    async def _read(self, response: aiohttp.ClientResponse, endpoint: Endpoint) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if size > self._limit:
                response.close()
                raise CallError(f"failed to call webhook: {endpoint.url} answers more than {self._limit:,} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    def _session(self, endpoint: Endpoint) -> aiohttp.ClientSession:
        key = (endpoint.ca_bundle, endpoint.server_name)
        session = self._sessions.get(key)
        if session is None:
            while len(self._sessions) >= _SESSIONS:
                _, oldest = self._sessions.popitem(last=False)
                # Requests that are under way on it fail; with this many hooks that is a matter of a restart of all.
                asyncio.ensure_future(oldest.close())  # noqa: RUF006
            connector = aiohttp.TCPConnector(ssl=_context(endpoint.ca_bundle), limit=_CONNECTIONS)
            # No proxies from the environment and no cookies: a hook is told what it is asked, and nothing else.
            session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=True
            )
            self._sessions[key] = session
        self._sessions.move_to_end(key)
        return session


def _context(ca_bundle: str) -> ssl.SSLContext:
    if not ca_bundle:
        return ssl.create_default_context()
    pem = base64.b64decode(ca_bundle, validate=True).decode("ascii")
    return ssl.create_default_context(cadata=pem)
