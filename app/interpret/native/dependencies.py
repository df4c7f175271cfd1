"""What an object needs to be there with it (upstream: native/dependencies.go): sorted by kind and name, each once."""

from app.interpret.access import InterpretError, objects, text
from app.interpret.native import pods
from app.model.json import JSONObject
from app.model.names import label_value_problem


def _namespace(document: JSONObject) -> str:
    return text(document, "metadata", "namespace")


def workload(document: JSONObject) -> list[JSONObject]:
    """What the Pods of a workload need."""
    return pods.dependencies(pods.template_of(document), _namespace(document))


def cron_job(document: JSONObject) -> list[JSONObject]:
    """What the Pods of a CronJob's Jobs need."""
    return pods.dependencies(
        pods.template_of(document, "spec", "jobTemplate", "spec", "template"), _namespace(document)
    )


def pod(document: JSONObject) -> list[JSONObject]:
    """What a Pod needs."""
    return pods.dependencies(document, _namespace(document))


def stateful_set(document: JSONObject) -> list[JSONObject]:
    """What the Pods of a StatefulSet need, but for the claims that it makes itself."""
    made = {text(template, "metadata", "name") for template in objects(document, "spec", "volumeClaimTemplates")}
    return [
        reference
        for reference in workload(document)
        if reference["kind"] != "PersistentVolumeClaim" or reference["name"] not in made
    ]


def ingress(document: JSONObject) -> list[JSONObject]:
    """The certificates of an Ingress; TLS without one is legal, and fails upstream."""
    names = {text(tls, "secretName") for tls in objects(document, "spec", "tls")} - {""}
    namespace = _namespace(document)
    return [{"apiVersion": "v1", "kind": "Secret", "namespace": namespace, "name": name} for name in sorted(names)]


def service_import(document: JSONObject) -> list[JSONObject]:
    """The Service derived from a ServiceImport, and its endpoints."""
    name = text(document, "metadata", "name")
    derived = f"derived-{name}"
    if not name or label_value_problem(derived):
        raise InterpretError(f"metadata.name is {name!r}, which is not usable in the name of the derived Service")
    namespace = _namespace(document)
    return [
        {"apiVersion": "v1", "kind": "Service", "namespace": namespace, "name": derived},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "namespace": namespace,
            "labelSelector": {"matchLabels": {"kubernetes.io/service-name": derived}},
        },
    ]
