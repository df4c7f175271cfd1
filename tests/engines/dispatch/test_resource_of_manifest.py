import json
from importlib import resources
from typing import Any

import pytest

from fleethook.engines.dispatch.resource_of_manifest import (
    Destination,
    DestinationError,
    choose_destination,
    list_operations,
    map_kind,
    needs_metadata,
)
from fleethook.model.gvk import GroupKind, GroupVersionKind, GroupVersionResource, parse_api_version
from tests.engines.dispatch.builders import binding, definition, in_cluster, store_of

WIDGET = GroupVersionKind("example.org", "v1", "Widget")
SHEEP = {"names": {"plural": "sheep", "kind": "Widget"}}


def schema(**spec: Any) -> dict[str, Any]:
    return in_cluster(
        "p", "apis.kcp.io/v1alpha1", "APIResourceSchema", "v1.sheep.example.org", spec={"group": "example.org", **spec}
    )


def to(group: str, version: str, resource: str, subresource: str = "") -> Destination:
    return Destination(GroupVersionResource(group, version, resource), subresource)


@pytest.mark.parametrize(
    ("cluster", "kind", "destination", "is_known"),
    [
        ("c", WIDGET, "sheep", True),
        ("d", WIDGET, "sheep", True),
        # Definitions of another group or another cluster do not count.
        ("c", WIDGET._replace(group="example.com"), "widgets", False),
        ("e", WIDGET, "widgets", False),
        ("e", WIDGET._replace(kind="Index"), "indexs", False),
    ],
)
def test_a_crd_or_a_bound_schema_names_the_plural(
    cluster: str, kind: GroupVersionKind, destination: str, *, is_known: bool
) -> None:
    crd = definition("c", "sheep.example.org", "v1", **SHEEP)
    store = store_of(crd, binding("d", "p", "sheep.example.org"), schema(**SHEEP))
    found = map_kind(store, cluster=cluster, kind=kind)
    assert found == ((to(kind.group, "v1", destination),), is_known)


def test_a_bound_resource_without_a_schema_is_known_by_its_name() -> None:
    store = store_of(binding("c", "p", "widgets.example.org"))
    assert map_kind(store, cluster="c", kind=WIDGET) == ((to("example.org", "v1", "widgets"),), True)


def test_every_built_in_kind_has_its_resources_and_subresources() -> None:
    table = json.loads(resources.files("fleethook.engines.dispatch.match").joinpath("builtins.json").read_bytes())
    store, wanted = store_of(), dict[GroupVersionKind, set[str]]()
    for entry in table:
        for api_version, kinds in entry["served"].items():
            group = parse_api_version(api_version)[0]
            for subresource, text in kinds.items():
                other, _, name = text.rpartition("/")
                if not subresource or text != kinds[""]:
                    kind = GroupVersionKind(*parse_api_version(other or api_version), name)
                    one = str(to(group, "", entry["resource"], subresource))
                    wanted.setdefault(kind, set()).add(one)
    found = {kind: map_kind(store, cluster="", kind=kind) for kind in wanted}
    assert len(wanted) > 70
    assert {kind: set(map(str, one.destinations)) for kind, one in found.items()} == wanted
    assert all(one.is_known for one in found.values())
    assert all(
        kind.version == one.destinations[0].resource.version
        for kind, one in found.items()
        if not one.destinations[0].subresource
    )


@pytest.mark.parametrize(
    ("destination", "operations"),
    [
        (to("", "v1", "pods"), ("CREATE", "UPDATE", "DELETE")),
        (to("", "v1", "pods", "log"), ()),
        (to("", "v1", "pods", "exec"), ("CONNECT",)),
        (to("", "v1", "pods", "eviction"), ("CREATE",)),
        (to("example.org", "v1", "widgets", "status"), ("UPDATE",)),
        (to("authentication.k8s.io", "v1", "tokenreviews"), ("CREATE",)),
        (to("example.org", "v1", "tokenreviews"), ("CREATE", "UPDATE", "DELETE")),
    ],
)
def test_each_resource_and_subresource_has_its_operations(
    destination: Destination, operations: tuple[str, ...]
) -> None:
    assert list_operations(destination) == operations


def test_only_kinds_that_are_never_stored_need_no_metadata() -> None:
    unstored = ("/PodExecOptions", "policy/Eviction", "autoscaling/Scale", "authorization.k8s.io/SubjectAccessReview")
    for text, needed in {**dict.fromkeys(unstored, False), "/Pod": True, "example.org/Scale": True}.items():
        assert needs_metadata(GroupKind(*text.split("/"))) is needed


BODIES = [
    ("autoscaling/v1 Scale", "", "deployments.apps/scale or replicasets.apps/scale or replicationcontrollers/scale or"),
    ("autoscaling/v1 Scale", "/status", r"Scale is sent to deployments\.apps/scale .*, not to /status"),
    ("policy/v1 Eviction", "pods", "Eviction is sent to pods/eviction, not to pods"),
    ("v1 Pod", "services/status", "Pod is sent to pods, not to services/status"),
    ("v1 Binding", "", "Binding is sent to bindings or pods/binding: name one, as in --resource pods/binding"),
]  # fmt: skip


def choose(text: str, wanted: str = "", operation: str = "") -> tuple[str, str, tuple[str, ...]]:
    """Return destination with version, operation and notes."""
    api_version, _, kind = text.partition(" ")
    crd = definition("c", "sheep.example.org", "v1", names={"plural": "sheep", "kind": "Flock"})
    chosen = choose_destination(
        store_of(crd, binding("c", "p", "widgets.example.org")),
        cluster="c",
        kind=GroupVersionKind(*parse_api_version(api_version), kind),
        resource=wanted,
        operation=operation,
    )
    return f"{chosen.destination.resource.version} {chosen.destination}", chosen.operation, chosen.notes


@pytest.mark.parametrize(("kind", "wanted", "problem"), BODIES)
def test_a_kind_without_a_clear_resource_is_refused_with_the_remedy(kind: str, wanted: str, problem: str) -> None:
    with pytest.raises(DestinationError, match=problem):
        choose(kind, wanted)


@pytest.mark.parametrize(
    ("kind", "wanted", "destination", "operation"),
    [
        ("policy/v1 Eviction", "", "v1 pods/eviction", "CREATE"),
        ("policy/v1beta1 Eviction", "", "v1 pods/eviction", "CREATE"),
        ("v1 PodExecOptions", "", "v1 pods/exec", "CONNECT"),
        ("autoscaling/v1 Scale", "statefulsets/scale", "v1 statefulsets.apps/scale", "UPDATE"),
        # Nothing defines goats.
        ("autoscaling/v1 Scale", "goats.v2.example.org/scale", "v2 goats.example.org/scale", "CREATE"),
        ("example.com/v1 Foot", "feet", "v1 feet.example.com", "CREATE"),
        ("v1 Pod", "pods/exec", "v1 pods/exec", "CONNECT"),
        ("v1 Pod", "/status", "v1 pods/status", "UPDATE"),
        ("example.org/v1 Widget", "/status", "v1 widgets.example.org/status", "CREATE"),
        ("example.org/v1 Flock", "", "v1 sheep.example.org", "CREATE"),
    ],
)
def test_a_kind_has_its_resource_and_operation(kind: str, wanted: str, destination: str, operation: str) -> None:
    assert choose(kind, wanted) == (destination, operation, ())


@pytest.mark.parametrize(
    ("kind", "wanted", "operation", "note"),
    [
        ("example.com/v1 Foot", "", "", "no CRD or APIBinding defines Foot; assuming resource foots"),
        ("v1 Pod", "/status", "CREATE", "no apiserver sends CREATE of pods/status to admission, only UPDATE"),
        ("v1 Pod", "/log", "", "no apiserver sends CREATE of pods/log to admission"),
        ("v1 Pod", "", "CONNECT", "no apiserver sends CONNECT of pods to admission, only CREATE and UPDATE and DELETE"),
        ("example.org/v1 Flock", "/status", "", "no apiserver sends CREATE of sheep.example.org/status to admission"),
    ],
)
def test_guesses_and_requests_without_admission_are_noted(kind: str, wanted: str, operation: str, note: str) -> None:
    assert choose(kind, wanted, operation)[2] == (note,)
