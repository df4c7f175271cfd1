"""What becomes of an instance from its creation to its end, as the Go operator has it (research 7.2).

The names are upstream's (operator/pkg/controller/karmada/controller.go), so that either operator can take over from the
other one.
"""

from typing import Final

from app.crds.instance.defaults import build_default_patch
from app.crds.source import Policy
from app.model.json import JSON, JSONObject, as_object

FINALIZER: Final = "operator.karmada.io/finalizer"
CASCADE_LABEL: Final = "operator.karmada.io/disable-cascading-deletion"
_CASCADES: Final = "false"


def is_suspended(karmada: JSONObject) -> bool:
    """Tell whether nothing at all is to be done about an instance, not even about its end."""
    return as_object(karmada.get("spec")).get("suspend") is True


def is_being_deleted(karmada: JSONObject) -> bool:
    """Tell whether an instance is being deleted."""
    return bool(as_object(karmada.get("metadata")).get("deletionTimestamp"))


def cascades_deletion(karmada: JSONObject) -> bool:
    """Tell whether what belongs to an instance is to go with it."""
    labels = as_object(as_object(karmada.get("metadata")).get("labels"))
    return bool(labels.get(CASCADE_LABEL, _CASCADES) == _CASCADES)


def needs_reconcile(before: JSONObject | None, after: JSONObject) -> bool:
    """Tell whether a change is one to act upon: it came, it is to go, or its spec is another."""
    if is_suspended(after):
        return False
    return (
        not is_same_instance(before, after)
        or is_being_deleted(after)
        or as_object(before).get("spec") != after.get("spec")
    )


def is_same_instance(before: JSONObject | None, after: JSONObject) -> bool:
    """Tell whether it is the instance that was known by its name."""
    return before is not None and _uid(before) == _uid(after)


def build_ownership_patch(karmada: JSONObject) -> JSONObject | None:
    """Return the merge patch that gives an instance what the operator wants it to have; None if it has."""
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
    """Return the merge patch that lets an instance go; None if we do not hold it."""
    finalizers = _finalizers(karmada)
    if FINALIZER not in finalizers:
        return None
    return {"metadata": {"finalizers": [one for one in finalizers if one != FINALIZER]}}


def _uid(karmada: JSONObject) -> JSON:
    return as_object(karmada.get("metadata")).get("uid")


def _finalizers(karmada: JSONObject) -> list[str]:
    finalizers = as_object(karmada.get("metadata")).get("finalizers")
    return finalizers if isinstance(finalizers, list) else []
