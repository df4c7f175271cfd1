from typing import Any

import msgspec
import pytest

from fleethook.engines.dispatch.request_from_manifest import (
    InputDocument,
    InputRequestError,
    RequestOperation,
    RequestOptions,
    find_problem,
    make_input_request,
)
from tests.engines.dispatch.builders import binding, review, store_of, widget

NO_OPTIONS = RequestOptions(None, {}, None, dry_run=False)


def document(value: dict[str, Any], cluster: str | None = "c") -> InputDocument:
    return InputDocument(value, "w.yaml:1", cluster)


def test_a_manifest_becomes_the_request_that_kubectl_would_send() -> None:
    planned = make_input_request(store_of(binding("c", "p", "widgets.example.org")), document(widget()), NO_OPTIONS)
    assert (planned.cluster, planned.request.operation, planned.request.resource.resource, planned.notes) == (
        "c",
        "CREATE",
        "widgets",
        (),
    )


def test_a_deletion_has_only_the_old_object() -> None:
    options = NO_OPTIONS._replace(operation=RequestOperation.DELETE)
    request = make_input_request(store_of(), document(widget(size=3)), options).request
    assert msgspec.json.decode(request.object_raw) is None
    assert msgspec.json.decode(request.old_object_raw)["spec"] == {"size": 3}


def test_a_guessed_resource_is_noted() -> None:
    planned = make_input_request(store_of(), document(widget()), NO_OPTIONS)
    assert planned.notes == ("no CRD or APIBinding defines Widget; assuming resource widgets",)


def test_an_object_without_a_cluster_names_the_remedy() -> None:
    with pytest.raises(
        InputRequestError, match=r"w\.yaml:1: the logical cluster is unknown: add .* or give --cluster NAME"
    ):
        make_input_request(store_of(), document(widget(), None), NO_OPTIONS)


def test_a_review_that_cannot_be_read_is_an_error() -> None:
    broken = {**review(widget()), "request": {"uid": 1}}
    with pytest.raises(InputRequestError, match=r"w\.yaml:1: "):
        make_input_request(store_of(), document(broken), NO_OPTIONS)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "apiVersion and kind are required"),
        ([], "apiVersion and kind are required"),
        ({"apiVersion": "v1", "kind": "Pod"}, "metadata is required"),
        ({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": []}, "metadata is required"),
        ({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}, ""),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}, "name and namespace must be text"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {}}, ""),
        ({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}, ""),
    ],
)
def test_a_document_that_is_neither_object_nor_review_has_a_problem(value: Any, problem: str) -> None:
    assert find_problem(value) == problem


def test_a_body_without_a_name_is_noted_and_has_no_metadata_under_connect() -> None:
    body = {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["ls"]}
    planned = make_input_request(store_of(), document(body), NO_OPTIONS)
    assert planned.notes == (
        "PodExecOptions names no object, so the request has no name: set metadata.name to that of the object",
    )
    assert planned.request.namespace == "default"
    assert msgspec.json.decode(planned.request.object_raw) == body


@pytest.mark.parametrize(("spec", "replicas"), [({"replicas": 5}, {"replicas": 5}), ({}, {"replicas": 1})])
def test_a_workload_sent_to_scale_has_its_replicas(spec: dict[str, Any], replicas: dict[str, Any]) -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    options = NO_OPTIONS._replace(resource="deployments.apps/scale")
    scale = msgspec.json.decode(make_input_request(store_of(), document(deployment), options).request.object_raw)
    assert (scale["kind"], scale["spec"]) == ("Scale", replicas)
