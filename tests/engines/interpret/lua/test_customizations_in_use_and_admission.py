"""Customizations in the store: changes apply without a restart, and the last valid version stays in use."""

import base64
import json
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client.registry import Collector

from fleethook.app import Fleethook, create_app
from fleethook.model.json import JSONObject
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.engines.interpret.lua.customization_objects import config_map, customization, retention

FOO = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "foo"}, "spec": {"size": 1}}
OBSERVED = {**FOO, "spec": {"size": 9, "assigned": "node-1"}}


async def explore(app: Fleethook, operation: str, **members: Any) -> JSONObject:
    request = {"uid": "u", "operation": operation, "object": FOO, **members}
    review = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
    response = await call(app, "/interpret", json.dumps(review).encode(), query=b"explain=1")
    assert response.status == 200
    return response.json()


async def ask_retention(app: Fleethook) -> Any:
    answer = await explore(app, "Retain", observedObject=OBSERVED)
    return answer["response"], [step["layer"] for step in answer["explanation"] if step["outcome"] != "none"]


async def test_invalid_update_keeps_the_last_valid_version_and_is_reported(app: Fleethook) -> None:
    app.store.put(config_map(retention("desiredObj.spec.assigned = runtimeObj.spec.assigned")))
    app.store.put(config_map(retention("desiredObj.spec.assigned = ")))
    assert "patch" in (await ask_retention(app))[0]
    readiness = (await call(app, "/readyz", b"", method="GET")).json()
    [check] = [check for check in readiness["checks"] if check["name"] == "customizations"]
    assert check["ok"]
    assert check["detail"] == (
        "ConfigMap karmada-system/karmada-config: invalid, its last valid version stays in use: "
        "data[retention.customizations][0].retention.lua: Lua script error: line 2: unexpected symbol near '<eof>'"
    )
    assert app.engines["interpret"].customizations.counts() == (1, 1)
    app.store.put(config_map(retention("desiredObj.spec.size = 1")))
    assert app.engines["interpret"].customizations.counts() == (1, 0)


def read_samples(collectors: Iterable[Collector]) -> dict[str, float]:
    families = (family for collector in collectors for family in collector.collect())
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_a_refused_customization_is_a_check_that_leaves_the_server_ready_and_counts(app: Fleethook) -> None:
    app.store.put(customization("broken", healthInterpretation="function ("))
    server = app.engines["interpret"]
    assert [(check.name, check.ok, "broken" in check.detail) for check in server.checks()] == [
        ("customizations", True, True)
    ]
    samples = read_samples(server.customizations.collectors())
    assert samples == {"fleethook_scripts": 0, "fleethook_customizations_refused": 1}
    assert samples.items() <= read_samples(server.collectors()).items()


async def test_other_config_maps_are_not_read(app: Fleethook) -> None:
    app.store.put(config_map(retention("x ="), name="other"))
    app.store.put(config_map(retention("x ="), namespace="elsewhere"))
    assert app.engines["interpret"].customizations.counts() == (0, 0)


async def test_objects_of_other_clusters_are_not_read(app: Fleethook) -> None:
    other = config_map(retention("desiredObj.spec.size = 7"))
    other["metadata"]["annotations"] = {"kcp.io/cluster": "tenant"}
    app.store.put(other)
    assert app.engines["interpret"].customizations.counts() == (0, 0)


async def test_of_several_customizations_the_first_by_name_answers_and_dependencies_are_united(app: Fleethook) -> None:
    def needing(name: str) -> str:
        return f"function GetDependencies(o) return {{{{apiVersion = 'v1', kind = 'Secret', name = '{name}'}}}} end"

    health = "function InterpretHealth(o) return {} end"
    app.store.put(
        customization("b", healthInterpretation=health.format("false"), dependencyInterpretation=needing("b"))
    )
    app.store.put(customization("a", healthInterpretation=health.format("true"), dependencyInterpretation=needing("a")))
    assert (await explore(app, "InterpretHealth"))["response"]["healthy"] is True
    dependencies = (await explore(app, "InterpretDependency"))["response"]["dependencies"]
    assert [one["name"] for one in dependencies] == ["a", "b"]


async def test_customizations_are_asked_before_the_config_map(app: Fleethook) -> None:
    app.store.put(config_map(retention("desiredObj.spec.from = 'ConfigMap'")))
    app.store.put(customization("z", retention="function Retain(d, o) d.spec.from = 'customization' return d end"))
    response, _ = await ask_retention(app)
    assert b"customization" in base64.b64decode(response["patch"])


async def test_annotation_applies_a_customization_to_other_versions_and_kinds(app: Fleethook) -> None:
    document = customization("a", healthInterpretation="function InterpretHealth(o) return true end")
    document["metadata"]["annotations"] = {"fleethook.io/also-for": "example.com/v2, example.com/v3 Bar Baz"}
    app.store.put(document)
    kind = FOO["kind"]
    for version, name, known in (
        ("v1", kind, True), ("v2", kind, True), ("v3", "Bar", True), ("v3", "Baz", True), ("v3", kind, False), ("v2", "Bar", False),
    ):  # fmt: skip
        asked = {**FOO, "apiVersion": f"example.com/{version}", "kind": name}
        answer = await explore(app, "InterpretHealth", object=asked)
        assert answer["response"]["successful"] is known, (version, name)


async def test_rule_answers_only_its_operation(app: Fleethook) -> None:
    app.store.put(customization("a", retention="function Retain(d, o) return d end"))
    answer = await explore(app, "InterpretHealth")
    assert not answer["response"]["successful"]
    assert {step["layer"] for step in answer["explanation"]} == {"lua", "webhook", "python", "bundle", "native"}


@pytest.mark.parametrize(
    ("operation", "member", "script", "members", "response"),
    [
        ("InterpretReplica", "replicaResource", "function GetReplicas(o) return o.spec.size / 2 end", {}, {"replicas": 0}),
        ("InterpretReplica", "replicaResource", "function GetReplicas(o) return 2, {} end", {}, {"replicas": 2}),
        ("InterpretReplica", "replicaResource",
         "function GetReplicas(o) return 2, {resourceRequest = {cpu = '1'}} end", {},
         {"replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}),
        ("InterpretStatus", "statusReflection", "function ReflectStatus(o) return {size = o.spec.size} end", {},
         {"rawStatus": {"size": 1}}),
        ("InterpretStatus", "statusReflection", "function ReflectStatus(o) return {} end", {}, {"rawStatus": {}}),
        ("InterpretStatus", "statusReflection", "function ReflectStatus(o) return {spec = {}, list = {}, n = 1} end",
         {"object": {**FOO, "status": {"list": [1]}}}, {"rawStatus": {"n": 1}}),
        ("InterpretComponent", "componentResource",
         "function GetComponents(o) return {{name = 'one', replicas = 2}} end", {},
         {"components": [{"name": "one", "replicas": 2}]}),
        ("InterpretComponent", "componentResource", "function GetComponents(o) return nil end", {}, {"components": []}),
        ("InterpretDependency", "dependencyInterpretation", "function GetDependencies(o) return {} end", {},
         {"dependencies": []}),
        ("ReviseReplica", "replicaRevision", "function ReviseReplica(o, n) o.spec.size = n return o end",
         {"replicas": 1}, {"patch": None}),
        ("AggregateStatus", "statusAggregation", "function AggregateStatus(o, items) o.spec.size = #items return o end",
         {"aggregatedStatus": [{"clusterName": "a"}]}, {"patch": None}),
        ("AggregateStatus", "statusAggregation",
         "function AggregateStatus(o, items) assert(items[2].status.n == 3) o.spec.size = #items return o end",
         {"aggregatedStatus": [{"clusterName": "a"}, {"clusterName": "b", "status": {"n": 3}}]},
         {"patch": "W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9zcGVjL3NpemUiLCJ2YWx1ZSI6Mn1d"}),
    ],
)  # fmt: skip
async def test_answers_by_operation(
    app: Fleethook, operation: str, member: str, script: str, members: JSONObject, response: JSONObject
) -> None:
    app.store.put(customization("a", **{member: script}))
    answer = (await explore(app, operation, **members))["response"]
    assert answer["successful"], answer
    assert {name: answer.get(name) for name in response} == response


@pytest.mark.parametrize(
    ("operation", "member", "script", "text"),
    [
        ("InterpretHealth", "healthInterpretation", "function InterpretHealth(o)\n  return o.status.ok\nend",
         "a/healthInterpretation:2: attempt to index a nil value (field 'status')"),
        ("Retain", "retention", "function Retain(d, o) d.kind = 'Bar' return d end", "a/retention:1: kind was changed"),
        ("Retain", "retention", "function Retain(d, o) while true do end end", "Retain took more than "),
        ("InterpretDependency", "dependencyInterpretation", "function GetDependencies(o) return {{kind = 'x'}} end",
         "dependencies[0].apiVersion"),
    ],
)  # fmt: skip
async def test_error_of_a_script_is_reported(
    app: Fleethook, operation: str, member: str, script: str, text: str
) -> None:
    app.store.put(customization("a", **{member: script}))
    answer = await explore(app, operation, observedObject=OBSERVED)
    assert not answer["response"]["successful"]
    assert text in answer["response"]["status"]["message"]
    assert answer["explanation"][-1]["layer"] == "lua"


async def test_the_bundle_can_be_switched_off() -> None:
    clones = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": {"name": "x"},
        "spec": {"replicas": 3},
    }
    for bundle, layer in ((True, "bundle"), (False, "native")):
        app = create_app(Settings(bundle=bundle), log=None)
        answer = await explore(app, "InterpretReplica", object=clones)
        assert answer["response"]["successful"] is bundle
        if bundle:
            assert answer["response"]["replicas"] == 3
            assert answer["explanation"][-1]["layer"] == layer


async def test_scripts_are_measured() -> None:
    app = create_app(Settings(), log=None)
    app.store.put(
        customization(
            "a",
            retention="function Retain(d) return d end",
            healthInterpretation="function InterpretHealth() while true do end end",
        )
    )
    await explore(app, "Retain", observedObject=OBSERVED)
    await explore(app, "InterpretHealth")
    text = app.metrics.exposition("")[0].decode()
    rule = 'rule="ResourceInterpreterCustomization a"'
    assert f'fleethook_script_duration_seconds_count{{outcome="answered",{rule}}} 1.0' in text
    assert f'fleethook_script_duration_seconds_count{{outcome="instructions",{rule}}} 1.0' in text


CUSTOMIZATIONS = "/validate-config-karmada-io-v1alpha1-resourceinterpretercustomization"


@pytest.fixture
def app() -> Fleethook:
    return create_app(Settings(), log=None)


def make_review(document: JSONObject, operation: str = "CREATE") -> bytes:
    group, _, version = document["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    request = {"uid": "u", "kind": kind, "operation": operation, "object": document}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


@pytest.mark.parametrize(
    ("document", "allowed", "text"),
    [
        (config_map(retention("desiredObj.x = 1")), True, ""),
        (config_map(retention("desiredObj.x =")), False, "Lua script error: line 2"),
        (config_map(retention("desiredObj.x ="), name="other"), True, ""),
        (config_map(retention("desiredObj.x ="), namespace="other"), True, ""),
        (config_map(retention("return {status = obj.status}")), False, "interpret convert --from argocd"),
        (customization("a", retention="function Retain(d) return d end"), True, ""),
        (customization("a", retention="return {status = obj.status}"), False, "interpret convert --from argocd"),
        (customization("a", retention="function Retain(d) return d"), False, "spec.customizations.retention.luaScript"),
        (customization("a", retention="error('no') function Retain(d) return d end"), False, "retention:1: no"),
        (customization("a", retention="while true do end function Retain(d) return d end"), False, "took more than"),
    ],
)  # fmt: skip
async def test_validity_decides_admission(app: Fleethook, document: JSONObject, *, allowed: bool, text: str) -> None:
    path = "/validate-v1-configmap" if document["kind"] == "ConfigMap" else CUSTOMIZATIONS
    response = (await call(app, path, make_review(document))).json()["response"]
    assert response["allowed"] is allowed
    if not allowed:
        assert text in response["status"]["message"]


async def test_rule_of_another_customization_is_a_conflict(app: Fleethook) -> None:
    app.store.put(customization("first", retention="function Retain(d) return d end"))
    second = customization("second", retention="function Retain(d) return d end")
    response = (await call(app, CUSTOMIZATIONS, make_review(second))).json()["response"]
    assert (
        "conflicting with InterpreterOperation(Retain) of existing ResourceInterpreterCustomization first"
        in (response["status"]["message"])
    )
    again = customization("first", retention="function Retain(d) d.x = 1 return d end")
    assert (await call(app, CUSTOMIZATIONS, make_review(again, "UPDATE"))).json()["response"]["allowed"]
    other = customization("second", dependencyInterpretation="function GetDependencies() return {} end")
    assert (await call(app, CUSTOMIZATIONS, make_review(other))).json()["response"]["allowed"]


async def test_suspicious_code_is_a_warning(app: Fleethook) -> None:
    document = customization("a", retention="function Retain(d)\n  kept = d\n  return d\nend")
    response = (await call(app, CUSTOMIZATIONS, make_review(document))).json()["response"]
    assert response["allowed"]
    [warning] = response["warnings"]
    assert warning.startswith(
        "spec.customizations.retention.luaScript: line 2: kept is set as a global: declare it `local`"
    )
