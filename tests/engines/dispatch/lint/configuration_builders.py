"""Webhook configurations for validation tests."""

from typing import Any, Final

from fleethook.engines.dispatch.lint.configuration_validation import configuration_problems
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import MUTATING

GROUP: Final = "admissionregistration.k8s.io"


def valid_webhook(**members: Any) -> dict[str, Any]:
    given_members = {"name": "a.example.com", "clientConfig": {"url": "https://example.com"}, "sideEffects": "None"}
    return {**given_members, "admissionReviewVersions": ["v1"], **members}


def webhook_configuration(*webhooks: Any, kind: str = MUTATING.kind, **metadata: Any) -> dict[str, Any]:
    document = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "config", **metadata}}
    return {**document, "webhooks": list(webhooks)}


def open_rule(**members: Any) -> dict[str, Any]:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    return {**everything, **members}


def find_errors(document: Any, kind: str = MUTATING.kind) -> list[tuple[str, str]]:
    return [tuple(one) for one in configuration_problems(kind, document)]
