"""ResourceClaims and ResourceSlices in v1beta1 and in later versions."""

from typing import Any

import pytest

from app.dispatch.builtin_conversion.devices import convert_claim, convert_slice, convert_template

V1BETA1, V1BETA2, V1 = (f"resource.k8s.io/{version}" for version in ("v1beta1", "v1beta2", "v1"))
NESTED = {"name": "gpu", "exactly": {"deviceClassName": "g", "count": 2}}
FLAT = {"name": "gpu", "deviceClassName": "g", "count": 2}
CHOICE = {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "g"}]}


def claim(version: str, *requests: Any, **spec: Any) -> Any:
    return {"apiVersion": version, "kind": "ResourceClaim", "spec": {"devices": {"requests": list(requests)}, **spec}}


def slice_of(version: str, *devices: Any, **spec: Any) -> Any:
    return {"apiVersion": version, "kind": "ResourceSlice", "spec": {**spec, "devices": list(devices)}}


@pytest.mark.parametrize("later", [V1, V1BETA2])
def test_requests_are_flat_in_v1beta1_and_nested_later(later: str) -> None:
    assert convert_claim(claim(later, NESTED), V1BETA1) == claim(V1BETA1, FLAT)
    assert convert_claim(claim(V1BETA1, FLAT), later) == claim(later, NESTED)


def test_later_versions_differ_only_in_their_name() -> None:
    assert convert_claim(claim(V1BETA2, NESTED, other=1), V1) == claim(V1, NESTED, other=1)
    assert convert_slice(slice_of(V1, {"name": "d"}, allNodes=False), V1BETA2) == slice_of(
        V1BETA2, {"name": "d"}, allNodes=False
    )


def test_a_request_with_alternatives_has_an_empty_class_in_v1beta1_and_no_exact_request_later() -> None:
    flat = {**CHOICE, "deviceClassName": ""}
    assert convert_claim(claim(V1, CHOICE), V1BETA1) == claim(V1BETA1, flat)
    assert convert_claim(claim(V1BETA1, flat), V1) == claim(V1, CHOICE)


def test_an_exact_request_without_a_class_keeps_its_members() -> None:
    assert convert_claim(claim(V1BETA1, {"name": "a", "count": 1}), V1) == claim(
        V1, {"name": "a", "exactly": {"deviceClassName": "", "count": 1}}
    )


@pytest.mark.parametrize("spec", [None, {}, {"devices": None}, {"devices": {"requests": None}}])
def test_a_claim_without_requests_has_none_afterwards(spec: Any) -> None:
    document = {"apiVersion": V1, "kind": "ResourceClaim", "spec": spec}
    assert convert_claim(document, V1BETA1)["spec"] == {"devices": {"requests": None}}


def test_the_spec_inside_a_template_is_converted_and_its_metadata_kept() -> None:
    template = {"apiVersion": V1, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": claim(V1, NESTED)["spec"]}}
    assert convert_template(template, V1BETA1) == {
        "apiVersion": V1BETA1,
        "spec": {"metadata": {"labels": {"a": "b"}}, "spec": claim(V1BETA1, FLAT)["spec"]},
    }
    assert convert_template(template, V1BETA2) == {**template, "apiVersion": V1BETA2}


def test_devices_are_nested_in_v1beta1_and_flat_later() -> None:
    flat = {"name": "d", "attributes": {"a": {"int": 1}}, "taints": []}
    nested = {"name": "d", "basic": {"attributes": {"a": {"int": 1}}, "taints": []}}
    assert convert_slice(slice_of(V1, flat, driver="x"), V1BETA1) == slice_of(V1BETA1, nested, driver="x")
    assert convert_slice(slice_of(V1BETA1, nested, driver="x"), V1) == slice_of(V1, flat, driver="x")


@pytest.mark.parametrize(("from_version", "to_version"), [(V1, V1BETA1), (V1BETA1, V1)])
def test_false_and_empty_members_of_a_slice_are_omitted(from_version: str, to_version: str) -> None:
    found = convert_slice(slice_of(from_version, nodeName="", allNodes=False), to_version)
    assert found["spec"] == {"devices": []}
    found = convert_slice(slice_of(from_version, nodeName="n", allNodes=True), to_version)
    assert found["spec"] == {"nodeName": "n", "allNodes": True, "devices": []}


@pytest.mark.parametrize("document", [claim(V1, "text"), {"apiVersion": V1, "spec": {"devices": 7}}])
def test_a_value_of_a_wrong_type_is_an_error(document: Any) -> None:
    with pytest.raises(TypeError):
        convert_claim(document, V1BETA1)


def test_the_original_stays_unchanged() -> None:
    document = claim(V1, NESTED)
    convert_claim(document, V1BETA1)
    assert document == claim(V1, NESTED)
