"""Foreign webhooks: one changes workloads after fleethook's and causes a reinvocation, one records all reviews."""

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fleethook.patch import diff
from tests.e2e.cluster import Api
from tests.e2e.fleet import WEBHOOKS
from tests.hook_server import tls
from tests.http_server import HTTPAnswer, HTTPRequest, serve_http

Change = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the workload after the webhook's changes; must not change its argument."""

Review = Callable[[dict[str, Any]], list[dict[str, Any]]]
"""Returns the operations of the patch for a request."""


def _configuration(phase: str, name: str, webhook: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{phase}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "foreign.example.com",
                "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 10, "admissionReviewVersions": ["v1"],
                **webhook,
            }
        ],
    }  # fmt: skip


@contextlib.contextmanager
def _registered(
    admin: Api, directory: Path, review: Review, *, phase: str, name: str, webhook: dict[str, Any]
) -> Iterator[None]:
    """Run a webhook, and register it with the given members."""
    path = f"{WEBHOOKS}/{phase.lower()}webhookconfigurations"
    context, ca_bundle = tls(directory)

    def respond(asked: HTTPRequest) -> HTTPAnswer:
        request = asked.read_json()["request"]
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if operations := review(request):
            text = base64.b64encode(json.dumps(operations).encode()).decode()
            response |= {"patch": text, "patchType": "JSONPatch"}
        return HTTPAnswer(200, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    with serve_http(respond, context) as port:
        client = {"url": f"https://127.0.0.1:{port}/", "caBundle": ca_bundle}
        try:
            admin.create(path, _configuration(phase, name, {"clientConfig": client, **webhook}))
            yield
        finally:
            admin.call("DELETE", f"{path}/{name}")


@contextlib.contextmanager
def foreign_webhook(admin: Api, directory: Path, namespace: str, change: Change) -> Iterator[None]:
    """Run a webhook that changes the workloads of a namespace.

    Apiservers call webhooks in the order of the names of configurations, so the name begins with "zz".
    """
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}
    webhook = {
        "rules": [{**rule, "resources": ["deployments", "statefulsets"], "scope": "Namespaced"}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "reinvocationPolicy": "IfNeeded",
    }
    name = f"zz-foreign-{namespace}"
    with _registered(
        admin,
        directory,
        lambda request: diff(request["object"], change(request["object"])),
        phase="Mutating",
        name=name,
        webhook=webhook,
    ):
        yield


@contextlib.contextmanager
def recording_webhook(
    admin: Api, directory: Path, user: str, *, phase: str = "Validating"
) -> Iterator[list[dict[str, Any]]]:
    """Run a webhook that gets all requests of a user in the form that the user sent; yield the list of requests."""
    seen: list[dict[str, Any]] = []
    webhook = {
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"}],
        "matchPolicy": "Exact",
        "matchConditions": [{"name": "user", "expression": f"request.userInfo.username == '{user}'"}],
    }

    def record(request: dict[str, Any]) -> list[dict[str, Any]]:
        seen.append(request)
        return []

    with _registered(admin, directory, record, phase=phase, name=f"recording-{user}", webhook=webhook):
        yield seen
