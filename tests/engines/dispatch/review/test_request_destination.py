import pytest

from fleethook.engines.dispatch.review.request_destination import (
    DestinationError,
    ResourceName,
    choose_destination,
    parse_resource,
)
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from tests.engines.dispatch.builders import binding, definition, store_of

BODIES = [
    ("autoscaling/v1 Scale", "", "deployments.apps/scale or replicasets.apps/scale or replicationcontrollers/scale or"),
    ("autoscaling/v1 Scale", "/status", r"Scale is sent to deployments\.apps/scale .*, not to \*/status"),
    ("policy/v1 Eviction", "pods", "Eviction is sent to pods/eviction, not to pods"),
    ("v1 Pod", "services/status", "Pod is sent to pods, not to services"),
    ("v1 DeleteOptions", "", "DeleteOptions is the body of a request and no object: give the object with --operation DELETE"),
    ("apps/v1 PatchOptions", "", "with --operation UPDATE"),
]  # fmt: skip


def choose(text: str, wanted: str = "", operation: str = "") -> tuple[str, str, tuple[str, ...]]:
    """Return destination with version, operation and notes; ``/SUBRESOURCE`` is the option of that name."""
    api_version, _, kind = text.partition(" ")
    crd = definition("c", "sheep.example.org", "v1", names={"plural": "sheep", "kind": "Flock"})
    chosen = choose_destination(
        store_of(crd, binding("c", "p", "widgets.example.org")),
        cluster="c",
        kind=GroupVersionKind(*parse_api_version(api_version), kind),
        wanted="" if wanted.startswith("/") else wanted,
        subresource=wanted[1:] if wanted.startswith("/") else "",
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
        ("v1 Binding", "", "", "Binding is sent to bindings or pods/binding; assuming pods/binding"),
        ("example.com/v1 Foot", "", "", "no CRD or APIBinding defines Foot; assuming resource foots"),
        ("v1 Pod", "/status", "CREATE", "no apiserver sends CREATE of pods/status to admission, only UPDATE"),
        ("v1 Pod", "/log", "", "no apiserver sends CREATE of pods/log to admission"),
        ("v1 Pod", "", "CONNECT", "no apiserver sends CONNECT of pods to admission, only CREATE and UPDATE and DELETE"),
        ("example.org/v1 Flock", "/status", "", "no apiserver sends CREATE of sheep.example.org/status to admission"),
    ],
)
def test_guesses_and_requests_without_admission_are_noted(kind: str, wanted: str, operation: str, note: str) -> None:
    assert choose(kind, wanted, operation)[2] == (note,)


def test_two_subresources_contradict_each_other() -> None:
    store, kind = store_of(), GroupVersionKind("", "v1", "Pod")
    with pytest.raises(DestinationError, match="--resource names the subresource exec, --subresource status"):
        choose_destination(store, cluster="", kind=kind, wanted="pods/exec", subresource="status", operation="")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pods", ResourceName("", "pods")),
        ("deployments.apps/scale", ResourceName("apps", "deployments", "", "scale")),
        ("deployments.v1.apps", ResourceName("apps", "deployments", "v1")),
        ("pods.v1", ResourceName("", "pods", "v1")),
        ("widgets.v1alpha1.example.org/status", ResourceName("example.org", "widgets", "v1alpha1", "status")),
        ("widgets.vendor.example.org", ResourceName("vendor.example.org", "widgets")),
    ],
)
def test_a_name_of_a_resource_has_its_parts(text: str, name: ResourceName) -> None:
    assert parse_resource(text) == name
