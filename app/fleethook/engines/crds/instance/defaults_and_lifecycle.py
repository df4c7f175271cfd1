"""The defaults and the lifecycle of a Karmada instance: finalizer, label, suspension and deletion.

Their names are those of upstream (operator/pkg/controller/karmada/controller.go, v1.17.1), so that Karmada's operator
can take over from fleethook and the reverse.
"""

from typing import Final

from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, not_for_review
from fleethook.model.crd_tarball import KARMADA, Policy
from fleethook.model.json import JSON, JSONObject, as_list, as_object

FINALIZER: Final = "operator.karmada.io/finalizer"
CASCADE_LABEL: Final = "operator.karmada.io/disable-cascading-deletion"
_CASCADES: Final = "false"


def is_suspended(karmada: JSONObject) -> bool:
    """Return whether an instance is suspended: it is not reconciled, even if it is deleted."""
    return as_object(karmada.get("spec")).get("suspend") is True


def is_being_deleted(karmada: JSONObject) -> bool:
    """Return whether an instance is being deleted."""
    return bool(as_object(karmada.get("metadata")).get("deletionTimestamp"))


def cascades_deletion(karmada: JSONObject) -> bool:
    """Return whether deleting an instance also deletes its control plane."""
    labels = as_object(as_object(karmada.get("metadata")).get("labels"))
    return bool(labels.get(CASCADE_LABEL, _CASCADES) == _CASCADES)


def needs_reconcile(before: JSONObject | None, after: JSONObject) -> bool:
    """Return whether a change needs a reconciliation: a new instance, a deletion, or a new spec."""
    if is_suspended(after):
        return False
    return (
        not is_same_instance(before, after)
        or is_being_deleted(after)
        or as_object(before).get("spec") != after.get("spec")
    )


def is_same_instance(before: JSONObject | None, after: JSONObject) -> bool:
    """Return whether both states are of the same instance, by uid."""
    return before is not None and _uid(before) == _uid(after)


def mutate_karmada(request: AdmissionRequest) -> Response:
    """Answer a review with a patch that adds the missing defaults."""
    answer = not_for_review(request, (KARMADA,))
    if answer is not None:
        return answer
    operations = build_default_patch(request.object)
    return admission.patched(operations) if operations else admission.allowed()


def build_default_patch(karmada: JSONObject) -> list[JSONObject]:
    """Return the RFC 6902 operations that add the defaults.

    As in upstream's schema, only the policy has a default, and only if there is a ``crdTarball``. The effective URL is
    not written, because a stored URL would not follow the version of the operator.
    """
    tarball = as_object(karmada.get("spec")).get("crdTarball")
    if not isinstance(tarball, dict) or tarball.get("crdDownloadPolicy") is not None:
        return []
    return [{"op": "add", "path": "/spec/crdTarball/crdDownloadPolicy", "value": Policy.IF_NOT_PRESENT.value}]


def build_ownership_patch(karmada: JSONObject) -> JSONObject | None:
    """Return the merge patch that adds finalizer, label and defaults to an instance; None if it has them."""
    metadata = as_object(karmada.get("metadata"))
    change: JSONObject = {}
    if FINALIZER not in _finalizers(karmada):
        change["metadata"] = {"finalizers": [*_finalizers(karmada), FINALIZER]}
    if CASCADE_LABEL not in as_object(metadata.get("labels")):
        change.setdefault("metadata", {})["labels"] = {CASCADE_LABEL: _CASCADES}
    if build_default_patch(karmada):
        change["spec"] = {"crdTarball": {"crdDownloadPolicy": Policy.IF_NOT_PRESENT.value}}
    return change or None


def build_release_patch(karmada: JSONObject) -> JSONObject | None:
    """Return the merge patch that removes the finalizer of an instance; None if it has none."""
    finalizers = _finalizers(karmada)
    if FINALIZER not in finalizers:
        return None
    return {"metadata": {"finalizers": [finalizer for finalizer in finalizers if finalizer != FINALIZER]}}


def _uid(karmada: JSONObject) -> JSON:
    return as_object(karmada.get("metadata")).get("uid")


def _finalizers(karmada: JSONObject) -> list[str]:
    return as_list(as_object(karmada.get("metadata")).get("finalizers"))
