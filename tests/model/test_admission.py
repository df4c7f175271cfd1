import json
from typing import Any

import msgspec
import pytest

from fleethook.model.admission import (
    AdmissionRequest,
    Response,
    StatusCause,
    allowed,
    cluster_conflict,
    denied,
    errored,
    invalid,
    not_for_review,
    patched,
)
from fleethook.model.gvk import GroupKind

DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
KINDS = (GroupKind("apps", "Deployment"),)


def request(**members: Any) -> AdmissionRequest:
    found = {"uid": "u", "operation": "CREATE", "kind": DEPLOYMENT, "object": named(), **members}
    return msgspec.json.decode(json.dumps(found), type=AdmissionRequest)


def named(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "demo", **metadata}}


def in_cluster(name: str) -> dict[str, Any]:
    return named(annotations={"kcp.io/cluster": name})


def test_the_desired_object_has_no_status_and_no_managed_fields() -> None:
    whole = {"spec": {"a": 1}, "status": {"b": 2}, "metadata": {"name": "n", "managedFields": [{}]}}
    asked = request(object=whole)
    assert asked.desired_object == {"spec": {"a": 1}, "metadata": {"name": "n"}}
    assert asked.object == whole


def test_an_object_that_was_decoded_is_not_decoded_again() -> None:
    asked = request()
    assert asked.object is asked.desired_object


@pytest.mark.parametrize("document", [None, 7, [], {"metadata": 7}])
def test_an_unusual_object_is_decoded_completely(document: Any) -> None:
    assert request(object=document).desired_object == document


def test_responses_have_the_codes_of_kubernetes() -> None:
    assert allowed() == Response(allowed=True)
    assert allowed(warnings=["w"]) == Response(allowed=True, warnings=("w",))
    assert patched([{"op": "remove", "path": "/a"}]).patch == [{"op": "remove", "path": "/a"}]
    cause = StatusCause("f", "m", "r")
    found = [denied("no"), errored("bad"), invalid("wrong", [cause])]
    assert [(one.allowed, one.code, one.reason) for one in found] == [
        (False, 403, "Forbidden"), (False, 400, "BadRequest"), (False, 422, "Invalid"),
    ]  # fmt: skip
    assert found[2].causes == (cause,)


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [("a", "a", False), ("a", "b", True), ("", "b", True), ("a", "", True), ("", "", False)],
)
def test_an_update_must_not_move_an_object_between_clusters(before: str, after: str, *, moved: bool) -> None:
    asked = request(operation="UPDATE", object=in_cluster(after), oldObject=in_cluster(before))
    assert bool(cluster_conflict(asked)) is moved
    assert bool(cluster_conflict(asked, restored=True)) is (moved and after != "")
    assert cluster_conflict(request(operation="CREATE", object=in_cluster(after))) == ""


@pytest.mark.parametrize("members", [{}, {"operation": "UPDATE"}, {"object": named(name="", generateName="demo-")}])
def test_a_write_of_an_expected_kind_is_reviewed(members: dict[str, Any]) -> None:
    assert not_for_review(request(**members), KINDS) is None


@pytest.mark.parametrize(
    "members", [{"operation": "DELETE"}, {"subResource": "scale"}, {"object": named(deletionTimestamp="now")}]
)
def test_other_requests_of_an_expected_kind_are_admitted(members: dict[str, Any]) -> None:
    assert not_for_review(request(**members), KINDS) == allowed()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"kind": {"kind": "Pod"}}, "expected a Deployment but got a Pod"),
        ({"kind": {}}, "expected a Deployment but got a nothing"),
        ({"object": None}, "request.object is not an object with metadata"),
        ({"object": named(name=7)}, "request.object: /metadata/name must be text of at most 253 characters"),
        (
            {"object": named(namespace="n" * 254)},
            "request.object: /metadata/namespace must be text of at most 253 characters",
        ),
    ],
)
def test_an_unexpected_object_is_an_error(members: dict[str, Any], message: str) -> None:
    assert not_for_review(request(**members), KINDS) == errored(message)
