import pytest

from fleethook.model.gvk import GroupKind
from fleethook.store import Index
from fleethook.store.sources.kubernetes.field_selection import FieldSelection

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
