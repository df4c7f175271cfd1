"""Keeping caBundle, against a scripted apiserver; tests/e2e has a real one."""

import base64
from typing import Any

import pytest

from app.registration.ca_injector import CAInjector
from tests.registration.configurations import Server

BUNDLE = base64.b64encode(b"authority").decode()


async def inject(present: Any) -> list[tuple[str, dict[str, str], Any]]:
    server = Server(present)
    await CAInjector(server, lambda: b"authority").inject()  # type: ignore[arg-type]
    return server.written


def webhook(name: str, **client: str) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"url": "https://x", **client}}


DEPLOYMENTS = "deployments.overrider.fleethook.io"


async def test_a_differing_bundle_is_written_and_no_other_field() -> None:
    found = await inject({"webhooks": [webhook(DEPLOYMENTS), webhook("somebody.else.io")]})
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
    ids=["no configuration", "no member", "no webhooks", "as it should be", "only other webhooks"],
)
async def test_an_equal_or_missing_configuration_is_not_written(present: Any) -> None:
    assert await inject(present) == []
