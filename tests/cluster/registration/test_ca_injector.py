"""Keeping caBundle, against an apiserver in memory; tests/e2e has a real one."""

import base64
from typing import Any

import pytest

from fleethook.cluster.registration.ca_injector import CAInjector
from fleethook.cluster.registration.webhooks import MUTATING, configuration_path
from tests.cluster.object_server import ObjectServer

PATH = configuration_path(MUTATING)
CONFIGURATION = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": MUTATING, "metadata": {"name": "fleethook"},
}  # fmt: skip
BUNDLE = base64.b64encode(b"authority").decode()


async def inject(present: Any) -> tuple[list[tuple[str, str]], Any]:
    """Return the writes, and the webhooks that are stored."""
    server = ObjectServer()
    if present is not None:
        server.store(PATH, {**CONFIGURATION, **present})
    await CAInjector(server, lambda: b"authority").inject()  # type: ignore[arg-type]
    writes = [one for one in server.requests if one[0] != "GET"]
    return writes, server.objects.get(PATH, {}).get("webhooks")


def webhook(name: str, **client: str) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"url": "https://x", **client}}


DEPLOYMENTS = "deployments.overrider.fleethook.io"


async def test_a_differing_bundle_is_written_and_no_other_field() -> None:
    writes, webhooks = await inject({"webhooks": [webhook(DEPLOYMENTS), webhook("somebody.else.io")]})
    assert writes == [("PATCH", PATH)]
    assert webhooks == [webhook(DEPLOYMENTS, caBundle=BUNDLE), webhook("somebody.else.io")]


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
    assert await inject(present) == ([], (present or {}).get("webhooks"))
