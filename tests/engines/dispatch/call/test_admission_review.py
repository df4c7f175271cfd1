"""Responses of webhooks: validation, patches, and warnings within the limits of an apiserver."""

import base64
import json
from typing import Any

import pytest

from fleethook.engines.dispatch.call.admission_review import ReviewError, decode_patch, limit_warnings, parse_response

PATCH = base64.b64encode(b"[]").decode()


def parse(*, mutating: bool = True, version: str = "v1", **response: Any) -> Any:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **response}}
    return parse_response(json.dumps(review).encode(), uid="u", version=version, mutating=mutating)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"uid": "other"}, 'expected response.uid="u", got "other"'),
        ({"uid": None}, 'expected response.uid="u", got ""'),
        ({"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch"),
        ({"patchType": ""}, "webhook returned response.patchType but not response.patch"),
        ({"patch": PATCH}, "webhook returned response.patch but not response.patchType"),
        ({"patch": PATCH, "patchType": ""}, 'webhook returned invalid response.patchType of ""'),
    ],
)
def test_invalid_responses_of_mutating_webhooks(response: dict[str, Any], text: str) -> None:
    with pytest.raises(ReviewError) as raised:
        parse(allowed=True, **response)
    assert str(raised.value) == text


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


@pytest.mark.parametrize("mutating", [True, False])
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_patches_must_be_base64(version: str, *, mutating: bool) -> None:
    with pytest.raises(ReviewError, match="is not base64"):
        parse(version=version, mutating=mutating, allowed=True, patch="%%%", patchType="JSONPatch")


def test_base64_may_have_line_breaks_as_in_go() -> None:
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b" * 90}}]
    lines = base64.encodebytes(json.dumps(operations).encode()).decode().replace("\n", "\r\n")
    assert decode_patch(parse(allowed=True, patch=lines, patchType="JSONPatch")) == operations
    assert parse(mutating=False, allowed=True, patch="\n").patch == b""


def test_unknown_members_are_ignored() -> None:
    made = parse(allowed=True, future={"x": 1}, status={"code": 200, "metadata": {}, "message": "fine"})
    assert (made.allowed, made.status.message) == (True, "fine")


def test_duplicate_warnings_are_removed_in_order() -> None:
    assert limit_warnings(["b", "a", "b"]) == ("b", "a")


def test_empty_warnings_and_control_characters_are_dropped() -> None:
    assert limit_warnings(["", "a\nb\x00c\x7f", "\ud800"]) == ("abc",)


def test_4096_characters_are_returned_in_full() -> None:
    given = [f"{number:04}" + "x" * 1020 for number in range(4)]
    assert limit_warnings(given) == tuple(given)


def test_longer_warnings_are_truncated_to_256_characters() -> None:
    given = [f"{number:04}" + "x" * 1021 for number in range(40)]
    found = limit_warnings(given)
    assert found == tuple(text[:256] for text in given[:16])
    assert sum(map(len, found)) == 4096


def test_equal_truncated_warnings_are_returned_once() -> None:
    assert len(limit_warnings(["x" * 3000 + "1", "x" * 3000 + "2"])) == 1
