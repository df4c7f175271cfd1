"""Admission of ``Karmada`` instances: defaults and validation of ``spec.crdTarball``."""

from fleethook.engines.crds.instance.tarball_validation import aggregate_problems, find_problems, find_warnings
from fleethook.engines.crds.tarball_source import Policy
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from fleethook.model.formats.field_errors import first_problems
from fleethook.model.json import JSONObject, as_object
from fleethook.model.operator import KARMADA


def build_default_patch(karmada: JSONObject) -> list[JSONObject]:
    """Return the RFC 6902 operations that add the defaults.

    As in upstream's schema, only the policy has a default, and only if there is a ``crdTarball``. The effective URL is
    not written, because a stored URL would not follow the version of the operator.
    """
    tarball = as_object(karmada.get("spec")).get("crdTarball")
    if not isinstance(tarball, dict) or tarball.get("crdDownloadPolicy") is not None:
        return []
    return [{"op": "add", "path": "/spec/crdTarball/crdDownloadPolicy", "value": Policy.IF_NOT_PRESENT.value}]


def mutate_karmada(request: AdmissionRequest) -> Response:
    """Answer a review with a patch that adds the missing defaults."""
    answer = not_for_review(request, (KARMADA,))
    if answer is not None:
        return answer
    operations = build_default_patch(request.object)
    return admission.patched(operations) if operations else admission.allowed()


def validate_karmada(request: AdmissionRequest) -> Response:
    """Answer a review with all problems and warnings of ``spec.crdTarball``.

    Updates that do not change spec (for example the operator adding a finalizer) are admitted without warnings.
    Warnings are repeated at the next spec change.
    """
    answer = not_for_review(request, (KARMADA,))
    if answer is not None:
        return answer
    old = dict(as_object(request.old_object)) if request.operation == "UPDATE" else None
    if old is not None and old.get("spec") == request.object.get("spec"):
        return admission.allowed()
    warnings = tuple(find_warnings(request.object))
    found = first_problems(find_problems(request.object, old=old))
    if not found:
        return admission.allowed(warnings=warnings)
    causes = [StatusCause(field, text, "FieldValueInvalid") for field, text in found]
    return admission.invalid(aggregate_problems(found), causes, warnings=warnings)
