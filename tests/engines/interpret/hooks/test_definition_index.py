from fleethook.cluster.store import Store
from fleethook.engines.interpret.hooks.definition_index import DEFINITIONS_BY_KIND, INDEXES


def test_definitions_are_found_by_the_kind_that_they_define() -> None:
    store = Store(INDEXES)
    spec = {"group": "example.org", "names": {"kind": "Widget"}}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    store.put({**definition, "metadata": {"name": "widgets.example.org"}})
    store.put({**definition, "metadata": {"name": "empty"}, "spec": {}})
    (found,) = store.find(DEFINITIONS_BY_KIND, "", ("example.org", "Widget"))
    assert found["metadata"]["name"] == "widgets.example.org"
