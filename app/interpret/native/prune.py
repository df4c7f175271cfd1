"""What of an object a member cluster is not to be sent (upstream: native/prune; in the proposal, ExplorePacking).

Upstream goes by the kind's name alone, so a custom resource called Job loses labels; here the group counts.
"""

from collections.abc import Callable
from typing import Final

from app.interpret.access import objects, text, without
from app.model.gvk import GroupKind
from app.model.json import JSONObject

_METADATA: Final = (
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
    "resourceVersion", "selfLink", "uid", "ownerReferences", "finalizers",
)  # fmt: skip


def prune(document: JSONObject) -> JSONObject:
    """Return ``document`` without what its own cluster says about it."""
    for name in _METADATA:
        document = without(document, "metadata", name)
    document = without(document, "status")
    group = str(document.get("apiVersion") or "").rpartition("/")[0]
    rule = _RULES.get(GroupKind(group, str(document.get("kind") or "")))
    return document if rule is None else rule(document)


def _annotations(*names: str) -> Callable[[JSONObject], JSONObject]:
    def remove(document: JSONObject) -> JSONObject:
        for name in names:
            document = without(document, "metadata", "annotations", name)
        return document

    return remove


def _job(document: JSONObject) -> JSONObject:
    spec = document.get("spec")
    if isinstance(spec, dict) and spec.get("manualSelector") is not True:
        for label in ("controller-uid", "batch.kubernetes.io/controller-uid"):
            document = without(document, "spec", "selector", "matchLabels", label)
            document = without(document, "spec", "template", "metadata", "labels", label)
        for label in ("job-name", "batch.kubernetes.io/job-name"):
            document = without(document, "spec", "template", "metadata", "labels", label)
    return without(document, "spec", "ttlSecondsAfterFinished")


def _secret(document: JSONObject) -> JSONObject:
    if text(document, "type") != "kubernetes.io/service-account-token":
        return document
    document = without(document, "metadata", "annotations", "kubernetes.io/service-account.uid")
    return {**document, "data": None} if "data" in document else document


def _service_account(document: JSONObject) -> JSONObject:
    prefix = f"{text(document, 'metadata', 'name')}-token-"
    secrets = objects(document, "secrets")
    kept = [secret for secret in secrets if not str(secret.get("name") or "").startswith(prefix)]
    return document if len(kept) == len(secrets) else {**document, "secrets": kept}


def _service(document: JSONObject) -> JSONObject:
    if text(document, "spec", "clusterIP") == "None":
        return document
    return without(without(document, "spec", "clusterIP"), "spec", "clusterIPs")


_RULES: Final = {
    GroupKind("apps", "Deployment"): _annotations(
        "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
    ),
    GroupKind("batch", "Job"): _job,
    GroupKind("", "Secret"): _secret,
    GroupKind("", "ServiceAccount"): _service_account,
    GroupKind("", "Service"): _service,
    GroupKind("", "PersistentVolumeClaim"): _annotations("volume.kubernetes.io/selected-node"),
}
