"""Keeping caBundle, against an apiserver that answers as it is told; tests/e2e has a real one."""

import asyncio
import base64
from typing import Any

import pytest

from app.kube.errors import APIError
from app.lifetime import running
from app.registration.keeper import Registrar
from app.registration.webhooks import ServiceReference

BUNDLE = base64.b64encode(b"authority").decode()


class Server:
    """Two configurations, and what was written."""

    def __init__(self, present: Any) -> None:
        self.present = present
        self.written: list[tuple[str, dict[str, str], Any]] = []

    async def json(self, _method: str, path: str) -> Any:
        if self.present is None or "validating" in path:
            raise APIError(404, "NotFound", "not found")
        return self.present

    async def request(self, _method: str, path: str, *, query: Any, body: Any, **_: Any) -> bytes:
        self.written.append((path.rpartition("/")[2], query, body["webhooks"]))
        return b"{}"


async def kept(present: Any) -> list[tuple[str, dict[str, str], Any]]:
    server = Server(present)
    await Registrar(server, lambda: b"authority").apply_bundles()  # type: ignore[arg-type]
    return server.written


def webhook(name: str, **client: str) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"url": "https://x", **client}}


DEPLOYMENTS = "deployments.overrider.fleethook.io"


async def test_what_differs_is_written_and_nothing_but_the_bundle() -> None:
    found = await kept({"webhooks": [webhook(DEPLOYMENTS), webhook("somebody.else.io")]})
    assert found == [
        (
            "fleethook", {"fieldManager": "fleethook-ca-bundle", "force": "true"},
            [{"name": DEPLOYMENTS, "clientConfig": {"caBundle": BUNDLE}}],
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    "present",
    [
        None,
        {},
        {"webhooks": []},
        {"webhooks": [webhook(DEPLOYMENTS, caBundle=BUNDLE)]},
        {"webhooks": [webhook("other.io")]},
    ],
    ids=["no configuration", "no member", "no webhooks", "as it should be", "none of ours"],
)
async def test_where_there_is_nothing_to_do_nothing_is_written(present: Any) -> None:
    assert await kept(present) == []


class Installing(Server):
    """A server without anything of ours."""

    async def request(self, _method: str, path: str, *, query: Any, body: Any, **_: Any) -> bytes:
        del query
        self.written.append((path.rpartition("/")[2], {}, body["kind"]))
        return b"{}"


async def test_nothing_is_installed_before_every_request_can_be_answered() -> None:
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
    async with running(registrar.run(service, exempt_namespaces=[]), name="registration", ended=pytest.fail):
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.written == []
        ready.set()
        for _ in range(100):
            await asyncio.sleep(0)
    kinds = [kind for _, _, kind in server.written]
    definitions = kinds.count("CustomResourceDefinition")
    assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    # Whoever waits for a definition is told of each as soon as it is there.
    assert defined == list(range(1, definitions + 1))


async def test_a_server_that_becomes_ready_while_bundles_are_compared_is_installed_at_once() -> None:
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
    async with running(registrar.run(service, exempt_namespaces=[]), name="registration", ended=pytest.fail):
        for _ in range(300):
            await asyncio.sleep(0)
        assert registrar.installed.is_set()
