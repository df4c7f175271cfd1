"""Calls of real servers that require a client certificate or a token."""

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from fleethook.app import create_app
from fleethook.engines.dispatch.dispatch_server import DispatchServer
from fleethook.engines.dispatch.webhook_credentials import Credentials
from fleethook.outbound.client import HookClient
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.e2e.pki import Authority
from tests.engines.dispatch.builders import configuration, definition, review, store_of, webhook
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.credential_builders import configure_both, kubeconfig, user
from tests.engines.dispatch.webhook_server import listening
from tests.hook_server import respond_and_close, run_raw_hook, tls
from tests.waiting import NET, until

TOKEN = "s3cr3t-t0k3n"


class Seen(NamedTuple):
    """The credentials of one received call."""

    host: str
    path: str
    certificate: str
    authorization: str


class Server:
    """A webhook that allows the objects of each authenticated call."""

    def __init__(self, ca_bundle: str) -> None:
        self.port = 0
        self.ca_bundle = ca_bundle
        self.seen: list[Seen] = []
        self.wanted = ""
        self.redirect = ""

    def hook(self, host: str = "localhost", path: str = "/w", **members: Any) -> dict[str, Any]:
        where = {"url": f"https://{host}:{self.port}{path}", "caBundle": self.ca_bundle}
        return webhook(clientConfig=where, **members)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport
        peer = request.transport.get_extra_info("peercert") or {}
        certificate = ",".join(value for part in peer.get("subject", ()) for _, value in part)
        authorization = request.headers.get("Authorization", "")
        self.seen.append(Seen(request.host.partition(":")[0], request.path, certificate, authorization))
        if self.redirect:
            raise web.HTTPTemporaryRedirect(self.redirect)
        if authorization != self.wanted:
            return web.Response(status=401)
        asked = await request.json()
        response = {"uid": asked["request"]["uid"], "allowed": True}
        return web.json_response({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response})


@contextlib.asynccontextmanager
async def serving(directory: Path, clients: Authority, *, required: bool) -> AsyncIterator[Server]:
    context, ca_bundle = tls(directory)
    context.load_verify_locations(clients.certificate)
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    server = Server(ca_bundle)
    async with listening(server.handle, context) as server.port:
        yield server


@pytest.fixture
def clients(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "clients")


@pytest.fixture
async def server(tmp_path: Path, clients: Authority) -> AsyncIterator[Server]:
    async with serving(tmp_path, clients, required=False) as made:
        yield made


def user_with_certificate(clients: Authority, name: str, host: str) -> dict[str, Any]:
    pair = clients.issue(name)
    return user(host, client_certificate=str(pair.certificate), client_key=str(pair.key))


async def call_webhooks(
    front: Front, credentials: Credentials, *hooks: dict[str, Any], cluster: str = "ws1", phase: Any = "validating"
) -> Any:
    store = store_of(configuration(cluster, phase, *hooks))
    found = await front.dispatch(store, review(), cluster=cluster, phase=phase, find_credential=credentials.find)
    return found.response


async def test_webhooks_get_the_client_certificate_for_their_host(
    front: Front, tmp_path: Path, clients: Authority
) -> None:
    async with serving(tmp_path, clients, required=True) as server:
        host = f"localhost:{server.port}"
        credentials = Credentials(
            configure_both(tmp_path, kubeconfig(tmp_path, user_with_certificate(clients, "me", host)))
        )
        for phase in ("mutating", "validating"):
            assert (await call_webhooks(front, credentials, server.hook(), phase=phase)).allowed
        assert [(seen.host, seen.certificate) for seen in server.seen] == [("localhost", "me")] * 2
        response = await call_webhooks(front, credentials, server.hook("127.0.0.1"))
        assert (response.allowed, response.code) == (False, 500)
        assert f"https://127.0.0.1:{server.port}/w" in response.message
        assert len(server.seen) == 2, "another name of the same server is another host"


async def test_tokens_are_sent_to_their_host_only(front: Front, server: Server, tmp_path: Path) -> None:
    users = user(f"localhost:{server.port}", token=TOKEN), user("*", token="any")
    credentials = Credentials(configure_both(tmp_path, kubeconfig(tmp_path, *users)))
    server.wanted = f"Bearer {TOKEN}"
    assert (await call_webhooks(front, credentials, server.hook())).allowed
    response = await call_webhooks(front, credentials, server.hook("127.0.0.1"))
    assert response.message == (
        'Internal error occurred: failed calling webhook "w.example.org": failed to call webhook: the server has asked '
        "for the client to provide credentials"
    )
    assert [seen.authorization for seen in server.seen] == [f"Bearer {TOKEN}", ""]


async def test_calls_with_different_credentials_share_no_connection(
    front: Front, server: Server, tmp_path: Path, clients: Authority
) -> None:
    """A server may authenticate a connection instead of each call."""
    host = f"localhost:{server.port}"
    first = Credentials(configure_both(tmp_path, kubeconfig(tmp_path, user_with_certificate(clients, "first", host))))
    second = Credentials(configure_both(tmp_path, kubeconfig(tmp_path, user_with_certificate(clients, "second", host))))
    nobody = Credentials(configure_both(tmp_path, kubeconfig(tmp_path)))
    for credentials in (first, nobody, second, first, nobody):
        assert (await call_webhooks(front, credentials, server.hook())).allowed
    assert [seen.certificate for seen in server.seen] == ["first", "", "second", "first", ""]


async def test_a_replaced_certificate_is_used_for_the_next_call(
    front: Front, server: Server, tmp_path: Path, clients: Authority
) -> None:
    host = f"localhost:{server.port}"
    credentials = Credentials(
        configure_both(tmp_path, kubeconfig(tmp_path, user_with_certificate(clients, "before", host)))
    )
    assert (await call_webhooks(front, credentials, server.hook())).allowed
    kubeconfig(tmp_path, user_with_certificate(clients, "after", host))
    assert credentials.reload()
    assert (await call_webhooks(front, credentials, server.hook())).allowed
    assert [seen.certificate for seen in server.seen] == ["before", "after"]


async def test_redirects_do_not_forward_credentials(
    front: Front, server: Server, tmp_path: Path, clients: Authority
) -> None:
    users = (user(f"localhost:{server.port}", token=TOKEN),)
    credentials = Credentials(configure_both(tmp_path, kubeconfig(tmp_path, *users)))
    server.redirect = f"https://127.0.0.1:{server.port}/elsewhere"
    response = await call_webhooks(front, credentials, server.hook())
    assert "redirect to" in response.message
    assert [(seen.host, seen.path) for seen in server.seen] == [("localhost", "/w")]
    assert TOKEN not in response.message


async def test_conversion_webhooks_are_called_without_a_credential(
    front: Front, server: Server, tmp_path: Path
) -> None:
    """The converter of an apiserver has no kubeconfig (apiextensions-apiserver: pkg/apiserver/conversion)."""
    credentials = Credentials(
        configure_both(tmp_path, kubeconfig(tmp_path, user(f"localhost:{server.port}", token=TOKEN)))
    )
    webhook_conversion = {
        "clientConfig": server.hook(path="/convert")["clientConfig"],
        "conversionReviewVersions": ["v1"],
    }
    made = definition(
        "ws1", "widgets.example.org", "v1", "v2", conversion={"strategy": "Webhook", "webhook": webhook_conversion}
    )
    rules = [{"apiGroups": ["example.org"], "apiVersions": ["v2"], "resources": ["widgets"], "operations": ["*"]}]
    hook = server.hook(rules=rules, matchPolicy="Equivalent")
    store = store_of(made, configuration("ws1", "validating", hook))
    response = (await front.dispatch(store, review(), cluster="ws1", find_credential=credentials.find)).response
    assert not response.allowed
    assert [(seen.path, seen.authorization) for seen in server.seen] == [("/convert", "")]


@pytest.mark.parametrize("fault", ["garbage", "reset"])
async def test_errors_of_calls_show_no_secret(tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    async with run_raw_hook(tmp_path) as hook, HookClient(allow_private=True) as client:
        hook.answer = respond_and_close(b"HTTP/9.9 garbage\r\n\r\n" if fault == "garbage" else b"")
        credentials = Credentials(
            configure_both(tmp_path, kubeconfig(tmp_path, user(f"127.0.0.1:{hook.port}", token=TOKEN)))
        )
        where = {"url": hook.url, "caBundle": hook.ca_bundle}
        response = await call_webhooks(Front(client), credentials, webhook(clientConfig=where))
        assert f"Authorization: Bearer {TOKEN}".encode() in hook.asked[0].head
    assert not response.allowed
    assert TOKEN not in f"{response} {caplog.text}"


async def test_the_server_reloads_the_files_of_its_setting(server: Server, tmp_path: Path, clients: Authority) -> None:
    host = f"localhost:{server.port}"
    kubeconfig(tmp_path, user(host, token="one"))
    settings = Settings(admission_control_config_file=configure_both(tmp_path, tmp_path / "kubeconfig"))
    app = create_app(settings, log=None)
    app.store.put(configuration("ws1", "validating", server.hook()))

    async def ask() -> bool:
        body = json.dumps(review()).encode()
        allowed: bool = (await call(app, "/clusters/ws1/validate", body)).json()["response"]["allowed"]
        return allowed

    async with app.router.lifespan_context(app):
        server.wanted = "Bearer one"
        assert await ask()
        kubeconfig(tmp_path, user(host, token="two"))
        server.wanted = "Bearer two"
        while not await ask():
            await asyncio.sleep(0.05)
        kubeconfig(tmp_path, user(host, token=f"{TOKEN}\n{TOKEN}"))
        await until(lambda: any(check.name == "credentials" for check in app.checks()), seconds=NET)
        (check,) = (one for one in app.checks() if one.name == "credentials")
        assert (check.ok, TOKEN in check.detail) == (True, False)
        assert check.detail.startswith(f"the previous credentials stay in use: {tmp_path}")
        assert await ask()
    assert base64.b64encode(TOKEN.encode()).decode() not in repr(app.find_engine(DispatchServer).credentials)
