import pytest
import yaml

from fleethook.cluster.manifests.manifest_files import read_manifest
from fleethook.cluster.manifests.yaml_decoding_and_lines import FieldLines
from fleethook.engines.interpret.argocd_configmap import Checks, ScriptPlace, read_checks


def read(text: str) -> Checks:
    """Return the health checks in a file."""
    [document] = read_manifest(text.encode(), source="a.yaml").documents
    return read_checks(document, FieldLines())


def read_data(**data: object) -> Checks:
    """Return the health checks in an ``argocd-cm``."""
    metadata = {"name": "argocd-cm"}
    return read(yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))


ARGOCD_CM = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm}
data:
  url: https://argocd.example.com
  resource.customizations: |
    # Comments stay lines.
    example.com/Widget:
      health.lua: |
        return nil
      actions: |
        discovery.lua: return {}
    "*.example.org/*":
      health.lua: return {}
      health.lua.useOpenLibs: true
  resource.customizations.health.example.com_Widget: |
    hs = {}
    return hs
  resource.customizations.health.Pod: "return {}"
  resource.customizations.ignoreDifferences.all: "jsonPointers: [/spec]"
"""


def test_the_health_checks_of_an_argocd_cm_have_their_lines() -> None:
    found = read(ARGOCD_CM)
    assert [(one.pattern, one.script, one.place) for one in found.checks] == [
        # The key for one member replaces the member of the map, as in Argo CD.
        ("example.com/Widget", "hs = {}\nreturn hs\n", ScriptPlace("a.yaml", 16, 17)),
        ("*.example.org/*", "return {}", ScriptPlace("a.yaml", 14, 0)),
        ("Pod", "return {}", ScriptPlace("a.yaml", 19, 0)),
    ]
    assert [(one.level, one.code, one.subject, one.place.line) for one in found.remarks] == [
        ("warning", "no-counterpart", "example.com/Widget", 11),
        ("warning", "no-counterpart", "*/*", 20),
    ]
    assert found.checks[0].place.at(2) == ScriptPlace("a.yaml", 18)
    assert found.checks[1].place.at(1) == ScriptPlace("a.yaml", 14)


@pytest.mark.parametrize(
    ("key", "value", "level", "code"),
    [
        ("resource.customizations.health.a_b_c", "x", "error", "invalid-kind"),
        ("resource.customizations.health.", "x", "error", "invalid-kind"),
        ("resource.customizations.wealth.a_b", "x", "error", "unknown-member"),
        ("resource.customizations.health.a_b", 7, "error", "not-text"),
        ("resource.customizations", "{a: [", "error", "unreadable"),
        ("resource.customizations", "[]", "error", "unreadable"),
        ("resource.customizations", "a/B: 7", "error", "unreadable"),
        ("resource.customizations", "a/B: {health.lua: [1]}", "error", "not-text"),
        ("resource.customizations", "a/B: {wealth: x}", "warning", "unknown-member"),
        ("resource.customizations.knownTypeFields.a_b", "x", "warning", "no-counterpart"),
        ("resource.customizations.ignoreResourceUpdates.a_b", "x", "warning", "no-counterpart"),
    ],
)
def test_each_bad_part_is_reported_and_the_others_are_read(key: str, value: object, level: str, code: str) -> None:
    found = read_data(**{key: value, "resource.customizations.health.example.com_Widget": "return {}"})
    assert [(one.level, one.code) for one in found.remarks] == [(level, code)]
    assert [one.pattern for one in found.checks] == ["example.com/Widget"]


@pytest.mark.parametrize(
    "data",
    [
        {"url": "x", "resource.compareoptions": "x", "resource.customizations": 7},
        {"resource.customizations.useOpenLibs.a_b": "false", "resource.customizations.health.a_b": ""},
        {"resource.customizationsX.health.a_b": "return {}"},
    ],
)
def test_other_keys_are_not_customizations(data: dict[str, object]) -> None:
    assert read_data(**data) == Checks([], [])
