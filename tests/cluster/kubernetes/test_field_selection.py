import pytest

from fleethook.cluster.kubernetes.field_selection import FieldSelection
from fleethook.cluster.store import Index
from fleethook.model.gvk import GroupKind

INDEX = Index("by_name", GroupKind("", "ConfigMap"), lambda _cluster, _object: [])


@pytest.mark.parametrize(
    ("fields", "selector"),
    [
        ((("subject.kind", "YurtAppSet"), ("subject.name", "demo")), "subject.kind=YurtAppSet,subject.name=demo"),
        ((("a", r"x=y,z\w"),), r"a=x\=y\,z\\w"),
    ],
)
def test_values_are_escaped_as_in_apimachinery(fields: tuple[tuple[str, str], ...], selector: str) -> None:
    assert FieldSelection(INDEX, "k", "ns", fields).selector == selector
