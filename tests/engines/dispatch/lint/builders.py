"""Webhook configurations for lint tests."""

from typing import Any

from fleethook.engines.dispatch.lint.rule_and_binding_checks import lint
from tests.engines.dispatch.builders import WIDGETS, configuration, definition, export, in_cluster, store_of, webhook

Documents = list[dict[str, Any]]


WIDGET = definition("c", "widgets.example.org", "v1", "v2")


NODES = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"], "operations": ["*"]}


PODS = {**NODES, "resources": ["pods"]}


ALL = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}


OWN = {"service": {"name": "hook", "namespace": "hooks", "path": "/w"}}


NOT_OF_KUBERNETES = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kube-node-lease"]}
    ]
}
NOT_ITSELF = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["hooks"]}]}


def find_issues(*documents: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one.code, one.webhook, one.text) for one in lint(store_of(*documents))]


def list_codes(*documents: dict[str, Any]) -> list[str]:
    return [one.code for one in lint(store_of(*documents))]


def validating(*webhooks: dict[str, Any], cluster: str = "c") -> dict[str, Any]:
    return configuration(cluster, "validating", *webhooks)


def mutating(*webhooks: dict[str, Any], cluster: str = "c", name: str = "hooks") -> dict[str, Any]:
    return configuration(cluster, "mutating", *webhooks, name=name)


def rule(**members: Any) -> dict[str, Any]:
    return webhook(rules=[{**WIDGETS, **members}])


def condition(expression: str, operations: tuple[str, ...] = ("CREATE", "UPDATE")) -> dict[str, Any]:
    rules = [{**WIDGETS, "operations": list(operations)}]
    return webhook(rules=rules, matchConditions=[{"name": "a", "expression": expression}])


def selecting(**selector: Any) -> dict[str, Any]:
    return webhook(objectSelector=selector)


def slow(name: str, seconds: int, **members: Any) -> dict[str, Any]:
    return webhook(f"{name}.example.org", f"https://localhost/{name}", timeoutSeconds=seconds, **members)


def own(**members: Any) -> dict[str, Any]:
    return webhook(**{"clientConfig": OWN, "rules": [PODS], **members})


def schema(cluster: str, resource: str, **spec: Any) -> dict[str, Any]:
    plural, _, group = resource.partition(".")
    given = {
        "group": group,
        "names": {"plural": plural, "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [{"name": "v1"}],
        **spec,
    }
    return in_cluster(cluster, "apis.kcp.io/v1alpha1", "APIResourceSchema", f"v1.{resource}", spec=given)


def exported(cluster: str, resource: str) -> dict[str, Any]:
    made = export(cluster, resource)
    made["spec"]["resources"][0]["schema"] = f"v1.{resource}"
    return made
