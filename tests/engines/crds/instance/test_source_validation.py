"""Validation of ``spec.crdTarball``, beyond the cases of the conformance data, and the reviews of instances."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from fleethook.engines.crds.instance.defaults_and_lifecycle import mutate_karmada
from fleethook.engines.crds.instance.source_validation import (
    MAX_MIRRORS,
    MAX_NO_PROXY,
    aggregate_problems,
    find_http_problems,
    find_problems,
    find_reference_problems,
    find_warnings,
    validate_karmada,
)
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, allowed
from fleethook.model.formats.field_errors import FieldError
from tests.engines.crds.anything import JSON, TARBALLS

URL = "https://h/crds.tar.gz"

HTTP = "spec.crdTarball.httpSource"


def found_http(*, strict: bool = False, namespace: Any = "n", **members: Any) -> list[str]:
    source = {"url": URL, **members}
    problems = find_http_problems(source, HTTP, namespace=namespace, strict=strict)
    return [f"{field}: {text}".removeprefix(f"{HTTP}.") for field, text in problems]


def test_every_member_at_its_best_is_fine() -> None:
    assert (
        found_http(
            proxy={"proxyURL": "socks5h://p:1080", "secretRef": {"name": "p"}, "noProxy": ["a", ".b"]},
            sha256="A" * 64,
            mirrors=["https://m/crds.tar.gz"] * 8,
            caSecretRef={"name": "c", "namespace": "n"},
            secretRef={"name": "s"},
            timeoutSeconds=3600,
            maxBytes=1,
        )
        == []
    )


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"url": 5}, "url: Invalid value: must be a string"),
        ({"url": "https://:443/"}, 'url: Invalid value: "https://:443/": host is required'),
        ({"url": "https://h:0/"}, 'url: Invalid value: "https://h:0/": port must be between 1 and 65535'),
        ({"url": "https://h:65536/"}, 'url: Invalid value: "https://h:65536/": port must be between 1 and 65535'),
        ({"url": "https://h/#f"}, 'url: Invalid value: "https://h/#f": must not have a fragment'),
        ({"url": "*"}, 'url: Invalid value: "*": scheme must be http or https'),
        ({"proxy": 5}, "proxy: Invalid value: must be an object"),
        (
            {"proxy": {"proxyURL": "ftp://p"}},
            'proxy.proxyURL: Invalid value: "ftp://p": scheme must be http, https, socks5 or socks5h',
        ),
        ({"proxy": {"proxyURL": URL, "noProxy": "a"}}, "proxy.noProxy: Invalid value: must be a list"),
        ({"proxy": {"proxyURL": URL, "noProxy": [" "]}}, "proxy.noProxy[0]: Required value"),
        ({"proxy": {"proxyURL": URL, "noProxy": [1]}}, "proxy.noProxy[0]: Invalid value: must be a string"),
        ({"proxy": {"proxyURL": URL, "secretRef": {}}}, "proxy.secretRef.name: Required value"),
        ({"sha256": "a" * 63}, f'sha256: Invalid value: "{"a" * 63}": must be 64 hexadecimal digits'),
        ({"sha256": 1}, "sha256: Invalid value: must be a string"),
        ({"mirrors": URL}, "mirrors: Invalid value: must be a list"),
        ({"mirrors": [URL] * 9}, "mirrors: Too many: 9: must have at most 8 items"),
        ({"mirrors": [URL, "m"]}, 'mirrors[1]: Invalid value: "m": invalid CRDs mirror URL'),
        ({"caBundle": "?"}, "caBundle: Invalid value: unable to load root certificates: it is not PEM in base64"),
        ({"caSecretRef": []}, "caSecretRef: Invalid value: must be an object"),
        ({"secretRef": {"name": 1}}, "secretRef.name: Invalid value: must be a string"),
        (
            {"secretRef": {"name": "s", "namespace": "other"}},
            "secretRef.namespace: Forbidden: must be the namespace of the Karmada, or empty",
        ),
        ({"timeoutSeconds": 3601}, "timeoutSeconds: Invalid value: must be between 1 and 3600"),
        ({"timeoutSeconds": True}, "timeoutSeconds: Invalid value: must be an integer"),
        ({"maxBytes": 0}, "maxBytes: Invalid value: must be between 1 and 16777216"),
        ({"maxBytes": 33554432}, "maxBytes: Invalid value: must be between 1 and 16777216"),
        ({"maxBytes": 1.0}, "maxBytes: Invalid value: must be an integer"),
    ],
)
def test_an_invalid_field_of_an_http_source_is_reported(members: dict[str, Any], text: str) -> None:
    assert found_http(**members) == [text]


def test_a_secret_is_not_shown_however_broken_its_url_is() -> None:
    (refusal,) = found_http(url="user:hunter2@h/crds.tar.gz")
    assert "hunter2" not in refusal
    assert refusal.startswith("url: Invalid value: ")


@pytest.mark.parametrize("source", [5, "text", []])
def test_a_source_that_is_not_an_object_is_one_problem(source: Any) -> None:
    assert list(find_http_problems(source, HTTP, namespace="n", strict=False)) == [
        FieldError(HTTP, "Invalid value: must be an object")
    ]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"url": "https://user:hunter2@h/"}, "url"),
        ({"mirrors": ["https://user:hunter2@h/"]}, "mirrors[0]"),
        ({"proxy": {"proxyURL": "http://user:hunter2@p/"}}, "proxy.proxyURL"),
    ],
)
def test_credentials_in_a_url_are_refused_only_if_strict(members: dict[str, Any], field: str) -> None:
    assert found_http(**members) == []
    (refusal,) = found_http(strict=True, **members)
    assert refusal.startswith(f"{field}: Invalid value: ")
    assert refusal.endswith("must not have credentials: name a Secret in secretRef")
    assert "hunter2" not in refusal


@pytest.mark.parametrize(
    ("reference", "texts"),
    [
        ({"name": "s"}, []),
        ({"name": "s", "namespace": "n"}, []),
        ({"name": "s", "namespace": ""}, []),
        (
            {"name": "s", "namespace": "other"},
            ["r.namespace: Forbidden: must be the namespace of the Karmada, or empty"],
        ),
        ({"name": 5}, ["r.name: Invalid value: must be a string"]),
        (5, ["r: Invalid value: must be an object"]),
        (None, []),
    ],
)
def test_a_reference_names_an_object_in_the_namespace_of_the_instance(reference: Any, texts: list[str]) -> None:
    found = find_reference_problems(reference, "r", namespace="n")
    assert [f"{field}: {text}" for field, text in found] == texts


def test_elements_beyond_the_limit_are_counted_and_not_read() -> None:
    mirrors = ["https://m/"] * MAX_MIRRORS + [5]
    assert found_http(mirrors=mirrors) == ["mirrors: Too many: 9: must have at most 8 items"]
    names = ["a"] * MAX_NO_PROXY + [5]
    found = found_http(proxy={"proxyURL": "http://p", "noProxy": names})
    assert found == ["proxy.noProxy: Too many: 65: must have at most 64 items"]


def found(tarball: Any, *, old: Any = None, strict: bool = False) -> list[str]:
    karmada = {"metadata": {"name": "k", "namespace": "n"}, "spec": {"crdTarball": tarball}}
    return [f"{field}: {text}" for field, text in find_problems(karmada, old=old, strict=strict)]


@pytest.mark.parametrize(
    ("tarball", "text"),
    [
        (5, "spec.crdTarball: Invalid value: must be an object"),
        ({"httpSource": []}, f"{HTTP}: Invalid value: must be an object"),
        ({"crdDownloadPolicy": 1}, "spec.crdTarball.crdDownloadPolicy: Invalid value: must be a string"),
        ({"localSource": 1}, "spec.crdTarball.localSource: Invalid value: must be an object"),
        ({"localSource": {}}, "spec.crdTarball.localSource.path: Required value"),
        (
            {"localSource": {"path": "a"}},
            "spec.crdTarball.localSource.path: Invalid value: \"a\": must be an absolute path without '..'",
        ),
        (
            {"localSource": {"path": "/a/../b"}},
            "spec.crdTarball.localSource.path: Invalid value: \"/a/../b\": must be an absolute path without '..'",
        ),
        ({"version": 1}, "spec.crdTarball.version: Invalid value: must be a string"),
        ({"version": "1.10"}, 'spec.crdTarball.version: Invalid value: "1.10": must be a release such as v1.10.0'),
        (
            {"version": "v1.10.0", "httpSource": {"url": URL}},
            "spec.crdTarball.version: Forbidden: may not be set together with httpSource.url, which names the tarball",
        ),
        (
            {"version": "v1.10.0", "localSource": {"path": "/a"}},
            "spec.crdTarball.version: Forbidden: may not be set together with localSource, which names the tarball",
        ),
        (
            {"httpSource": {}, "localSource": {"path": "/a"}},
            "spec.crdTarball.localSource: Forbidden: may not be set together with httpSource: set at most one source",
        ),
    ],
)
def test_an_invalid_tarball_field_is_reported(tarball: Any, text: str) -> None:
    assert found(tarball) == [text]


def test_upstreams_findings_come_first_and_all_are_named_in_one_text() -> None:
    tarball = {"httpSource": {"url": "a", "proxy": {"proxyURL": "b"}, "sha256": "c"}, "crdDownloadPolicy": "d"}
    fields = [problem.field for problem in find_problems({"spec": {"crdTarball": tarball}})]
    assert fields == [
        f"{HTTP}.url", f"{HTTP}.proxy.proxyURL", f"{HTTP}.sha256", "spec.crdTarball.crdDownloadPolicy",
    ]  # fmt: skip
    assert aggregate_problems([FieldError("a", "b"), FieldError("c", "d")]) == "validation errors: [a: b c: d]"


def test_an_update_admits_only_unchanged_invalid_fields() -> None:
    tarball = {"httpSource": {"url": "bad-url"}}
    assert found(tarball, old={"spec": {"crdTarball": tarball}}) == []
    assert len(found(tarball, old={"spec": {"crdTarball": {"httpSource": {"url": "worse"}}}})) == 1
    assert len(found(tarball, old={"spec": 5})) == 1


@given(TARBALLS)
def test_anything_gives_findings_and_never_an_exception(tarball: Any) -> None:
    for text in (*found(tarball), *found(tarball, strict=True), *find_warnings({"spec": {"crdTarball": tarball}})):
        assert text.startswith("spec.")


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
