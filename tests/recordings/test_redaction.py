"""Redaction: no value of a Secret, and of a named field, is anywhere in a recording."""

import base64
import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.recordings.quoted_values import Hasher
from fleethook.recordings.redaction import Patch, close_patches, open_patches
from fleethook.server.reviews.recording import AskedCall
from tests.recordings.builders import answered, encode_one, encoder, from_patch, to_base64, to_bytes, to_patch

OPERATION = {"op": "add", "path": "/data", "value": {"a": [1, None]}}


def test_patches_at_any_depth_become_operations() -> None:
    found = open_patches([{"response": {"patch": to_patch(OPERATION), "allowed": True}}])
    assert found == [{"response": {"patch": [OPERATION], "allowed": True}}]
    assert isinstance(found[0]["response"]["patch"], Patch)


def test_only_members_named_patch_are_opened() -> None:
    document = {"value": to_patch(OPERATION), "patches": [to_patch(OPERATION)]}
    assert open_patches(document) == document


def test_base64_with_line_breaks_is_a_patch() -> None:
    text = to_patch(OPERATION)
    assert open_patches({"patch": f"{text[:8]}\n{text[8:]}\n"}) == {"patch": [OPERATION]}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "no base64!",
        to_base64("{no JSON"),
        to_base64('{"op": "add"}'),
        to_base64("null"),
        to_base64(b"\xff"),
        None,
        7,
    ],
)
def test_other_values_stay_as_they_are(value: Any) -> None:
    found = open_patches({"patch": value})
    assert found == {"patch": value}
    assert close_patches(found) == {"patch": value}


def test_a_patch_inside_an_object_named_patch_is_opened() -> None:
    assert open_patches({"patch": {"patch": to_patch(OPERATION)}}) == {"patch": {"patch": [OPERATION]}}


def test_closing_writes_changed_operations_and_keeps_plain_lists() -> None:
    document = {"patch": to_patch(OPERATION), "list": [OPERATION]}
    opened = open_patches(document)
    opened["patch"][0]["value"] = "x"
    closed = close_patches([opened])[0]
    assert from_patch(closed["patch"]) == [{**OPERATION, "value": "x"}]
    assert closed["list"] == [OPERATION]
    assert base64.b64decode(document["patch"]) == base64.b64decode(to_patch(OPERATION)), "the original stays"


def test_a_document_that_is_nested_too_deeply_is_refused() -> None:
    document: Any = None
    for _ in range(199):
        document = [document]
    assert open_patches([document]) == [document]
    with pytest.raises(RecursionError):
        open_patches([[document]])


APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SECRETS = {"group": "", "version": "v1", "resource": "secrets"}
VALUE = "correct horse battery"


def secret(**members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **members}


def review(document: Any, **members: Any) -> dict[str, Any]:
    return {"kind": "AdmissionReview", "request": {"uid": "1", "object": document, **members}}


def forms(value: str) -> list[bytes]:
    """The texts that may not be in a recording: the value, its base64, and both as patches have them."""
    return [
        form for text in (value, to_base64(value)) for form in (text.encode(), base64.b64encode(text.encode())[4:-4])
    ]


def assert_hidden(body: Any, answer: Any = None, *, value: str = VALUE, calls: tuple[AskedCall, ...] = ()) -> Any:
    """Check that a value is not in the line of a review, and return the line."""
    lines = encoder().encode([answered(body, answer, calls=calls)])
    for form in forms(value):
        assert form not in lines.text
    for patch in find_patches(json.loads(lines.text)):
        for form in forms(value):
            assert form not in base64.b64decode(patch)
    return json.loads(lines.text)


def find_patches(value: Any) -> list[str]:
    if isinstance(value, list):
        return [patch for element in value for patch in find_patches(element)]
    if not isinstance(value, dict):
        return []
    own = [value["patch"]] if isinstance(value.get("patch"), str) else []
    return own + [patch for member in value.values() for patch in find_patches(member)]


@pytest.mark.parametrize(
    "document",
    [
        secret(data={"p": to_base64(VALUE)}),
        secret(stringData={"p": VALUE}),
        secret(data={"p": VALUE}),
        secret(data=VALUE),
        secret(data=[VALUE]),
        secret(data={"p": {"q": [VALUE]}}),
        {"kind": "List", "items": [secret(stringData={"p": VALUE})]},
        {"kind": "SecretList", "items": [{"data": {"p": to_base64(VALUE)}}]},
        {"kind": "Work", "spec": {"workload": {"manifests": [secret(data={"p": to_base64(VALUE)})]}}},
        secret(metadata={"annotations": {APPLIED: json.dumps(secret(stringData={"p": VALUE}))}}),
        secret(metadata={"annotations": {APPLIED: json.dumps({"stringData": {"p": VALUE}})}}),
        secret(metadata={"annotations": {APPLIED: f"stringData: {VALUE}"}}),
        {"kind": "ConfigMap", "data": {"m": json.dumps(secret(stringData={"p": VALUE}))}},
        {"kind": "ConfigMap", "data": {"m": json.dumps([json.dumps(secret(stringData={"p": VALUE}))])}},
        {"kind": "ConfigMap", "data": {"m": f"apiVersion: v1\nkind: Secret\nstringData: {{p: {VALUE}}}"}},
        {"kind": "ConfigMap", "data": {"m": f"kind:   'Secret'\nstringData: {{p: {VALUE}}}"}},
        {"kind": "ConfigMap", "data": {"m": f'log: {{"kind": "Secret", "data": "{VALUE}"}}'}},
        {"kind": "ConfigMap", "data": {"m": f'{{"kind": "Secret", "data": "{VALUE}"'}},
    ],
)
def test_a_secret_is_redacted_anywhere_in_a_review(document: Any) -> None:
    assert_hidden(review(document))
    assert_hidden({"request": {"uid": "1", "oldObject": document}})
    assert_hidden({"request": {"uid": "1", "observedObject": document}})
    assert_hidden({"request": {"uid": "1", "aggregatedStatus": [{"status": document}]}})


@pytest.mark.parametrize(
    "members",
    [
        {"kind": {"group": "", "version": "v1", "kind": "Secret"}},
        {"requestKind": {"group": "", "version": "v1", "kind": "Secret"}},
        {"resource": SECRETS, "kind": {"kind": "Secret"}},
    ],
)
def test_the_request_tells_that_an_object_without_kind_is_a_secret(members: dict[str, Any]) -> None:
    assert_hidden(review({"data": {"p": to_base64(VALUE)}, "stringData": {"q": VALUE}}, **members))


@pytest.mark.parametrize("escape", range(1, 7))
def test_escaped_names_do_not_pass(escape: int) -> None:
    letter = "Secret"[escape - 1]
    text = json.dumps(review(secret(stringData={"p": VALUE})))
    written = text.replace("Secret", "Secret".replace(letter, f"\\u{ord(letter):04x}"))
    assert json.loads(written) == json.loads(text)
    assert_hidden(written.encode())
    assert_hidden(written.replace("stringData", "string\\u0044ata").encode())


def test_escapes_in_an_annotation_do_not_pass() -> None:
    applied = json.dumps(secret(stringData={"p": VALUE})).replace("Secret", "\\u0053ecret")
    assert_hidden(review({"kind": "ConfigMap", "metadata": {"annotations": {"a": applied}}}))
    quoted = json.dumps(secret(stringData={"p": VALUE})).replace('"', "\\u0022")
    assert_hidden(b'{"request":{"uid":"1","object":{"a":"' + quoted.encode() + b'"}}}')


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "", "value": secret(stringData={"p": VALUE})},
        {"op": "add", "path": "/stringData/p", "value": VALUE},
        {"op": "add", "path": "/data", "value": {"p": to_base64(VALUE)}},
        {"op": "test", "path": "/data/p", "value": to_base64(VALUE)},
        {"op": "add", "path": "/metadata/annotations", "value": {APPLIED: f"p: {VALUE}"}},
        {"op": "add", "path": f"/metadata/annotations/{APPLIED.replace('/', '~1')}", "value": f"p: {VALUE}"},
        {"op": "replace", "path": "", "value": {"stringData": {"p": VALUE}}},
    ],
)
def test_patches_of_a_secret_are_redacted(operation: dict[str, Any]) -> None:
    answer = {"response": {"uid": "1", "allowed": True, "patchType": "JSONPatch", "patch": to_patch(operation)}}
    found = assert_hidden(review(secret(data={})), answer)
    operations = from_patch(found["answer"]["response"]["patch"])
    assert [(one["op"], one["path"]) for one in operations] == [(operation["op"], operation["path"])]


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "add", "path": "/spec/manifests/0", "value": secret(stringData={"p": VALUE})}],
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
def test_a_patch_that_makes_a_secret_of_another_object_is_redacted(operations: list[Any], padding: int) -> None:
    patch = to_base64(" " * padding + json.dumps(operations))
    assert_hidden(review({"kind": "Work", "spec": {}}), {"response": {"allowed": True, "patch": patch}})


@pytest.mark.parametrize("padding", range(3))
def test_escaped_names_in_a_patch_do_not_pass(padding: int) -> None:
    operations = json.dumps([{"op": "add", "path": "/spec/x", "value": secret(stringData={"p": VALUE})}])
    patch = to_base64(" " * padding + operations.replace("Secret", "S\\u0065cret"))
    assert_hidden(review({"kind": "Work", "spec": {}}), {"response": {"allowed": True, "patch": patch}})


def test_a_patch_that_makes_a_secret_of_the_object_redacts_the_object() -> None:
    patch = to_patch({"op": "replace", "path": "/kind", "value": "Secret"})
    document = {"kind": "ConfigMap", "data": {"p": VALUE}}
    assert_hidden(review(document), {"response": {"allowed": True, "patch": patch}})


def test_answers_of_webhooks_are_redacted() -> None:
    patch = to_patch({"op": "add", "path": "/data/p", "value": to_base64(VALUE)})
    calls = (
        AskedCall("webhook", "a", "k", answer={"allowed": True, "patch": patch}),
        AskedCall("script", "Retain", "k", answer={"object": secret(stringData={"p": VALUE})}),
        AskedCall("webhook", "b", "k", error=f'value "{VALUE}" is short', failure={"reason": VALUE}),
    )
    found = assert_hidden(review(secret(stringData={"p": VALUE})), calls=calls)
    assert [call["kind"] for call in found["calls"]] == ["webhook", "script", "webhook"]


@pytest.mark.parametrize(
    "quotation",
    [
        VALUE, f"the value {VALUE!r} is short", to_base64(VALUE), f'"{VALUE}"', f"{VALUE},{VALUE}",
        json.dumps({"p": VALUE}), f"prefix{VALUE}suffix",
    ],
)  # fmt: skip
@pytest.mark.parametrize("data", [{"data": {"p": to_base64(VALUE)}}, {"stringData": {"p": VALUE}}])
def test_quotations_in_messages_are_redacted(quotation: str, data: dict[str, Any]) -> None:
    answer = {
        "response": {
            "allowed": False,
            "status": {"message": quotation, "details": {"causes": [{"message": quotation}]}},
            "warnings": [quotation],
            "auditAnnotations": {"a": quotation, quotation: "b"},
        }
    }
    assert_hidden(review(secret(**data)), answer)


def test_a_value_with_a_newline_is_found_as_it_is_quoted() -> None:
    value = "first line of it\nsecond line of it\n"
    quotations = [
        value,
        repr(value),
        json.dumps(value),
        value.strip(),
        "second line of it",
        f"> {value.splitlines()[0]}",
    ]
    answer = {"response": {"allowed": True, "warnings": quotations}}
    text = encoder().encode([answered(review(secret(data={"p": to_base64(value)})), answer)]).text
    assert b"line of it" not in text


def test_a_line_of_a_value_is_found_without_its_line_break() -> None:
    answer = {"response": {"allowed": True, "warnings": [f"{VALUE} is short"]}}
    assert_hidden(review(secret(data={"p": to_base64(f"{VALUE}\n")})), answer)


def test_base64_with_line_breaks_is_found_as_it_is() -> None:
    wrapped = base64.encodebytes(VALUE.encode() * 5).decode()
    answer = {"response": {"allowed": True, "warnings": [f"the value {wrapped} has line breaks"]}}
    found = encode_one(answered(review(secret(data={"p": wrapped})), answer))
    assert wrapped.split()[0] not in json.dumps(found)


@pytest.mark.parametrize("quote", [json.dumps, ascii, repr, functools.partial(json.dumps, ensure_ascii=False)])
def test_a_value_with_characters_that_need_escapes_is_found_as_it_is_quoted(quote: Callable[[str], str]) -> None:
    value = "p\u00e4ssword \\ \" ' \t \u4e2d secret"
    answer = {"response": {"allowed": True, "warnings": [f"the value {quote(value)} is short"]}}
    text = encoder().encode([answered(review(secret(stringData={"p": value})), answer)]).text
    assert b"ssword" not in text
    assert b" secret" not in text


@pytest.mark.parametrize(
    ("value", "message", "shown"),
    [
        ("1234", "PIN 1234 is weak", "PIN {} is weak"),
        ("1234", "port 12345", "port 12345"),
        ("abc", 'value "abc" is weak', 'value "{}" is weak'),
        ("abc", "abc is a prefix", "abc is a prefix"),
        ("prod", "production", "production"),
    ],
)
def test_short_values_are_replaced_as_words(value: str, message: str, shown: str) -> None:
    answer = {"response": {"allowed": True, "warnings": [message]}}
    found = encode_one(answered(review(secret(stringData={"p": value})), answer))
    token = Hasher(b"k" * 32).hash_text(value)
    assert found["answer"]["response"]["warnings"] == [shown.format(token)]


def test_names_that_a_secret_repeats_stay_readable() -> None:
    document = secret(data={"namespace": to_base64("kube-system"), "user": to_base64("system:admin")})
    request = {"namespace": "kube-system", "userInfo": {"username": "system:admin"}, "operation": "CREATE"}
    found = encode_one(answered(review(document, **request)))
    assert {name: found["review"]["request"][name] for name in request} == request
    assert "kube-system" not in json.dumps(found["review"]["request"]["object"])


def test_words_of_the_protocol_stay_readable() -> None:
    document = secret(
        stringData={name: name for name in ("metadata", "allowed", "response", "request", "replace", "hmac")}
    )
    found = encode_one(answered(review(document), {"response": {"allowed": True}}))
    assert found["answer"] == {"response": {"allowed": True}}
    assert found["review"]["request"]["object"]["metadata"] == {"name": "s"}


def test_equal_values_have_equal_hashes_in_any_place() -> None:
    document = secret(data={"a": to_base64(VALUE)}, stringData={"b": VALUE, "c": "other value"})
    found = encode_one(answered(review(document), {"response": {"warnings": [VALUE]}}))["review"]["request"]["object"]
    assert base64.b64decode(found["data"]["a"]).decode() == found["stringData"]["b"] != found["stringData"]["c"]
    again = encode_one(answered(review(secret(stringData={"x": VALUE}))))
    assert again["review"]["request"]["object"]["stringData"]["x"] == found["stringData"]["b"]


def test_a_value_is_hashed_once() -> None:
    document = secret(data={"a": to_base64(VALUE)}, stringData={"b": VALUE})
    found = encode_one(answered(review(document, resource=SECRETS)))["review"]["request"]["object"]
    token = Hasher(b"k" * 32).hash_text(VALUE)
    assert (found["data"]["a"], found["stringData"]["b"]) == (to_base64(token), token)


def test_hashes_depend_on_the_key() -> None:
    assert Hasher(b"a").hash_text("x") != Hasher(b"b").hash_text("x")


def test_a_value_that_looks_like_a_hash_is_hashed() -> None:
    assert_hidden(review(secret(stringData={"p": f"hmac-sha256:{VALUE}"})))


def test_other_objects_stay_as_they_are() -> None:
    body = to_bytes(review({"kind": "Pod", "data": {"p": VALUE}, "spec": {"x": "Secret of nobody", "y": "\\u0041"}}))
    found = encode_one(answered(body))
    assert found["review"] == json.loads(body)
    assert "redacted" not in found


@pytest.mark.parametrize("field", ["apiToken", "Foo:/spec/*/apiToken", "/spec/a/apiToken"])
@pytest.mark.parametrize("value", [VALUE, [VALUE], {"x": [{"y": VALUE}]}])
def test_named_fields_are_redacted(field: str, value: Any) -> None:
    document = {"apiVersion": "a/v1", "kind": "Foo", "spec": {"a": {"apiToken": value, "other": "stays"}}}
    patch = to_patch({"op": "add", "path": "/spec/a/apiToken", "value": value})
    answer = {"response": {"allowed": True, "patch": patch, "warnings": [f"{VALUE} is short"]}}
    lines = encoder(field).encode([answered(review(document), answer), answered({"request": {}}, answer)])
    for line in lines.text.splitlines():
        assert VALUE.encode() not in line
        assert VALUE.encode() not in base64.b64decode(json.loads(line)["answer"]["response"]["patch"])
    assert json.loads(lines.text.splitlines()[0])["review"]["request"]["object"]["spec"]["a"]["other"] == "stays"


def test_a_field_of_one_kind_stays_in_others() -> None:
    document = {"kind": "Bar", "spec": {"apiToken": VALUE}}
    assert encode_one(answered(review(document)), "Foo:/spec/apiToken")["review"] == review(document)


# The frame keeps a value from being a part of another text by chance. With it, a value has at least 8 characters: a
# shorter one is replaced only where it is a word.
values = st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=30).map("q7{}z9".format)


def wrap(document: Any, ways: list[str]) -> Any:
    """Put a document into others."""
    for way in ways:
        if way == "list":
            document = {"kind": "List", "items": [document]}
        elif way == "text":
            document = {"kind": "ConfigMap", "metadata": {"annotations": {"a": json.dumps(document)}}}
        elif way == "work":
            document = {"kind": "Work", "spec": {"workload": {"manifests": [{"kind": "A"}, document]}}}
        elif way == "applied":
            document = secret(metadata={"annotations": {APPLIED: json.dumps(document)}})
    return document


@given(
    value=values,
    member=st.sampled_from(["data", "stringData"]),
    ways=st.lists(st.sampled_from(["list", "text", "work", "applied"]), max_size=3),
    place=st.sampled_from(["object", "oldObject", "observedObject"]),
    answered_by=st.sampled_from(["patch", "warnings", "call", "message", "nothing"]),
    path=st.sampled_from(["", "/data", "/stringData/p", "/spec/x", "/items/0/data/p"]),
    ascii_only=st.booleans(),
)
def test_no_generated_value_is_in_the_file(
    value: str, member: str, ways: list[str], place: str, answered_by: str, path: str, *, ascii_only: bool
) -> None:
    given_value = to_base64(value) if member == "data" else value
    document = wrap(secret(**{member: {"p": given_value}}), ways)
    body = json.dumps({"request": {"uid": "1", place: document}}, ensure_ascii=ascii_only).encode()
    response: dict[str, Any] = {"uid": "1", "allowed": True}
    calls: tuple[AskedCall, ...] = ()
    if answered_by == "patch":
        nested: Any = {"op": "add", "path": path, "value": document if path in ("", "/spec/x") else given_value}
        response["patch"] = to_patch(nested)
    elif answered_by == "warnings":
        response["warnings"] = [f"see {value}", given_value, json.dumps(value)]
    elif answered_by == "message":
        response["status"] = {"message": f"{value!r} is refused"}
    elif answered_by == "call":
        calls = (AskedCall("script", "s", "k", answer={"object": document, "message": f"a{value}b"}),)
    line = encoder().encode([answered(body, {"response": response}, calls=calls)])
    texts = [line.text, *(base64.b64decode(patch) for patch in find_patches(json.loads(line.text)))]
    for text in texts:
        decoded = text.decode()
        for form in (value, json.dumps(value)[1:-1], to_base64(value)):
            assert form not in decoded
        # The same without escapes of the outer texts.
        assert value not in decoded.encode().decode("unicode_escape", "ignore")


@given(value=values, fields=st.sampled_from(["token", "Foo:/a/*/token", "/a/*"]))
def test_no_generated_value_of_a_named_field_is_in_the_file(value: str, fields: str) -> None:
    document = {"kind": "Foo", "a": [{"token": value}, {"token": {"x": value}}]}
    text = encoder(fields).encode([answered(review(document), {"response": {"warnings": [value]}})]).text
    assert value not in json.dumps(json.loads(text), ensure_ascii=False)
