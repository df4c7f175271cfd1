"""The review routes of Karmada instances."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from fleethook.app import create_app
from fleethook.cluster.registration import paths
from fleethook.engines.crds.crds_server import mutate_karmada, validate_karmada
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, allowed
from fleethook.settings import Settings
from tests.engines.crds.anything import JSON, TARBALLS
from tests.server.reviews.asking_routes import ask, review


async def test_the_routes_of_instances_set_defaults_and_validate() -> None:
    routes = {route.path: route for route in create_app(Settings(), log=None).engines["crds"].routes()}
    assert set(routes) == {paths.MUTATE_KARMADA, paths.VALIDATE_KARMADA}
    kind = {"group": "operator.karmada.io", "version": "v1alpha1", "kind": "Karmada"}
    instance = {"apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada", "metadata": {"name": "a"}, "spec": {}}
    wrong = {**instance, "spec": {"crdTarball": {"httpSource": {"url": "ftp://a"}}}}
    assert (await ask(routes[paths.MUTATE_KARMADA], review(instance, kind)))["allowed"]
    assert not (await ask(routes[paths.VALIDATE_KARMADA], review(wrong, kind)))["allowed"]


BAD = {"httpSource": {"url": "bad-url"}}
FINDING = 'Invalid value: "bad-url": invalid CRDs remote URL'
KIND = {"group": "operator.karmada.io", "version": "v1alpha1", "kind": "Karmada"}


def karmada(tarball: Any = None, **metadata: Any) -> Any:
    return {"metadata": {"name": "k", "namespace": "n", **metadata}, "spec": {"crdTarball": tarball}}


def review_of(document: Any, old: Any = None, **fields: Any) -> AdmissionRequest:
    request = {
        "uid": "u", "operation": "CREATE" if old is None else "UPDATE", "kind": KIND, "object": document,
        "oldObject": old, **fields,
    }  # fmt: skip
    return msgspec.json.decode(json.dumps(request), type=AdmissionRequest)


def test_an_instance_without_tarball_fields_is_admitted_unchanged() -> None:
    assert mutate_karmada(review_of(karmada())) == allowed()
    assert validate_karmada(review_of(karmada())) == allowed()
    assert validate_karmada(review_of(karmada({}))) == allowed()


def test_an_invalid_instance_is_refused_with_upstreams_message_and_each_problem() -> None:
    assert validate_karmada(review_of(karmada(BAD))) == Response(
        allowed=False,
        code=422,
        reason="Invalid",
        message=f"validation errors: [spec.crdTarball.httpSource.url: {FINDING}]",
        causes=(StatusCause("spec.crdTarball.httpSource.url", FINDING, "FieldValueInvalid"),),
    )


def test_warnings_come_with_either_answer() -> None:
    plain = "spec.crdTarball.httpSource.url: plain http without sha256"
    admitted = validate_karmada(review_of(karmada({"httpSource": {"url": "http://h/"}})))
    assert admitted.allowed
    assert [warning.startswith(plain) for warning in admitted.warnings] == [True]
    refused = validate_karmada(review_of(karmada({"httpSource": {"url": "http://h/", "sha256": "a"}, "version": "x"})))
    assert not refused.allowed


def test_an_update_without_a_change_of_spec_is_admitted() -> None:
    old = karmada(BAD)
    assert validate_karmada(review_of(karmada(BAD, finalizers=["operator.karmada.io/finalizer"]), old)) == allowed()
    assert validate_karmada(review_of({**old, "spec": {**old["spec"], "suspend": True}}, old)).allowed
    assert not validate_karmada(review_of(karmada({"httpSource": {"url": "worse"}}), old)).allowed
    assert not validate_karmada(review_of(karmada(BAD), karmada({}))).allowed


def test_an_update_that_leaves_the_spec_alone_is_not_warned_of_again() -> None:
    plain = {"httpSource": {"url": "http://h/"}}
    assert validate_karmada(review_of(karmada(plain), karmada())).warnings
    assert validate_karmada(review_of(karmada(plain, labels={"a": "b"}), karmada(plain))) == allowed()


@pytest.mark.parametrize("handler", [mutate_karmada, validate_karmada])
def test_deletions_and_status_updates_are_admitted(handler: Any) -> None:
    assert handler(review_of(karmada(BAD, deletionTimestamp="2026-01-01T00:00:00Z"))) == allowed()
    assert handler(review_of(None, karmada(BAD), operation="DELETE")) == allowed()
    assert handler(review_of(karmada(BAD), karmada({}), subResource="status")) == allowed()


@pytest.mark.parametrize("handler", [mutate_karmada, validate_karmada])
def test_an_object_that_is_not_an_instance_is_named(handler: Any) -> None:
    other = handler(review_of(karmada(), kind={**KIND, "kind": "Other"}))
    assert (other.allowed, other.code, other.message) == (False, 400, "expected a Karmada but got a Other")
    for document in (None, 5, [], {}, {"metadata": 5}):
        answer = handler(review_of(document))
        assert (answer.allowed, answer.message) == (False, "request.object is not an object with metadata")


@given(TARBALLS, JSON)
def test_anything_is_answered(tarball: Any, old: Any) -> None:
    for document, before in ((karmada(tarball), None), (karmada(tarball), old), (karmada(tarball), {"spec": old})):
        assert isinstance(mutate_karmada(review_of(document, before)), Response)
        assert isinstance(validate_karmada(review_of(document, before)), Response)
