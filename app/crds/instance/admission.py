"""Admission of instances of Karmada: defaults and validation of where their CRDs come from, and of nothing else."""

from app.crds.instance.defaults import defaulted
from app.crds.instance.source_warnings import warnings_of
from app.crds.instance.validation import aggregated, problems
from app.model import admission
from app.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from app.model.field_errors import first_problems
from app.model.json import as_object
from app.model.operator import KARMADA


def mutate_karmada(request: AdmissionRequest) -> Response:
    """Answer the review of an instance with the defaults it lacks."""
    answer = not_for_review(request, (KARMADA,))
    if answer is not None:
        return answer
    operations = defaulted(request.object)
    return admission.patched(operations) if operations else admission.allowed()


def validate_karmada(request: AdmissionRequest) -> Response:
    """Answer the review of an instance with everything that is wrong with where its CRDs come from.

    An update that leaves the spec as it is, is admitted without a word: it is the operator's, of a finalizer or a
    label, and it is said again at the next change.
    """
    answer = not_for_review(request, (KARMADA,))
    if answer is not None:
        return answer
    old = dict(as_object(request.old_object)) if request.operation == "UPDATE" else None
    if old is not None and old.get("spec") == request.object.get("spec"):
        return admission.allowed()
    warnings = tuple(warnings_of(request.object))
    found = first_problems(problems(request.object, old=old))
    if not found:
        return admission.allowed(warnings=warnings)
    causes = [StatusCause(field, text, "FieldValueInvalid") for field, text in found]
    return admission.invalid(aggregated(found), causes, warnings=warnings)
