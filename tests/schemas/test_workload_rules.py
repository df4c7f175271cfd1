"""Tests of the tables of rules; tests/workload_schema/test_json_schema.py has those of the schema made of them."""

import pytest

from fleethook.workload_schema.formats_and_messages import FORMATS
from fleethook.workload_schema.go_structs import load_structs
from schemas.workload_rules import LIMITS, MAPS, REQUIRED, TEXTS, short_name


def test_the_tables_name_members_that_exist() -> None:
    tables = (LIMITS, TEXTS, MAPS, REQUIRED)
    named = [(struct, member) for table in tables for struct, members in table.items() for member in members]
    assert [one for one in named if one[1] not in load_structs()[one[0]]] == []
    assert len(named) > 100


def test_members_have_formats_that_exist() -> None:
    assert {name for members in TEXTS.values() for name in members.values()} <= FORMATS.keys()


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("io.k8s.api.core.v1.Container", "core.v1.Container"),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "meta.v1.ObjectMeta"),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "util.intstr.IntOrString"),
    ],
)
def test_names_are_those_of_the_structs(name: str, short: str) -> None:
    assert short_name(name) == short
