import json
from importlib import resources

from app.dispatch.rest_mapping import find_resource
from app.model.gvk import GroupVersionKind, GroupVersionResource, parse_api_version
from tests.dispatch.builders import (
    binding,
    definition,
    in_cluster,
    store_of,
)


def test_a_crd_or_a_bound_schema_names_the_plural() -> None:
    kind = GroupVersionKind("example.org", "v1", "Widget")
    sheep = {"names": {"plural": "sheep", "kind": "Widget"}}
    bound = binding("d", "p", "sheep.example.org")
    schema = in_cluster(
        "p", "apis.kcp.io/v1alpha1", "APIResourceSchema", "v1.sheep.example.org", spec={"group": "example.org", **sheep}
    )
    store = store_of(definition("c", "sheep.example.org", "v1", **sheep), bound, schema)
    found = GroupVersionResource("example.org", "v1", "sheep")
    assert find_resource(store, cluster="c", kind=kind) == (found, True)
    assert find_resource(store, cluster="d", kind=kind) == (found, True)
    # Definitions of other groups and other clusters do not count.
    assert find_resource(store, cluster="c", kind=kind._replace(group="example.com"))[1] is False
    assert find_resource(store, cluster="e", kind=kind) == (found._replace(resource="widgets"), False)


def test_a_bound_resource_without_a_schema_is_known_by_its_name() -> None:
    store = store_of(binding("c", "p", "widgets.example.org"))
    kind = GroupVersionKind("example.org", "v1", "Widget")
    assert find_resource(store, cluster="c", kind=kind) == (GroupVersionResource("example.org", "v1", "widgets"), True)


def test_every_built_in_kind_has_its_resource() -> None:
    table = json.loads(resources.files("app.dispatch").joinpath("builtins.json").read_bytes())
    store, wrong = store_of(), []
    for entry in table:
        for api_version, kinds in entry["served"].items():
            group, version = parse_api_version(api_version)
            if "" in kinds:
                found = find_resource(store, cluster="", kind=GroupVersionKind(group, version, kinds[""]))
                if found != (GroupVersionResource(group, version, entry["resource"]), True):
                    wrong.append((api_version, entry["resource"], found))
    assert len(table) > 50
    assert wrong == []
