"""The annotations of stored objects name the logical cluster of a request."""

from typing import Any

import pytest

from fleethook.engines.dispatch.dispatch_errors import StatusError
from fleethook.engines.dispatch.owner.cluster_annotation import find_annotated_cluster
from tests.engines.dispatch.builders import request_of, review, widget


def of(cluster: str | None, **spec: Any) -> dict[str, Any]:
    made = widget(**spec)
    if cluster is not None:
        made["metadata"]["annotations"] = {"kcp.io/cluster": cluster}
    return made


def refuse(made: dict[str, Any]) -> str:
    with pytest.raises(StatusError) as caught:
        find_annotated_cluster(request_of(made))
    assert (caught.value.status.code, caught.value.status.reason) == (400, "BadRequest")
    return str(caught.value)


@pytest.mark.parametrize(
    "made",
    [
        review(of("ws3")),
        review(of("ws3", size=2), old=of("ws3", size=1), operation="UPDATE"),
        review(of("ws3"), old=of("ws3"), operation="UPDATE", subResource="status"),
        review(None, old=of("ws3"), operation="DELETE"),
    ],
)
def test_stored_objects_name_their_cluster(made: dict[str, Any]) -> None:
    assert find_annotated_cluster(request_of(made)) == "ws3"


def test_system_clusters_are_names() -> None:
    assert find_annotated_cluster(request_of(review(of("system:admin")))) == "system:admin"


@pytest.mark.parametrize(("before", "after"), [("ws2", "ws3"), ("ws2", None), (None, "ws3")])
def test_updates_cannot_move_an_object_to_another_cluster(before: str | None, after: str | None) -> None:
    text = refuse(review(of(after), old=of(before), operation="UPDATE"))
    assert text == (
        f"request.object is in logical cluster {after or ''!r} and request.oldObject in {before or ''!r} (annotation "
        "kcp.io/cluster): an update cannot move an object; do not change the annotation"
    )


@pytest.mark.parametrize(
    ("made", "member"),
    [
        (review(of(None)), "object"),
        (review(of("")), "object"),
        (review(of(None), old=of(None), operation="UPDATE"), "object"),
        (review(None, old=of(None), operation="DELETE"), "oldObject"),
    ],
)
def test_objects_without_the_annotation_are_refused(made: dict[str, Any], member: str) -> None:
    assert refuse(made) == (
        f"request.{member} has no annotation kcp.io/cluster, so the logical cluster is unknown: have the control "
        "plane set it when it creates objects, or exclude the object's namespace by the namespaceSelector of the "
        "webhook configuration"
    )


def test_deletions_without_old_object_are_refused() -> None:
    made = review(of("ws3"), operation="DELETE")
    made["request"]["object"] = None
    assert refuse(made).startswith("the review has no request.oldObject, so the logical cluster is unknown")


@pytest.mark.parametrize("name", ["root:ws3", "*", "Upper", "a/b"])
def test_annotations_must_be_names_not_paths(name: str) -> None:
    text = refuse(review(of(name)))
    assert text.startswith(
        f"request.object has the annotation kcp.io/cluster: {name!r}, which is not a logical cluster name"
    )
    assert text.endswith("annotate objects with names, not with paths")


def test_bodies_that_are_not_stored_are_refused() -> None:
    options = {"apiVersion": "v1", "kind": "PodExecOptions", "metadata": of("ws3")["metadata"]}
    assert refuse(review(options, operation="CONNECT")) == (
        "a CONNECT review carries no stored object, so the logical cluster is unknown: leave CONNECT out of the "
        "rules, or send such reviews to /clusters/NAME/{mutate,validate}"
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": of("ws3")["metadata"]}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    assert refuse(review(eviction, resource=resource, subResource="eviction")) == (
        "the body of a CREATE of pods/eviction is not stored, so the logical cluster is unknown: leave "
        "pods/eviction out of the rules, or send such reviews to /clusters/NAME/{mutate,validate}"
    )
