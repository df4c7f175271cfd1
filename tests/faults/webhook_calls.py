"""Calling a webhook that does its worst, and one after it that does not."""

import asyncio
import socket
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver

from app.outbound.client import CallError, HookClient
from app.outbound.endpoint import Endpoint
from tests.hook_server import RawHook, http, respond

# Long enough for a loaded machine to get as far as the fault; a call that does hang takes all of it.
SHORT = 0.5
LONG = 30.0


def endpoint(hook: RawHook, **rest: Any) -> Endpoint:
    return Endpoint(**{"url": hook.url, "ca_bundle": hook.ca_bundle, **rest})


async def catch_call_error(client: HookClient, where: Endpoint, *, seconds: float = LONG, **rest: Any) -> CallError:
    with pytest.raises(CallError) as raised:
        await client.post(where, b"{}", seconds=seconds, **rest)
    return raised.value


async def check_next_call(client: HookClient, hook: RawHook) -> None:
    """A normal call to the same place brings its own answer."""
    hook.greeting = "tls"
    hook.answer = respond(http(b'{"normal": true}'))
    assert await client.post(endpoint(hook), b"{}", seconds=LONG) == b'{"normal": true}'


class Resolver(AbstractResolver):
    """Says the same of every name, and nothing at all if that is None."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.names: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[Any]:
        self.names.append(host)
        if self.answers == [None]:
            await asyncio.Event().wait()
        return [
            {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": 0}
            for address in self.answers
        ]

    async def close(self) -> None:
        pass
