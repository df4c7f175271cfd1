"""Webhook configurations for validation tests."""

import json
from typing import Any, Final

import msgspec

from fleethook.engines.dispatch.configuration_review import validate_configuration
from fleethook.engines.dispatch.configuration_validation import configuration_problems
from fleethook.engines.dispatch.hooks.hooks import MUTATING
from fleethook.model.admission import AdmissionRequest, Response

GROUP: Final = "admissionregistration.k8s.io"


MISTYPED: Final = "Invalid value: must be "


def valid_webhook(**members: Any) -> dict[str, Any]:
    given_members = {"name": "a.example.com", "clientConfig": {"url": "https://example.com"}, "sideEffects": "None"}
    return {**given_members, "admissionReviewVersions": ["v1"], **members}


def webhook_configuration(*webhooks: Any, kind: str = MUTATING.kind, **metadata: Any) -> dict[str, Any]:
    document = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "config", **metadata}}
    return {**document, "webhooks": list(webhooks)}


def rule(**members: Any) -> dict[str, Any]:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    return {**everything, **members}


def compile_expression(expression: str) -> None:
    if expression != "true":
        raise ValueError("no such thing")


def find_errors(document: Any, old: Any = None, kind: str = MUTATING.kind) -> list[tuple[str, str]]:
    return [
        tuple(one) for one in configuration_problems(kind, document, old=old, compile_expression=compile_expression)
    ]


def review_configuration(document: Any, old: Any = None, *, kind: str = MUTATING.kind, **fields: Any) -> Response:
    request = {
        "uid": "u", "operation": "CREATE" if old is None else "UPDATE", "object": document, "oldObject": old,
        "kind": {"group": GROUP, "version": "v1", "kind": kind}, **fields,
    }  # fmt: skip
    decoded = msgspec.json.decode(json.dumps(request), type=AdmissionRequest)
    return validate_configuration(decoded, compile_expression=compile_expression)
