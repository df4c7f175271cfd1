import pytest
import yaml

from fleethook.cluster.manifests.manifest_reader import read_manifest
from fleethook.cluster.manifests.yaml_reader import FieldLines
from fleethook.engines.interpret.argocd_checks import Checks, Place, read_checks


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
        ("example.com/Widget", "hs = {}\nreturn hs\n", Place("a.yaml", 16, 17)),
        ("*.example.org/*", "return {}", Place("a.yaml", 14, 0)),
        ("Pod", "return {}", Place("a.yaml", 19, 0)),
    ]
    assert [(one.level, one.code, one.subject, one.place.line) for one in found.remarks] == [
        ("warning", "no-counterpart", "example.com/Widget", 11),
        ("note", "no-counterpart", "*.example.org/*", 15),
        ("warning", "no-counterpart", "*/*", 20),
    ]
    assert found.checks[0].place.at(2) == Place("a.yaml", 18)
    assert found.checks[1].place.at(1) == Place("a.yaml", 14)


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
        ("resource.customizations.useOpenLibs.a_b", "true", "note", "no-counterpart"),
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


OPERATED = """\
apiVersion: argoproj.io/v1beta1
kind: ArgoCD
metadata: {name: openshift-gitops}
spec:
  resourceCustomizations: |
    example.com/Old:
      health.lua: return {}
  resourceHealthChecks:
    - group: example.com
      kind: Widget
      check: |
        return {status = "Healthy"}
    - kind: Pod
      check: return {}
    - {kind: Broken, check: 7}
  resourceActions: [{group: example.com, kind: Widget, action: x}]
  resourceIgnoreDifferences: {all: {jsonPointers: [/spec]}}
"""


def test_the_health_checks_of_the_operator_are_those_of_an_argocd_cm() -> None:
    found = read(OPERATED)
    assert [(one.pattern, one.place) for one in found.checks] == [
        ("example.com/Old", Place("a.yaml", 7)),
        ("example.com/Widget", Place("a.yaml", 11, 12)),
        ("Pod", Place("a.yaml", 14)),
    ]
    assert [(one.code, one.subject, one.place.line) for one in found.remarks] == [
        ("no-counterpart", "ArgoCD openshift-gitops", 17),
        ("no-counterpart", "example.com/Widget", 16),
        ("not-text", "Broken", 15),
    ]


MISPLACED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: karmada-config, namespace: karmada-system}
data:
  retention.customizations: |
    - apiVersion: games.example.com/v1
      kind: Game
      health.lua: |
        return {status = obj.status.phase}
    - apiVersion: v1
      kind: Action
      health.lua: |
        obj.spec.paused = true
        return obj
    - apiVersion: games.example.com/v1
      kind: Right
      health.lua: desiredObj.spec.x = runtimeObj.spec.x
"""
CUSTOMIZATION = """\
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: pasted}
spec:
  target: {apiVersion: games.example.com/v1, kind: Game}
  customizations:
    retention: {luaScript: 'return {status = "Healthy"}'}
    statusReflection: {luaScript: "return observedObj.status"}
    healthInterpretation: {luaScript: "function InterpretHealth(obj) return obj.status ~= nil end"}
"""


def test_health_checks_that_users_pasted_into_objects_of_karmada_are_found() -> None:
    found = read(MISPLACED)
    assert [(one.pattern, one.kinds[0].version, one.place) for one in found.checks] == [
        ("games.example.com/Game", "v1", Place("a.yaml", 8, 9))
    ]
    assert [(one.level, one.subject, one.place.line) for one in found.remarks] == [
        ("note", "games.example.com/Game", 8),
        ("warning", "Action", 12),
    ]
    found = read(CUSTOMIZATION)
    assert [(one.pattern, one.script) for one in found.checks] == [
        ("games.example.com/Game", 'return {status = "Healthy"}')
    ]
    [remark] = found.remarks
    assert remark.text.endswith(
        "remove spec.customizations.retention.luaScript of ResourceInterpreterCustomization pasted"
    )
