"""Removes the members of an object that belong to its own cluster (ExplorePacking of the proposal).

Karmada compares only the name of the kind, so a custom resource with kind Job loses labels. fleethook also compares the
group.

Source: karmada v1.16 pkg/resourceinterpreter/default/native/prune.
"""

from collections.abc import Callable
from typing import Final

from fleethook.interpret.typed_members import objects, text, without
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject

_METADATA: Final = (
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
    "resourceVersion", "selfLink", "uid", "ownerReferences", "finalizers",
)  # fmt: skip


def prune(document: JSONObject) -> JSONObject:
    """Return ``document`` without the members that its own cluster has set."""
    for name in _METADATA:
        document = without(document, "metadata", name)
    document = without(document, "status")
    group = str(document.get("apiVersion") or "").rpartition("/")[0]
    rule = _RULES.get(GroupKind(group, str(document.get("kind") or "")))
    return document if rule is None else rule(document)


def _make_annotation_remover(*names: str) -> Callable[[JSONObject], JSONObject]:
    def remove(document: JSONObject) -> JSONObject:
        for name in names:
            document = without(document, "metadata", "annotations", name)
        return document

    return remove


def _prune_job(document: JSONObject) -> JSONObject:
    spec = document.get("spec")
    if isinstance(spec, dict) and spec.get("manualSelector") is not True:
        for label in ("controller-uid", "batch.kubernetes.io/controller-uid"):
            document = without(document, "spec", "selector", "matchLabels", label)
            document = without(document, "spec", "template", "metadata", "labels", label)
        for label in ("job-name", "batch.kubernetes.io/job-name"):
            document = without(document, "spec", "template", "metadata", "labels", label)
    return without(document, "spec", "ttlSecondsAfterFinished")


def _prune_secret(document: JSONObject) -> JSONObject:
    if text(document, "type") != "kubernetes.io/service-account-token":
        return document
    document = without(document, "metadata", "annotations", "kubernetes.io/service-account.uid")
    return {**document, "data": None} if "data" in document else document


def _prune_service_account(document: JSONObject) -> JSONObject:
    prefix = f"{text(document, 'metadata', 'name')}-token-"
    secrets = objects(document, "secrets")
    kept = [secret for secret in secrets if not str(secret.get("name") or "").startswith(prefix)]
    return document if len(kept) == len(secrets) else {**document, "secrets": kept}


def _prune_service(document: JSONObject) -> JSONObject:
    if text(document, "spec", "clusterIP") == "None":
        return document
    return without(without(document, "spec", "clusterIP"), "spec", "clusterIPs")


_RULES: Final = {
    GroupKind("apps", "Deployment"): _make_annotation_remover(
        "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
    ),
    GroupKind("batch", "Job"): _prune_job,
    GroupKind("", "Secret"): _prune_secret,
    GroupKind("", "ServiceAccount"): _prune_service_account,
    GroupKind("", "Service"): _prune_service,
    GroupKind("", "PersistentVolumeClaim"): _make_annotation_remover("volume.kubernetes.io/selected-node"),
}
