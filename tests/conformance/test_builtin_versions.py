"""Built-in kinds in other versions, as kube-apiserver converts them (builtin_versions/README.md)."""

import copy
import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from app.dispatch.conversion_rules import convert
from app.dispatch.equivalent_resources import find_equivalents
from app.model.gvk import GroupVersionKind, GroupVersionResource, parse_api_version
from tests.dispatch.builders import store_of

CASES = Path(__file__).parent / "builtin_versions" / "cases.json.gz"
EXEMPT = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
"""Kinds that apiservers never send to webhooks."""


@functools.cache
def cases() -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in gzip.decompress(CASES.read_bytes()).splitlines():
        case = json.loads(line)
        key = (case["before"]["kind"], case["before"]["apiVersion"], case["after"]["apiVersion"])
        found.setdefault(key, []).append(case)
    return found


def kind_of(document: dict[str, Any]) -> GroupVersionKind:
    return GroupVersionKind(*parse_api_version(document["apiVersion"]), document["kind"])


@pytest.mark.parametrize("key", cases(), ids=" ".join)
def test_a_converted_object_equals_that_of_an_apiserver(key: tuple[str, str, str]) -> None:
    for case in cases()[key]:
        before = copy.deepcopy(case["before"])
        assert convert(before, kind_of(case["after"]), definition=None) == case["after"]
        assert before == case["before"], "the object is left alone"


def builtins() -> list[dict[str, Any]]:
    table = Path(__file__).parent.parent.parent / "app" / "dispatch" / "builtins.json"
    found: list[dict[str, Any]] = json.loads(table.read_text())
    return found


def test_every_kind_that_is_served_in_several_versions_is_among_the_cases() -> None:
    wanted = set()
    for builtin in builtins():
        served = {version: kinds[""] for version, kinds in builtin["served"].items() if "" in kinds}
        if len(served) > 1 and builtin["resource"] not in EXEMPT:
            (kind,) = set(served.values())
            wanted |= {(kind, one, other) for one in served for other in served if one != other}
    assert set(cases()) == wanted


def test_every_equivalent_that_a_rule_may_name_can_be_converted_to() -> None:
    """Includes subresources: most use the kind of their resource, and scale is the same in all versions."""
    store, converted = store_of(), 0
    for builtin in builtins():
        for version, kinds in builtin["served"].items() if builtin["resource"] not in EXEMPT else ():
            resource = GroupVersionResource(*parse_api_version(version), builtin["resource"])
            for subresource, named in kinds.items():
                other, _, name = named.rpartition("/")
                kind = GroupVersionKind(*parse_api_version(other or version), name)
                document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
                for one in find_equivalents(store, cluster="", resource=resource, subresource=subresource, kind=kind):
                    assert one.kind is not None
                    made = convert(document, one.kind, definition=None)
                    assert kind_of(made) == one.kind
                    converted += one.kind != kind
    assert converted >= len(cases())
