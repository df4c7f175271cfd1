"""Validation of ``spec.crdTarball``, beyond the cases of the conformance data."""

from typing import Any

import pytest
from hypothesis import given

from fleethook.engines.crds.instance.tarball_validation import aggregate_problems, find_problems, find_warnings
from fleethook.model.formats.field_errors import Problem
from tests.engines.crds.anything import JSON, TARBALLS

URL = "https://h/crds.tar.gz"
HTTP = "spec.crdTarball.httpSource"


def found(tarball: Any, *, old: Any = None, strict: bool = False) -> list[str]:
    karmada = {"metadata": {"name": "k", "namespace": "n"}, "spec": {"crdTarball": tarball}}
    return [f"{field}: {text}" for field, text in find_problems(karmada, old=old, strict=strict)]


def test_without_a_url_the_rest_stands() -> None:
    assert found({"httpSource": {"sha256": "a" * 64}}) == []
    assert found({"httpSource": {"url": None, "proxy": None}}) == []


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
        ({"configMapSource": {}}, "spec.crdTarball.configMapSource.name: Required value"),
        (
            {"configMapSource": {"name": "c", "key": "a/b"}},
            "spec.crdTarball.configMapSource.key: Invalid value: \"a/b\": must consist of letters, digits, '-', '_' and '.'",
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


def test_a_name_that_no_config_map_can_have_is_refused() -> None:
    (text,) = found({"configMapSource": {"name": "A B"}})
    assert text.startswith('spec.crdTarball.configMapSource.name: Invalid value: "A B": a lowercase RFC 1123 subdomain')


def test_a_spec_that_is_not_an_object_is_named() -> None:
    assert list(find_problems({"spec": 5})) == [Problem("spec", "Invalid value: must be an object")]


def test_upstreams_findings_come_first_and_all_are_named_in_one_text() -> None:
    tarball = {"httpSource": {"url": "a", "proxy": {"proxyURL": "b"}, "sha256": "c"}, "crdDownloadPolicy": "d"}
    fields = [problem.field for problem in find_problems({"spec": {"crdTarball": tarball}})]
    assert fields == [
        f"{HTTP}.url", f"{HTTP}.proxy.proxyURL", f"{HTTP}.sha256", "spec.crdTarball.crdDownloadPolicy",
    ]  # fmt: skip
    assert aggregate_problems([Problem("a", "b"), Problem("c", "d")]) == "validation errors: [a: b c: d]"


def test_an_update_admits_only_unchanged_invalid_fields() -> None:
    tarball = {"httpSource": {"url": "bad-url"}}
    assert found(tarball, old={"spec": {"crdTarball": tarball}}) == []
    assert len(found(tarball, old={"spec": {"crdTarball": {"httpSource": {"url": "worse"}}}})) == 1
    assert len(found(tarball, old={"spec": 5})) == 1


@given(TARBALLS)
def test_anything_gives_findings_and_never_an_exception(tarball: Any) -> None:
    for text in (*found(tarball), *found(tarball, strict=True), *find_warnings({"spec": {"crdTarball": tarball}})):
        assert text.startswith("spec.")


@given(JSON)
def test_an_instance_may_be_anything_as_well(spec: Any) -> None:
    list(find_problems({"spec": spec, "metadata": spec}, old={"spec": spec}))
    list(find_warnings({"spec": spec}))
