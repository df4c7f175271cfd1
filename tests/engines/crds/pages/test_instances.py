"""The descriptions of Karmada instances."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from fleethook.cluster.store.store import key_of
from fleethook.engines.crds.cache.entry_directory import Record
from fleethook.engines.crds.cache.entry_state import Listed, State
from fleethook.engines.crds.pages.instances import (
    MAX_CONDITIONS,
    InstanceView,
    compare_pin,
    describe_instance,
    describe_instances,
    find_users,
    order_instances,
)
from fleethook.engines.crds.tarball_source import Source
from tests.console.crd_cache import karmada
from tests.engines.crds.anything import TARBALLS

URL = "https://h/crds.tar.gz"
SHA = "ab" * 32
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def describe(document: dict[str, Any]) -> InstanceView:
    return describe_instance(key_of(document), document)


def listed(state: State = "ready", sha256: str = SHA) -> Listed:
    record = Record(
        url=URL, final_url=URL, sha256=sha256, size=1, etag="", last_modified="", fetched_at=NOW, asked_at=NOW,
        asked=1, warnings=(),
    )  # fmt: skip
    return Listed(Source(URL).key, Path("x"), state, 1, NOW, record if state in ("ready", "changed") else None)


def test_an_http_source_has_the_key_of_its_entry_policy_and_pin() -> None:
    view = describe(karmada(url=URL, sha256=SHA.upper(), crdDownloadPolicy="Always"))
    assert (view.source, view.key, view.policy, view.pin) == (URL, Source(URL).key, "Always", SHA)
    assert (view.namespace, view.name, view.problem) == ("test", "one", "")


def test_credentials_of_a_url_are_hidden() -> None:
    view = describe(karmada(url="https://user:hunter2@h/x?token=hunter2"))
    assert "hunter2" not in str(view._replace(key=""))
    assert any("has credentials" in text for text in view.warnings)


def test_without_a_source_the_operator_chooses_the_release() -> None:
    document = karmada(sha256=SHA)
    document["spec"]["components"] = {"karmadaWebhook": {"imageTag": "v1.18.0"}}
    view = describe(document)
    assert (view.key, view.pin, view.policy) == ("", SHA, "IfNotPresent")
    assert view.source == "the release of Karmada's operator; the images are of v1.18.0"
    assert describe(karmada()).source == "the release of Karmada's operator"
    assert "v0.0.0" not in str(describe(karmada()))


def test_a_version_names_the_release_and_its_entry() -> None:
    view = describe(karmada(version="v1.10.0"))
    assert view.source.endswith("/v1.10.0/crds.tar.gz")
    assert view.key == Source(view.source).key


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({"localSource": {"path": "/a b"}}, "file:///a%20b"),
        ({"configMapSource": {"name": "crds"}}, "configmap://test/crds/crds.tar.gz"),
    ],
)
def test_files_and_config_maps_have_entries_too(fields: dict[str, Any], source: str) -> None:
    view = describe(karmada(**fields))
    assert (view.source, view.key) == (source, Source(source).key)


def test_an_invalid_instance_shows_the_problem() -> None:
    view = describe(karmada(url="ftp://h/\u202e", sha256="x"))
    assert "spec.crdTarball.httpSource" in view.problem
    assert "\u202e" not in view.problem
    assert (view.source, view.key, view.policy) == ("", "", "")


def test_a_path_that_utf_8_cannot_encode_is_a_problem() -> None:
    view = describe(karmada(localSource={"path": "/\ud800"}))
    assert "surrogates not allowed" in view.problem
    assert view.key == ""


def test_conditions_of_any_type_are_texts() -> None:
    good = {"type": "Ready", "status": "True", "reason": "Completed", "message": "a\u202eb", "lastTransitionTime": "t"}
    document = {**karmada(), "status": {"conditions": [good, 5, {"type": {}, "message": None}]}}
    first, *others = describe(document).conditions
    assert first == ("Ready", "True", "Completed", "a\\u202eb", "t")
    assert [tuple(one) for one in others] == [("",) * 5] * 2
    many = {**karmada(), "status": {"conditions": [good] * 99}}
    assert len(describe(many).conditions) == MAX_CONDITIONS
    for status in (None, 5, {"conditions": {}}):
        assert describe({**karmada(), "status": status}).conditions == ()


@given(TARBALLS)
def test_no_crd_tarball_is_an_error(tarball: Any) -> None:
    describe({**karmada(), "spec": {"crdTarball": tarball}})


@pytest.mark.parametrize(
    ("document", "entry", "state"),
    [
        (karmada(url=URL), listed(), "none"),
        (karmada(sha256=SHA), listed(), "unknown"),
        (karmada(url=URL, sha256=SHA), None, "missing"),
        (karmada(url=URL, sha256=SHA), listed("changed"), "untrusted"),
        (karmada(url=URL, sha256=SHA), listed("bare"), "untrusted"),
        (karmada(url=URL, sha256=SHA), listed("refused"), "untrusted"),
        (karmada(url=URL, sha256=SHA), listed(), "match"),
        (karmada(url=URL, sha256=SHA), listed(sha256="cd" * 32), "mismatch"),
    ],
)
def test_a_pin_is_compared_with_verified_entries_only(document: Any, entry: Listed | None, state: str) -> None:
    assert compare_pin(describe(document), {entry.key: entry} if entry else {}) == state


def test_instances_are_sorted_and_found_by_their_entry() -> None:
    documents = {key_of(one): one for one in (karmada("b", url=URL), karmada("a"), karmada("c", url=URL))}
    keys = order_instances(documents)
    assert [key.name for key in keys] == ["a", "b", "c"]
    views = describe_instances({key: documents[key] for key in keys})
    assert [one.name for one in find_users(views, Source(URL).key)] == ["b", "c"]
