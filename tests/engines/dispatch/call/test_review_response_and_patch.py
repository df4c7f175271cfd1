"""Responses of webhooks: validation, patches, and warnings within the limits of an apiserver."""

import base64
import json
from typing import Any, Final

import pytest

from fleethook.engines.dispatch.call.review_response_and_patch import (
    ReviewError,
    decode_patch,
    explain_wrong_kind,
    parse_response,
    patch_object,
)
from fleethook.engines.dispatch.errors_and_deadline import denial
from fleethook.model.admission import Status
from fleethook.model.gvk import GroupVersionKind
from tests.engines.dispatch.builders import configuration, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, apply_response, hook, patch
from tests.watched_calls import watch_calls


def parse(*, mutating: bool = True, version: str = "v1", **response: Any) -> Any:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **response}}
    return parse_response(json.dumps(review).encode(), uid="u", version=version, mutating=mutating)


def test_a_missing_allowed_is_a_denial() -> None:
    assert parse().allowed is False
    assert parse(allowed=None).allowed is False


@pytest.mark.parametrize("text", [b"null", b"[]", b" "])
def test_an_empty_patch_changes_nothing(text: bytes) -> None:
    made = parse(allowed=True, patch=base64.b64encode(text).decode(), patchType="JSONPatch")
    if text.strip():
        assert decode_patch(made) == []
    else:
        with pytest.raises(ReviewError, match="received undecodable patch in webhook response: invalid character"):
            decode_patch(made)


def test_an_empty_patch_may_have_any_type() -> None:
    made = parse(allowed=True, patch=base64.b64encode(b"[]").decode(), patchType="MergePatch")
    assert decode_patch(made) == []


def test_base64_may_have_line_breaks_as_in_go() -> None:
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b" * 90}}]
    lines = base64.encodebytes(json.dumps(operations).encode()).decode().replace("\n", "\r\n")
    assert decode_patch(parse(allowed=True, patch=lines, patchType="JSONPatch")) == operations
    assert parse(mutating=False, allowed=True, patch="\n").patch == b""


CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
WIDGET: Final = GroupVersionKind("example.org", "v1", "Widget")


@pytest.mark.parametrize(
    ("change", "builtin", "custom"),
    [
        ({}, "", ""),
        ({"kind": 1}, "cannot unmarshal number into Go struct field .kind", "cannot unmarshal number"),
        ({"apiVersion": 1}, "cannot unmarshal number into Go struct field .apiVersion", "cannot unmarshal number"),
        ({"kind": None}, "", "Object 'Kind' is missing"),
        ({"kind": "Other"}, 'no kind "Other" is registered', ""),
        ({"apiVersion": None}, "", "is unstructured and is not suitable for converting"),
        ({"apiVersion": "other.io/v9"}, 'is registered for version "other.io/v9"', "is not suitable for converting"),
        ({"metadata": []}, "", "system metadata was not initialized"),
    ],
)
def test_the_kind_must_stay(change: dict[str, Any], builtin: str, custom: str) -> None:
    for kind, text in ((CONFIG_MAP, builtin), (WIDGET, custom)):
        document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, **change}
        found = explain_wrong_kind(document, kind, is_builtin=kind is CONFIG_MAP)
        assert text in found
        assert bool(text) == bool(found)


async def apply_patch(front: Front, server: Webhooks, document: Any, *operations: dict[str, Any], policy: str) -> Any:
    server.answers["/w"] = patch(*operations)
    store = store_of(configuration("ws1", "mutating", hook(server, "/w", "big.example.org", failurePolicy=policy)))
    return await front.dispatch(store, review(document), cluster="ws1", phase="mutating")


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("operations", "size", "problem"),
    [
        (10_001, 0, "it has 10001 operations, and the limit is 10000 operations"),
        (6_000, 15_000, "the patch moves more than 100000000 elements of lists, which is the limit"),
    ],
)
async def test_patches_above_a_limit_are_refused_even_with_ignore(
    front: Front, server: Webhooks, operations: int, size: int, problem: str, policy: str
) -> None:
    document = widget(list=list(range(size)))
    insertions = [{"op": "add", "path": "/spec/list/0", "value": 1}] * operations
    found = await apply_patch(front, server, document, *insertions, policy=policy)
    assert not found.response.allowed
    assert 'the patch of admission webhook "big.example.org" does not apply' in found.response.message
    assert problem in found.response.message


async def test_patches_above_the_size_limit_are_refused(front: Front, server: Webhooks) -> None:
    large = {"op": "add", "path": "/spec/text", "value": "x" * (2 * 1024 * 1024)}
    found = await apply_patch(front, server, widget(), large, policy="Fail")
    assert not found.response.allowed
    assert "and the limit is 2097152 bytes" in found.response.message


async def test_patches_of_validating_webhooks_are_invalid_at_any_size(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/spec/text", "value": "x" * (2 * 1024 * 1024)})
    store = store_of(configuration("ws1", "validating", hook(server, "/w", failurePolicy="Ignore")))
    assert (await front.dispatch(store, review(), cluster="ws1")).response.allowed


@pytest.mark.parametrize(("operations", "size"), [(1, 1), (2_000, 1), (1, 50_000), (10_000, 0)])
async def test_large_patches_are_applied_in_a_thread(
    front: Front, server: Webhooks, operations: int, size: int
) -> None:
    document = widget(list=list(range(size)))
    insertions = [{"op": "add", "path": "/spec/list/0", "value": -number} for number in range(operations)]
    with watch_calls(patch_object) as seen:
        found = await apply_patch(front, server, document, *insertions, policy="Fail")
    assert found.response.allowed
    made = apply_response(found, document)
    assert made["spec"]["list"] == [*(-number for number in reversed(range(operations))), *range(size)]
    assert seen == {"patch_object": [operations * size == 1]}


@pytest.mark.parametrize(
    ("result", "code", "text"),
    [
        (None, 400, "without explanation"),
        (Status(reason="Conflict", code=409), 409, ": Conflict"),
        (Status(message="too large", reason="Invalid", code=422), 422, ": too large"),
        (Status(message="fine", code=200), 400, ": fine"),
    ],
)
def test_denials_have_the_code_and_the_text_of_the_webhook(result: Status | None, code: int, text: str) -> None:
    error = denial("w.example.org", result)
    separator = "" if text.startswith(":") else " "
    assert (error.status.code, error.status.status) == (code, "Failure")
    assert str(error) == f'admission webhook "w.example.org" denied the request{separator}{text}'


def test_denials_keep_a_custom_status() -> None:
    assert denial("w.example.org", Status(status="Warning")).status.status == "Warning"
    assert denial("w.example.org", Status(status="Success")).status.status == "Failure"
