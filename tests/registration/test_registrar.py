"""Installing the registration, against a scripted apiserver; tests/e2e has a real one."""

import asyncio
from typing import Any

import pytest

from app.lifetime import run_in_background
from app.registration.registrar import Registrar
from app.registration.webhooks import ServiceReference
from tests.registration.configurations import Server


class Installing(Server):
    """An apiserver without any object of fleethook."""

    async def request(self, _method: str, path: str, *, query: Any, body: Any, **_: Any) -> bytes:
        del query
        self.written.append((path.rpartition("/")[2], {}, body["kind"]))
        return b"{}"


async def test_installation_waits_until_the_server_is_ready() -> None:
    server, ready, defined = Installing(None), asyncio.Event(), []

    async def wait_ready() -> None:
        await ready.wait()

    registrar = Registrar(
        server,  # type: ignore[arg-type]
        lambda: b"authority",
        check_seconds=3600,
        ready=wait_ready,
        defined=lambda: defined.append(len(server.written)),
    )
    service = ServiceReference("fleet", "fleethook")
    async with run_in_background(registrar.run(service, exempt_namespaces=[]), name="registration", ended=pytest.fail):
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.written == []
        ready.set()
        for _ in range(100):
            await asyncio.sleep(0)
    kinds = [kind for _, _, kind in server.written]
    definitions = kinds.count("CustomResourceDefinition")
    assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    # `defined` is called after each definition, so that its informer starts at once.
    assert defined == list(range(1, definitions + 1))


async def test_a_server_that_becomes_ready_during_a_comparison_is_installed_at_once() -> None:
    ready = asyncio.Event()

    class Slow(Installing):
        async def json(self, method: str, path: str) -> Any:
            ready.set()
            for _ in range(10):
                await asyncio.sleep(0)
            return await super().json(method, path)

    server = Slow(None)

    async def wait_ready() -> None:
        await ready.wait()

    registrar = Registrar(server, lambda: b"authority", check_seconds=3600, ready=wait_ready)  # type: ignore[arg-type]
    service = ServiceReference("fleet", "fleethook")
    async with run_in_background(registrar.run(service, exempt_namespaces=[]), name="registration", ended=pytest.fail):
        for _ in range(300):
            await asyncio.sleep(0)
        assert registrar.installed.is_set()
