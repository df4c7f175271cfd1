"""Visits the pages of a console without a socket."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.asgi_client import call


class Page(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Visitor:
    """A browser without scripts."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def get(self, address: str, **parameters: str) -> Page:
        """Return the page of an address, with more parameters."""
        return await self._request("GET", address, parameters, b"")

    async def post(self, address: str, fields: Mapping[str, str], **parameters: str) -> Page:
        """Send a form."""
        return await self._request("POST", address, parameters, urlencode(fields).encode())

    async def _request(self, method: str, address: str, parameters: Mapping[str, str], body: bytes) -> Page:
        parts = urlsplit(address)
        query = "&".join(filter(None, (parts.query, urlencode(parameters))))
        headers = {
            "host": "localhost",
            "content-type": "application/x-www-form-urlencoded",
            "content-length": str(len(body)),
        }
        return Page(*await call(self._app, parts.path, body, method=method, headers=headers, query=query.encode()))
