"""The generated schemas are current, structural, and consistent with the types."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from schemas import generate
from schemas.openyurt_types import YurtAppOverrider, YurtAppSet
from tests.builders import entry, image, overrider, patch, yurt_app_set

SCHEMAS = Path(__file__).parent.parent.parent / "schemas"
CRDS = sorted((SCHEMAS / "crds").glob("*.yaml"))


def test_the_committed_files_are_current() -> None:
    assert generate.stale(SCHEMAS.parent) == []


def test_changed_missing_and_additional_files_are_stale(tmp_path: Path) -> None:
    for name, text in generate.generated().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert generate.stale(tmp_path) == []
    (tmp_path / "schemas" / "openapi.json").write_text("{}")
    (tmp_path / "schemas" / "json" / "NodePool.json").unlink()
    (tmp_path / "charts" / "fleethook" / "generated" / "gone.yaml").write_text("{}")
    assert generate.stale(tmp_path) == [
        "charts/fleethook/generated/gone.yaml", "schemas/json/NodePool.json", "schemas/openapi.json",
    ]  # fmt: skip


def structural_problems(node: dict[str, Any], path: str) -> list[str]:
    """Yield the problems for which kube-apiserver refuses a structural schema (apiextensions.k8s.io/v1)."""
    problems = [
        f"{path}: {word}" for word in ("$ref", "anyOf", "oneOf", "allOf", "not", "$schema", "title") if word in node
    ]
    if "type" not in node and not node.get("x-kubernetes-preserve-unknown-fields"):
        problems.append(f"{path}: no type")
    if "properties" in node and "additionalProperties" in node:
        problems.append(f"{path}: properties beside additionalProperties")
    if node.get("type") == "array" and "items" not in node:
        problems.append(f"{path}: array without items")
    problems += [
        f"{path}: {name} is required and not there"
        for name in set(node.get("required", ())) - set(node.get("properties", ()))
    ]
    types = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
    if "default" in node and not isinstance(node["default"], types[node["type"]]):
        problems.append(f"{path}: default of another type")
    for name, inner in node.get("properties", {}).items():
        problems += structural_problems(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            problems += structural_problems(node[name], f"{path}[{name}]")
    return problems


@pytest.mark.parametrize("path", CRDS, ids=lambda path: path.stem)
def test_each_crd_is_structural(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    (version,) = document["spec"]["versions"]
    assert structural_problems(version["schema"]["openAPIV3Schema"], "") == []
    assert document["metadata"]["name"] == f"{document['spec']['names']['plural']}.{document['spec']['group']}"


def test_the_checker_of_structural_schemas_finds_problems() -> None:
    bad = {"type": "object", "properties": {"a": {"type": "array"}, "b": {}, "c": {"type": "string", "default": 1}}}
    assert len(structural_problems(bad, "")) == 3


def test_there_is_a_crd_for_each_kind() -> None:
    assert [path.stem.partition(".")[0] for path in CRDS] == [
        "karmadas",
        "nodepools",
        "resourceexploringwebhookconfigurations",
        "yurtappdaemons",
        "yurtappoverriders",
        "yurtappsets",
    ]


def test_the_overriders_crd_has_both_short_names_and_prints_its_subject() -> None:
    document = yaml.safe_load((SCHEMAS / "crds" / "yurtappoverriders.apps.openyurt.io.yaml").read_text())
    assert document["spec"]["names"]["shortNames"] == ["yacr", "yao"]
    (version,) = document["spec"]["versions"]
    paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    assert paths == [
        ".subject.kind",
        ".subject.name",
        '.status.conditions[?(@.type=="Bound")].status',
        '.status.conditions[?(@.type=="Rendered")].status',
        ".status.summary",
        ".metadata.creationTimestamp",
    ]
    assert version["subresources"] == {"status": {}}


def test_the_types_decode_real_objects_and_apply_defaults() -> None:
    rule = overrider(
        entry(
            "*",
            items=[image("a", "b"), {"replicas": 3}],
            patches=[patch("add", "/spec/x", None), patch("remove", "/y")],
        ),
        subject={"kind": "YurtAppSet", "name": "demo"},
    )
    typed = msgspec.convert(rule, YurtAppOverrider)
    assert typed.subject.api_version == "apps.openyurt.io/v1alpha1"
    patches = typed.entries[0].patches or []
    assert (patches[0].value, patches[1].value) == (None, msgspec.UNSET)
    assert msgspec.convert(yurt_app_set(), YurtAppSet).spec.topology.pools


@pytest.mark.parametrize(
    "broken",
    [
        {"subject": {"kind": "Deployment", "name": "x"}},
        {"subject": {"kind": "YurtAppSet", "name": ""}},
        {"entries": [{"pools": [""]}]},
        {"entries": [{"pools": ["a"], "items": [{"replicas": -1}]}]},
        {"entries": [{"pools": ["a"], "patches": [{"operation": "move", "path": "/a"}]}]},
        {"entries": [{"pools": ["a"], "patches": [{"operation": "add", "path": "a"}]}]},
    ],
)
def test_the_types_refuse_invalid_values_like_the_schema(broken: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**overrider(entry("a")), **broken}, YurtAppOverrider)
