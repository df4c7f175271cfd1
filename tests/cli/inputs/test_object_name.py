"""Names of objects."""

import pytest

from fleethook.cli.inputs.object_name import describe_key, parse_name
from fleethook.cluster.store import ObjectKey
from fleethook.model.gvk import GroupKind


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (ObjectKey("", GroupKind("apps", "Deployment"), "team", "a"), "Deployment.apps/team/a"),
        (ObjectKey("", GroupKind("", "Namespace"), "", "team"), "Namespace/team"),
        (ObjectKey("root", GroupKind("apis.kcp.io", "APIExport"), "", "a"), "APIExport.apis.kcp.io/a@root"),
    ],
)
def test_a_described_object_is_found_by_its_description(key: ObjectKey, text: str) -> None:
    assert describe_key(key) == text
    assert parse_name(text).matches(key)
    assert not parse_name(text).matches(key._replace(name="b"))


def test_a_logical_cluster_in_a_name_is_compared() -> None:
    key = ObjectKey("root", GroupKind("apis.kcp.io", "APIExport"), "", "a")
    assert parse_name("apiexport/a").matches(key)
    assert not parse_name("apiexport/a@other").matches(key)


@pytest.mark.parametrize(("kind", "plural"), [("NetworkPolicy", "networkpolicies"), ("Ingress", "ingresses")])
def test_a_plural_names_the_kind(kind: str, plural: str) -> None:
    group_kind = GroupKind("networking.k8s.io", kind)
    assert parse_name(f"{plural}/a").matches_kind(group_kind)
    assert parse_name(f"{plural}.networking.k8s.io/a").matches_kind(group_kind)
    assert not parse_name(f"{plural}.extensions/a").matches_kind(group_kind)


def test_a_file_without_namespace_is_in_the_default_one() -> None:
    key = ObjectKey("", GroupKind("apps", "Deployment"), "", "a")
    assert parse_name("deployment/default/a").matches(key)
    assert not parse_name("deployment/team/a").matches(key)
