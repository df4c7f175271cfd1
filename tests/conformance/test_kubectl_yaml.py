"""Manifests are read as kubectl reads them (tests/conformance/kubectl_yaml/README.md)."""

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest

from fleethook.cluster.manifests.manifest_files import Manifest, read_manifest
from fleethook.cluster.manifests.yaml_scalars import make_number
from fleethook.model.json import JSON

FOLDER: Final = Path(__file__).parent / "kubectl_yaml"
CASES: Final[list[dict[str, Any]]] = json.loads(gzip.decompress((FOLDER / "answers.json.gz").read_bytes()))
HEAD: Final = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n"
# Texts that both read, and that give other objects. README.md has the reasons.
DIFFERENT: Final = {
    f"{HEAD}v: ! 1\n", f"{HEAD}v: ! y\n", f'{HEAD}v: "\\/"\n', "apiVersion: v1\nkind: List",
    "apiVersion: v1\nkind: AllowList\nmetadata: {name: own}\nitems: [1]",
    "apiVersion: v1\nkind: AllowList\nmetadata: {name: own}\nitems: [{a: 1}]",
    "apiVersion: v1\nkind: A\nmetadata: {name: own}\nitems: [{a: 1}]",
    # kubectl takes only a comment after ---.
    f"{HEAD}--- {{apiVersion: v1, kind: A, metadata: {{name: b}}}}",
}  # fmt: skip
# Errors where kubectl reads an object, each with a part of the message.
STRICTER: Final = {
    "duplicate key", "second occurrence", "did not find expected <document start>", "are required", "has no metadata.name",
    "a manifest must be an object", "is not a number that JSON has", "put it into quotation marks", "is not supported: write the value without it", "half of a surrogate pair",
}  # fmt: skip


def normalize(value: JSON) -> JSON:
    """Return a value of Go's JSON, whose floats have no exponent or point, as Python reads it."""
    if isinstance(value, dict):
        return {name: normalize(member) for name, member in value.items()}
    if isinstance(value, list):
        return [normalize(element) for element in value]
    return make_number(value) if type(value) in (int, float) else value


def expand(documents: list[dict[str, Any]]) -> list[JSON]:
    found: list[JSON] = []
    for one in documents:
        found += one["items"] if one["kind"].endswith("List") and isinstance(one.get("items"), list) else [one]
    return [normalize(one) for one in found]


def read(text: str) -> tuple[Manifest, list[str]]:
    manifest = read_manifest(text.encode(), source="f")
    return manifest, [*map(str, manifest.errors), *map(str, manifest.skipped)]


def test_there_are_two_thousand_texts() -> None:
    assert len(CASES) > 2_000
    assert {case["text"] for case in CASES} >= DIFFERENT


@pytest.mark.parametrize("part", range(8))
def test_objects_are_those_of_kubectl_or_an_error_says_that_they_differ(part: int) -> None:
    different = []
    for case in CASES[part::8]:
        manifest, problems = read(case["text"])
        objects = [one.object for one in manifest.documents]
        if case["failed"]:
            is_right = bool(problems)
        elif problems:
            is_right = any(text in problem for problem in problems for text in STRICTER)
        else:
            is_right = json.dumps(objects, sort_keys=True) == json.dumps(expand(case["objects"]), sort_keys=True)
        if is_right == (case["text"] in DIFFERENT):
            different.append((case["text"], case["objects"], objects, problems))
    assert different == []
