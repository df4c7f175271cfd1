"""Small configurations, bindings and reviews."""

import copy
import json
from typing import Any

import msgspec

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import INDEXES
from fleethook.model.admission import AdmissionRequest, AdmissionReview
from fleethook.model.json import JSON

_KINDS = {"mutating": "MutatingWebhookConfiguration", "validating": "ValidatingWebhookConfiguration"}
WIDGETS = {"apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["*"]}


def in_cluster(cluster: str, api_version: str, kind: str, name: str, **members: Any) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {"kcp.io/cluster": cluster}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **members}


def webhook(name: str = "w.example.org", url: str = "https://localhost/w", **members: Any) -> dict[str, Any]:
    return {
        "name": name, "clientConfig": {"url": url}, "rules": [WIDGETS], "sideEffects": "None",
        "admissionReviewVersions": ["v1"], **members,
    }  # fmt: skip


def configuration(cluster: str, phase: str, *webhooks: dict[str, Any], name: str = "hooks") -> dict[str, Any]:
    return in_cluster(cluster, "admissionregistration.k8s.io/v1", _KINDS[phase], name, webhooks=list(webhooks))


def binding(
    cluster: str, owner: str, *resources: str, name: str = "widgets", export: str = "widgets", phase: str = "Bound"
) -> dict[str, Any]:
    """Return an APIBinding of resources such as ``widgets.example.org``."""
    bound = [
        {"group": group, "resource": resource, "schema": {"name": f"v1.{one}"}}
        for one in resources
        for resource, _, group in [one.partition(".")]
    ]
    status = {"phase": phase, "apiExportClusterName": owner, "boundResources": bound}
    spec = {"reference": {"export": {"path": f"root:{owner}", "name": export}}}
    return in_cluster(cluster, "apis.kcp.io/v1alpha2", "APIBinding", name, spec=spec, status=status)


def export(cluster: str, *resources: str, name: str = "widgets") -> dict[str, Any]:
    exported = [{"name": one.partition(".")[0], "group": one.partition(".")[2]} for one in resources]
    return in_cluster(cluster, "apis.kcp.io/v1alpha2", "APIExport", name, spec={"resources": exported})


def definition(cluster: str, resource: str, *versions: str, kind: str = "Widget", **spec: Any) -> dict[str, Any]:
    plural, _, group = resource.partition(".")
    given = {
        "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
        "versions": [{"name": version, "served": True} for version in versions], **spec,
    }  # fmt: skip
    return in_cluster(cluster, "apiextensions.k8s.io/v1", "CustomResourceDefinition", resource, spec=given)


def namespace(cluster: str, name: str = "default", **labels: str) -> dict[str, Any]:
    made = in_cluster(cluster, "v1", "Namespace", name)
    made["metadata"]["labels"] = labels
    return made


def workspace(parent: str, name: str, cluster: str) -> dict[str, Any]:
    return in_cluster(parent, "tenancy.kcp.io/v1alpha1", "Workspace", name, spec={"cluster": cluster})


def logical_cluster(name: str, *, parent: str = "", workspace: str = "") -> dict[str, Any]:
    spec = {"owner": {"cluster": parent, "name": workspace}} if parent else {}
    return in_cluster(name, "core.kcp.io/v1alpha1", "LogicalCluster", "cluster", spec=spec)


def widget(name: str = "b", version: str = "v1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"example.org/{version}", "kind": "Widget", "metadata": metadata, "spec": spec}


def review(document: JSON = None, *, old: JSON = None, operation: str = "CREATE", **request: Any) -> dict[str, Any]:
    """Return an AdmissionReview, by default of a Widget."""
    subject = document or old or widget()
    group, _, version = subject["apiVersion"].rpartition("/")
    given = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": subject["kind"]},
        "resource": {"group": group, "version": version, "resource": f"{subject['kind'].lower()}s"},
        "name": subject["metadata"].get("name", ""),
        "namespace": subject["metadata"].get("namespace", ""),
        "operation": operation,
        "userInfo": {"username": "alice", "groups": ["devs"]},
        "object": document if document is not None or old is not None else subject,
        "oldObject": old,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.title()}Options"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**given, **request}}


def request_of(made: dict[str, Any]) -> AdmissionRequest:
    found = msgspec.json.decode(json.dumps(made).encode(), type=AdmissionReview).request
    assert found is not None
    return found


def store_of(*documents: dict[str, Any]) -> Store:
    store = Store(INDEXES)
    for document in documents:
        store.put(copy.deepcopy(document))
    return store
