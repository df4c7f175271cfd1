"""Resources that share storage are found for custom, bound and built-in resources."""

from typing import Any

import pytest

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.match.equivalent_resources import (
    DEFINITIONS_BY_RESOURCE,
    SCALE,
    Equivalent,
    find_definition,
    find_equivalents,
    is_namespaced,
    suggest_builtin,
)
from fleethook.model.gvk import GroupVersionKind, GroupVersionResource

V1 = {"name": "v1", "served": True}
V2 = {"name": "v2", "served": True}


@pytest.mark.parametrize(
    ("group", "resource", "suggested"),
    [
        ("apps", "deploymnets", "deployments"),
        ("", "deployments", "deployments of apps"),
        ("networking", "ingresses", "ingresses of networking.k8s.io"),
        ("", "pod", "pods"),
        ("events.k8s.io", "event", "events"),
    ],
)
def test_a_similar_built_in_resource_is_suggested(group: str, resource: str, suggested: str) -> None:
    assert suggest_builtin(group, resource) == f"; did you mean {suggested}?"


def test_no_built_in_resource_is_similar() -> None:
    assert suggest_builtin("example.org", "widgets") == ""


def definition(*versions: Any, cluster: str = "", scope: str = "Namespaced", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org", "annotations": {"kcp.io/cluster": cluster}},
        "spec": {
            "group": "example.org", "names": {"kind": "Widget", "plural": "widgets"}, "scope": scope,
            "versions": list(versions), **spec,
        },
    }  # fmt: skip


def schema(*versions: Any, cluster: str) -> dict[str, Any]:
    document = definition(*versions, cluster=cluster)
    document |= {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema"}
    document["metadata"]["name"] = "today.widgets.example.org"
    return document


def store_of(*documents: dict[str, Any]) -> Store:
    store = Store([DEFINITIONS_BY_RESOURCE])
    for document in documents:
        store.put(document)
    return store


def resource(version: str, *, group: str = "example.org", plural: str = "widgets") -> GroupVersionResource:
    return GroupVersionResource(group, version, plural)


def widget(version: str) -> GroupVersionKind:
    return GroupVersionKind("example.org", version, "Widget")


def find(
    store: Store,
    asked: GroupVersionResource,
    *,
    subresource: str = "",
    kind: GroupVersionKind | None = None,
    cluster: str = "",
    schema: tuple[str, str] | None = None,
) -> tuple[Equivalent, ...]:
    return find_equivalents(
        store, cluster=cluster, resource=asked, subresource=subresource, kind=kind or widget("asked"), schema=schema
    )


def test_versions_are_in_the_order_of_the_definition() -> None:
    store = store_of(definition(V2, V1))
    expected = (Equivalent(resource("v2"), widget("v2")), Equivalent(resource("v1"), widget("v1")))
    assert find(store, resource("v1")) == expected
    assert find(store, resource("v2")) == expected


def test_unserved_versions_are_equivalents_as_in_an_apiserver() -> None:
    store = store_of(definition(V1, {"name": "v0", "served": False}))
    assert [one.resource.version for one in find(store, resource("v1"))] == ["v1", "v0"]


def test_versions_without_the_subresource_are_excluded() -> None:
    both = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas"}}
    store = store_of(definition({**V1, "subresources": both}, {**V2, "subresources": {"status": {}, "scale": None}}))
    assert find(store, resource("v1"), subresource="status") == (
        Equivalent(resource("v1"), widget("v1")),
        Equivalent(resource("v2"), widget("v2")),
    )
    assert find(store, resource("v1"), subresource="scale", kind=SCALE) == (Equivalent(resource("v1"), SCALE),)


def test_an_unknown_subresource_is_equivalent_to_itself() -> None:
    assert find(store_of(definition(V1, V2)), resource("v1"), subresource="scale", kind=SCALE) == (
        Equivalent(resource("v1"), SCALE),
    )


def test_an_unknown_version_is_added_to_the_others() -> None:
    assert find(store_of(definition(V1)), resource("v9"), kind=widget("v9")) == (
        Equivalent(resource("v1"), widget("v1")),
        Equivalent(resource("v9"), widget("v9")),
    )


def test_unknown_resources_are_equivalent_to_themselves() -> None:
    assert find(store_of(), resource("v1")) == (Equivalent(resource("v1"), widget("asked")),)


def test_definitions_of_other_clusters_do_not_count() -> None:
    store = store_of(definition(V1, V2, cluster="other"))
    assert find(store, resource("v1"), cluster="own") == (Equivalent(resource("v1"), widget("asked")),)
    assert len(find(store, resource("v1"), cluster="other")) == 2


def test_bound_resources_use_the_schema_of_the_export() -> None:
    store = store_of(definition(V1, cluster="consumer"), schema(V2, V1, cluster="provider"))
    bound = ("provider", "today.widgets.example.org")
    assert [one.resource.version for one in find(store, resource("v1"), cluster="consumer", schema=bound)] == [
        "v2",
        "v1",
    ]


def test_bound_resources_without_a_schema_are_not_built_in() -> None:
    asked, kind = GroupVersionResource("autoscaling", "v1", "horizontalpodautoscalers"), widget("v1")
    bound = find(store_of(), asked, kind=kind, cluster="consumer", schema=("provider", "gone"))
    assert bound == (Equivalent(asked, kind),)
    assert len(find(store_of(), asked, kind=kind, cluster="consumer")) == 2


def test_a_definition_without_a_kind_gives_unknown_kinds() -> None:
    store = store_of(definition(V1, V2, names={"plural": "widgets"}))
    assert find(store, resource("v1")) == (Equivalent(resource("v1"), None), Equivalent(resource("v2"), None))


def test_events_of_both_groups_are_equivalent() -> None:
    core, other = resource("v1", group="", plural="events"), resource("v1", group="events.k8s.io", plural="events")
    expected = (
        Equivalent(core, GroupVersionKind("", "v1", "Event")),
        Equivalent(other, GroupVersionKind("events.k8s.io", "v1", "Event")),
    )
    assert find(store_of(), core) == expected
    assert find(store_of(), other) == expected


def test_built_in_versions_are_in_the_order_of_an_apiserver() -> None:
    found = find(store_of(), resource("v1", group="autoscaling", plural="horizontalpodautoscalers"))
    assert [(one.resource.version, one.kind) for one in found] == [
        (version, GroupVersionKind("autoscaling", version, "HorizontalPodAutoscaler")) for version in ("v2", "v1")
    ]


@pytest.mark.parametrize(
    ("plural", "group", "subresource", "kind"),
    [
        ("deployments", "apps", "scale", SCALE),
        ("deployments", "apps", "status", GroupVersionKind("apps", "v1", "Deployment")),
        ("pods", "", "eviction", GroupVersionKind("policy", "v1", "Eviction")),
        ("pods", "", "exec", GroupVersionKind("", "v1", "PodExecOptions")),
        ("serviceaccounts", "", "token", GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")),
    ],
)
def test_built_in_subresources_have_their_own_kinds(
    plural: str, group: str, subresource: str, kind: GroupVersionKind
) -> None:
    asked = resource("v1", group=group, plural=plural)
    assert find(store_of(), asked, subresource=subresource) == (Equivalent(asked, kind),)


def test_definitions_take_precedence_over_built_in_resources() -> None:
    document = definition(
        V1, {"name": "v1beta9", "served": True}, group="apps", names={"kind": "Deployment", "plural": "deployments"}
    )
    found = find(store_of(document), resource("v1", group="apps", plural="deployments"))
    assert [one.resource.version for one in found] == ["v1", "v1beta9"]


def test_the_scope_comes_from_the_definition_or_the_table() -> None:
    store = store_of(definition(V1, cluster="a"), definition(V1, cluster="b", scope="Cluster"))
    store.put(definition(V1, cluster="c", scope="other"))
    asked = [(cluster, "example.org", "widgets") for cluster in "abcd"] + [("", "", "pods"), ("", "", "nodes")]
    assert [is_namespaced(store, cluster=c, group=g, resource=r) for c, g, r in asked] == [
        True, False, None, None, True, False,
    ]  # fmt: skip


def test_the_definition_of_a_resource_is_found() -> None:
    own, bound = definition(V1, cluster="consumer"), schema(V1, cluster="provider")
    store = store_of(own, bound)
    where: Any = {"cluster": "consumer", "group": "example.org", "resource": "widgets"}
    assert find_definition(store, **where) is own
    assert find_definition(store, **where, schema=("provider", "today.widgets.example.org")) is bound
    assert find_definition(store, cluster="consumer", group="apps", resource="deployments") is None
