"""Admission of hook configurations, through their route."""

import json
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.cluster.manifests.manifest_reader import read_documents
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.serving import EXAMPLES

ROUTE = "/validate-config-karmada-io-v1alpha1-resourceexploringwebhookconfiguration"
(EXAMPLE,) = [
    one.object for one in read_documents((EXAMPLES / "interpreter" / "configuration.yaml").read_text(), source="")
]


@pytest.fixture
def app() -> Fleethook:
    return create_app(Settings(), log=None)


async def review(app: Fleethook, document: Any, kind: str = EXAMPLE["kind"], **fields: Any) -> dict[str, Any]:
    request = {
        "uid": "u", "operation": "CREATE", "object": document,
        "kind": {"group": "config.karmada.io", "version": "v1alpha1", "kind": kind}, **fields,
    }  # fmt: skip
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response: dict[str, Any] = (await call(app, ROUTE, json.dumps(review).encode())).json()["response"]
    return response


def with_webhook(document: Any, **webhook: Any) -> Any:
    return {**document, "webhooks": [{**document["webhooks"][0], **webhook}]}


async def test_example_of_the_proposal_is_admitted(app: Fleethook) -> None:
    assert await review(app, EXAMPLE) == {"uid": "u", "allowed": True}


async def test_message_lists_several_problems_with_causes(app: Fleethook) -> None:
    one = (await review(app, with_webhook(EXAMPLE, timeoutSeconds=60)))["status"]
    text = "webhooks[0].timeoutSeconds: Invalid value: 60: the timeout value must be between 1 and 30 seconds"
    assert (one["code"], one["message"]) == (422, text)
    two = (await review(app, with_webhook(EXAMPLE, timeoutSeconds=60, name="")))["status"]
    assert two["message"] == f"[webhooks[0].name: Required value, {text}]"
    assert [cause["field"] for cause in two["details"]["causes"]] == ["webhooks[0].name", "webhooks[0].timeoutSeconds"]


async def test_shipped_configuration_has_its_own_members(app: Fleethook) -> None:
    response = await review(app, EXAMPLE, kind="ResourceInterpreterWebhookConfiguration")
    fields = {cause["field"] for cause in response["status"]["details"]["causes"]}
    assert {"webhooks[0].rules[0].kinds", "webhooks[0].interpreterContextVersions"} <= fields


async def test_deletion_is_allowed_and_other_kinds_are_refused(app: Fleethook) -> None:
    going = {**with_webhook(EXAMPLE, name=""), "metadata": {"name": "x", "deletionTimestamp": "2026-06-01T00:00:00Z"}}
    assert (await review(app, going))["allowed"]
    assert (await review(app, None, operation="DELETE"))["allowed"]
    assert (await review(app, EXAMPLE, kind="Pod"))["status"]["code"] == 400
