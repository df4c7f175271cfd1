"""Locations of a webhook: no redirects, no foreign certificates, no private addresses."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.outbound.call_errors_and_failure_log import NotCalledError
from fleethook.outbound.calls_and_retries import HookClient, Parties
from tests.faults.webhook_calls import LONG, Resolver, catch_call_error, check_next_call, endpoint
from tests.hook_server import RawHook, http, respond, run_raw_hook

METADATA = "https://169.254.169.254/latest/meta-data?secret=1"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(client: HookClient, hook: RawHook, tmp_path: Path, status: int) -> None:
    (tmp_path / "other").mkdir()
    async with run_raw_hook(tmp_path / "other") as other:
        for location, where in ((METADATA, "https://169.254.169.254"), (other.url, f"https://127.0.0.1:{other.port}")):
            hook.answer = respond(http(b"", status=f"{status} Elsewhere", location=location))
            error = await catch_call_error(client, endpoint(hook))
            assert str(error) == (
                f'failed to call webhook: Post "{hook.url}?timeout=30s": '
                f"redirect to {where} refused: webhooks must answer themselves"
            )
            assert error.code == status
        assert other.connections == 0
    await check_next_call(client, hook)


@pytest.mark.parametrize(
    ("location", "where"),
    [
        ("/elsewhere?token=1", "https://127.0.0.1:{port}"),
        ("//user:secret@h/p", "https://h"),
        ("https://h:99999/", "an invalid URL"),
        ("http://h/p?q", "http://h"),
    ],
)
async def test_the_error_names_only_the_host_of_a_redirect(
    client: HookClient, hook: RawHook, location: str, where: str
) -> None:
    hook.answer = respond(http(b"", status="302 Elsewhere", location=location))
    expected = f": redirect to {where.format(port=hook.port)} refused: webhooks must answer themselves"
    assert str(await catch_call_error(client, endpoint(hook))).endswith(expected)


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        ("expired", "certificate has expired"),
        ("other name", "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"),
        ("self-signed", "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"),
    ],
)
async def test_the_error_names_the_fault_of_a_certificate(
    client: HookClient, tmp_path: Path, certificate: Any, text: str
) -> None:
    async with run_raw_hook(tmp_path, certificate) as hook:
        error = await catch_call_error(client, endpoint(hook))
        assert f"tls: failed to verify certificate of 127.0.0.1: x509: {text}" in str(error)
        assert hook.asked == []


async def test_another_authority_and_those_of_the_system_are_not_trusted(
    client: HookClient, hook: RawHook, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    async with run_raw_hook(tmp_path / "other") as other:
        for ca_bundle in (other.ca_bundle, ""):
            error = await catch_call_error(client, endpoint(hook, ca_bundle=ca_bundle))
            assert "x509: certificate signed by unknown authority" in str(error)
    assert hook.asked == []
    await check_next_call(client, hook)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("169.254.169.254", "169.254.169.254"),
        ("[::1]", "::1"),
        ("[::ffff:127.0.0.1]", "::ffff:7f00:1"),
        ("[64:ff9b::7f00:1]", "64:ff9b::7f00:1"),
        ("[fe80::1%25lo]", "fe80::1%25lo"),
        ("①②⑦.⓪.⓪.①", "127.0.0.1"),
    ],
)
async def test_a_private_address_is_refused_in_any_notation(hook: RawHook, host: str, address: str) -> None:
    async with HookClient(allow_private=False) as client:
        error = await catch_call_error(client, endpoint(hook, url=f"https://{host}:{hook.port}/hook"))
        assert isinstance(error, NotCalledError)
    assert str(error).endswith(
        f" is a private address ({address}): webhooks at private addresses are refused unless the setting private_webhooks is true"
    )
    assert hook.connections == 0


@pytest.mark.parametrize("answers", [["127.0.0.1"], ["::1"], ["127.0.0.1", "::1"], ["10.0.0.1", "127.0.0.1"]])
async def test_a_name_of_a_private_address_is_refused_after_it_is_resolved(hook: RawHook, answers: list[str]) -> None:
    resolver = Resolver(*answers)
    async with HookClient(allow_private=False, resolver=resolver) as client:
        error = await catch_call_error(client, endpoint(hook, url=f"https://hook.example.com:{hook.port}/hook"))
    assert isinstance(error, NotCalledError)
    assert ": hook.example.com is a private address (" in str(error)
    assert resolver.names == ["hook.example.com"], "resolved once: the checked address is the dialled one"
    assert hook.connections == 0


async def test_a_name_that_becomes_private_between_two_calls_is_refused(hook: RawHook) -> None:
    resolver = Resolver("127.0.0.1")
    where = endpoint(hook, url=f"https://localhost:{hook.port}/hook", service=True)
    async with HookClient(allow_private=False, resolver=resolver) as client:
        # The same name in a call for the cluster, whose resolved address must not be reused here.
        assert await client.post(where, b"{}", seconds=LONG) == b"{}"
        error = await catch_call_error(client, where._replace(service=False))
        assert ": localhost is a private address (127.0.0.1)" in str(error)
    assert hook.connections == 1


async def test_a_service_of_the_cluster_itself_is_private_by_nature(hook: RawHook) -> None:
    async with HookClient(allow_private=False) as client:
        assert await client.post(endpoint(hook, service=True), b"{}", seconds=LONG) == b"{}"
        assert isinstance(
            await catch_call_error(client, endpoint(hook, service=True), parties=Parties("root:a")), NotCalledError
        )
    assert hook.connections == 1
