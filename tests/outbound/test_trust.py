"""Certificate authorities and server names of webhooks."""

import base64
from pathlib import Path

import pytest

from app.outbound.client import HookClient
from app.outbound.errors import NotCalledError
from tests.faults.webhook_calls import catch_call_error, endpoint
from tests.hook_server import RawHook, run_raw_hook


@pytest.mark.parametrize("bundle", ["%%%", "====", "ü", *(base64.b64encode(text.encode()).decode() for text in (
    " ", "no certificate", "ключ", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
))])  # fmt: skip
async def test_an_invalid_ca_bundle_does_not_fall_back_to_the_system(
    client: HookClient, hook: RawHook, bundle: str
) -> None:
    error = await catch_call_error(client, endpoint(hook, ca_bundle=bundle))
    assert str(error).endswith(": unable to load root certificates: unable to parse bytes as PEM block")
    assert isinstance(error, NotCalledError)
    assert hook.connections == 0


async def test_the_certificate_must_contain_the_server_name(client: HookClient, tmp_path: Path) -> None:
    async with run_raw_hook(tmp_path, "other name") as hook:
        assert await client.post(endpoint(hook, server_name="other.example.com"), b"{}", seconds=10) == b"{}"
        error = await catch_call_error(client, endpoint(hook))
    assert "x509: certificate is not valid for the called host (" in str(error)


async def test_any_certificate_of_the_bundle_is_a_root(client: HookClient, hook: RawHook, tmp_path: Path) -> None:
    bundle = "# комментарий\n".encode() + (tmp_path / "tls.crt").read_bytes()
    assert await client.post(endpoint(hook, ca_bundle=base64.b64encode(bundle).decode()), b"{}", seconds=10) == b"{}"
