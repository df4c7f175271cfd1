"""Admission of customizations and of the ConfigMap ``karmada-config``, through their routes."""

import json

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.model.json import JSONObject
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.engines.interpret.lua.customization_objects import config_map, customization, retention

CUSTOMIZATIONS = "/validate-config-karmada-io-v1alpha1-resourceinterpretercustomization"


@pytest.fixture
def app() -> Fleethook:
    return create_app(Settings(lua_seconds=0.2), log=None)


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
        (config_map(retention("return {status = obj.status}")), False, "fleethook interpret convert --from argocd FILE"),
        (customization("a", retention="function Retain(d) return d end"), True, ""),
        (customization("a", retention="return {status = obj.status}"), False, "interpret convert --from argocd FILE"),
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
