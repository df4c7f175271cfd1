"""A review that may contain a Secret is not recorded, and no value of a named field is anywhere in a recording."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.recordings.recorder import encode_line
from fleethook.recordings.redaction import Redactor, SecretError, make_redactor, parse_field
from fleethook.server.reviews.records_and_traces import AskedCall, RecordSettingError
from tests.recordings.builders import answered, to_base64, to_bytes, to_patch

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
VALUE = "correct horse battery"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": VALUE}}
TEXT = json.dumps(SECRET)
KIND = {"group": "", "version": "v1", "kind": "Secret"}


def review(document: Any, **members: Any) -> dict[str, Any]:
    return {"kind": "AdmissionReview", "request": {"uid": "1", "object": document, **members}}


def encode(
    body: Any, answer: Any = None, *fields: str, calls: tuple[AskedCall, ...] = (), status: int = 200
) -> dict[str, Any]:
    redactor = Redactor(b"k" * 32, [parse_field(one) for one in fields])
    line = encode_line(answered(body, answer, calls=calls, status=status), redactor)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize(
    "document",
    [
        SECRET,
        {"kind": "Secret", "metadata": {"name": "s"}, "data": {"p": to_base64(VALUE)}},
        {"kind": "List", "items": [SECRET]},
        {"kind": "SecretList", "items": [{"data": {"p": to_base64(VALUE)}}]},
        {"kind": "Work", "spec": {"workload": {"manifests": [SECRET]}}},
        {"kind": "ConfigMap", "metadata": {"annotations": {APPLIED: TEXT}}},
        {"kind": "ConfigMap", "data": {"m": json.dumps([TEXT])}},
        {"kind": "ConfigMap", "data": {"m": TEXT.replace("Secret", "\\u0053ecret")}},
        {"kind": "ConfigMap", "data": {"m": f"apiVersion: v1\nkind: Secret\nstringData: {{p: {VALUE}}}"}},
        {"kind": "ConfigMap", "data": {"m": f"kind:   'Secret'\nstringData: {{p: {VALUE}}}"}},
        {"kind": "ConfigMap", "data": {"m": f'log: {{"kind": "Secret", "data": "{VALUE}"}}'}},
        {"kind": "ConfigMap", "data": {"m": f'{{"kind": "Secret", "data": "{VALUE}"'}},
        {"kind": "ConfigMap", "data": {TEXT: "key"}},
    ],
)
@pytest.mark.parametrize("place", ["object", "oldObject", "observedObject"])
def test_a_review_with_a_manifest_of_a_secret_is_not_recorded(document: Any, place: str) -> None:
    with pytest.raises(SecretError):
        encode({"request": {"uid": "1", place: document}})


@pytest.mark.parametrize(
    "body",
    [
        review({"data": {"p": to_base64(VALUE)}}, kind=KIND),
        review({"data": {"p": to_base64(VALUE)}}, requestKind=KIND),
        review(None, kind=KIND, oldObject={"kind": "ConfigMap"}),
        json.dumps(review(SECRET)).replace("Secret", "S\\u0065cret").encode(),
        json.dumps(review(SECRET)).encode("utf-16"),
        b"[" * 500 + b'{"kind": "Secret", "data": {}}' + b"]" * 500,
    ],
)
def test_a_review_that_is_about_a_secret_in_another_form_is_not_recorded(body: Any) -> None:
    with pytest.raises(SecretError):
        encode(body)


@pytest.mark.parametrize("text", [f"kind: Secret\nstringData: {{p: {VALUE}}}".encode(), TEXT[:-5].encode()])
def test_a_refused_body_that_may_be_a_secret_is_not_recorded(text: bytes) -> None:
    with pytest.raises(SecretError):
        encode(text, status=400)


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "add", "path": "/spec/manifests/0", "value": SECRET}],
        [{"op": "add", "path": "/spec/text", "value": TEXT}],
        [
            {"op": "add", "path": "/spec/manifests/0", "value": {"stringData": {"p": VALUE}}},
            {"op": "add", "path": "/spec/manifests/0/kind", "value": "Secret"},
        ],
        [
            {"op": "add", "path": "/spec/manifests/0", "value": {"kind": "Secret"}},
            {"op": "add", "path": "/spec/manifests/0/data", "value": {"p": to_base64(VALUE)}},
        ],
    ],
)
@pytest.mark.parametrize("padding", range(3))
def test_a_patch_that_makes_a_secret_keeps_the_review_out(operations: list[Any], padding: int) -> None:
    patch = to_base64(" " * padding + json.dumps(operations).replace("Secret", "S\\u0065cret", padding % 2))
    with pytest.raises(SecretError):
        encode(review({"kind": "Work", "spec": {}}), {"response": {"allowed": True, "patch": patch}})


def test_an_answer_of_a_call_with_a_secret_keeps_the_review_out() -> None:
    with pytest.raises(SecretError):
        encode(review({"kind": "Foo"}), calls=(AskedCall("script", "Retain", "k", answer={"object": SECRET}),))


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "Pod", "spec": {"imagePullSecrets": [{"name": "a"}], "volumes": [{"secret": {"secretName": "s"}}]}},
        {"kind": "Gateway", "spec": {"certificateRefs": [{"kind": "Secret", "name": "tls"}]}},
        {"kind": "Foo", "spec": {"x": "Secret of nobody", "y": "\\u0041"}},
    ],
)
def test_references_to_secrets_are_recorded(document: Any) -> None:
    body = to_bytes(review(document))
    found = encode(body)
    assert found["review"] == json.loads(body)
    assert "redacted" not in found


@pytest.mark.parametrize("field", ["apiToken", "Foo:/spec/*/apiToken", "/spec/a/apiToken"])
@pytest.mark.parametrize("value", [VALUE, [VALUE], {"x": [{"y": VALUE}]}])
def test_named_fields_are_hashed_in_objects_texts_and_patches(field: str, value: Any) -> None:
    document = {"apiVersion": "a/v1", "kind": "Foo", "spec": {"a": {"apiToken": value, "other": "stays"}}}
    applied = {**document, "metadata": {"annotations": {APPLIED: json.dumps(document)}}}
    patch = to_patch({"op": "add", "path": "/spec/a/apiToken", "value": value})
    found = encode(review(applied), {"response": {"allowed": True, "patch": patch}}, field)
    assert found["redacted"] is True
    assert VALUE not in json.dumps(found)
    assert VALUE.encode() not in base64.b64decode(found["answer"]["response"]["patch"])
    assert found["review"]["request"]["object"]["spec"]["a"]["other"] == "stays"


def test_equal_values_have_equal_hashes_of_one_key() -> None:
    document = {"kind": "Foo", "a": {"token": VALUE}, "b": {"token": VALUE}, "c": {"token": "other"}}
    found = encode(review(document), None, "token")["review"]["request"]["object"]
    assert found["a"] == found["b"] != found["c"]
    other = json.loads(encode_line(answered(review(document)), Redactor(b"o", [parse_field("token")])))
    assert other["review"]["request"]["object"]["a"] != found["a"]


values = st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=30).map("q7{}z9".format)


@given(value=values, fields=st.sampled_from(["token", "Foo:/a/*/token", "/a/*"]), ascii_only=st.booleans())
def test_no_generated_value_of_a_named_field_is_in_a_line(value: str, fields: str, *, ascii_only: bool) -> None:
    document = {"kind": "Foo", "a": [{"token": value}, {"token": {"x": value}}]}
    body = json.dumps(review(document), ensure_ascii=ascii_only).encode()
    assert value not in json.dumps(encode(body, None, fields), ensure_ascii=False)


@pytest.mark.parametrize("text", ["", "/", "Secret:", "a b"])
def test_a_field_that_cannot_be_read_names_the_setting(text: str) -> None:
    with pytest.raises(RecordSettingError, match="record_redact: "):
        make_redactor(["password", text])
