"""Calls of a faulty webhook, and a normal call afterwards."""

import asyncio
import socket
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver

from fleethook.model.formats.client_config_and_addresses import WebhookEndpoint
from fleethook.outbound.call_errors_and_failure_log import CallError
from fleethook.outbound.calls_and_retries import HookClient
from tests.hook_server import RawHook, http, respond

# Long enough for a loaded machine to reach the fault; a hanging call takes all of it.
SHORT = 0.5
LONG = 30.0


def endpoint(hook: RawHook, **rest: Any) -> WebhookEndpoint:
    return WebhookEndpoint(**{"url": hook.url, "ca_bundle": hook.ca_bundle, **rest})


async def catch_call_error(
    client: HookClient, where: WebhookEndpoint, *, seconds: float = LONG, **rest: Any
) -> CallError:
    with pytest.raises(CallError) as raised:
        await client.post(where, b"{}", seconds=seconds, **rest)
    return raised.value


async def check_next_call(client: HookClient, hook: RawHook) -> None:
    """Check that a normal call to the same hook returns its own answer."""
    hook.greeting = "tls"
    hook.answer = respond(http(b'{"normal": true}'))
    assert await client.post(endpoint(hook), b"{}", seconds=LONG) == b'{"normal": true}'


class Resolver(AbstractResolver):
    """Resolves every name to the same addresses; with None it never answers."""

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
