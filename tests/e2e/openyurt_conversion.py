"""OpenYurt's conversion webhook for YurtAppSets, which answers a real apiserver while a test upgrades the definitions.

Upstream: OpenYurt 1.6.1, pkg/apis/apps/v1alpha1/yurtappset_conversion.go. Node pools are the values of the first expression
of each pool, replicas become tweaks; patches, tolerations and the selector are dropped.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.openyurt import GROUP, JSONObject
from tests.hook_server import tls
from tests.http_server import HTTPAnswer, HTTPRequest, serve_http

_ALPHA, _BETA = f"{GROUP}/v1alpha1", f"{GROUP}/v1beta1"
_COUNTS = ("totalWorkloads", "updatedWorkloads", "readyWorkloads")


def convert(subject: JSONObject, version: str) -> JSONObject:
    """Return a YurtAppSet in another version."""
    if subject["apiVersion"] == version:
        return subject
    spec, status = (_to_beta if version == _BETA else _to_alpha)(subject.get("spec") or {}, subject.get("status") or {})
    return {**subject, "apiVersion": version, "spec": spec, **({"status": status} if "status" in subject else {})}


def _to_beta(spec: JSONObject, status: JSONObject) -> tuple[JSONObject, JSONObject]:
    pools = [(_values(pool), pool.get("replicas")) for pool in spec.get("topology", {}).get("pools", [])]
    tweaks = [{"pools": names, "tweaks": {"replicas": count}} for names, count in pools if count is not None]
    workload = {"workloadTemplate": spec.get("workloadTemplate", {}), "workloadTweaks": tweaks}
    made = {"pools": [name for names, _ in pools for name in names], "workload": workload}
    return made, {**_common(status), **{name: status.get(name, 0) for name in _COUNTS}}


def _to_alpha(spec: JSONObject, status: JSONObject) -> tuple[JSONObject, JSONObject]:
    workload = spec.get("workload", {})
    replicas = {
        name: one["tweaks"].get("replicas")
        for one in workload.get("workloadTweaks", [])
        for name in one.get("pools", [])
    }
    pools = [_pool(name, replicas.get(name)) for name in spec.get("pools", [])]
    made = {"selector": {}, "topology": {"pools": pools}, "workloadTemplate": workload.get("workloadTemplate", {})}
    return made, {**_common(status), "replicas": 0, "templateType": ""}


def _values(pool: JSONObject) -> list[str]:
    values: list[str] = pool["nodeSelectorTerm"]["matchExpressions"][0]["values"]
    return values


def _pool(name: str, replicas: int | None) -> JSONObject:
    expression = {"key": f"{GROUP}/nodepool", "operator": "In", "values": [name]}
    made = {"name": name, "nodeSelectorTerm": {"matchExpressions": [expression]}}
    return made if replicas is None else {**made, "replicas": replicas}


def _common(status: JSONObject) -> JSONObject:
    return {
        "currentRevision": "",
        **{name: status[name] for name in ("currentRevision", "observedGeneration") if name in status},
    }


def _respond(asked: HTTPRequest) -> HTTPAnswer:
    request = asked.read_json()["request"]
    converted = [convert(one, request["desiredAPIVersion"]) for one in request["objects"]]
    response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}
    return HTTPAnswer(200, review)


@contextlib.contextmanager
def serve_conversion_webhook(directory: Path) -> Iterator[JSONObject]:
    """Serve the webhook; yield ``spec.conversion`` of a definition that uses it."""
    context, ca_bundle = tls(directory)
    with serve_http(_respond, context) as port:
        client = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": ca_bundle}
        yield {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
