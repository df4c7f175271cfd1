"""Admission of hook configurations, of the proposed and of the shipped kind."""

from app.interpret.hook_rules import problems
from app.interpret.hooks import CONFIGURATIONS
from app.model import admission
from app.model.admission import AdmissionRequest, Response, StatusCause
from app.model.gvk import GroupKind
from app.model.json import as_object


def validate_configuration(request: AdmissionRequest) -> Response:
    """Answer the review of a hook configuration with everything that is wrong with it."""
    document = request.object
    group_kind = GroupKind(request.kind.group, request.kind.kind)
    if group_kind not in CONFIGURATIONS:
        known = " or ".join(one.kind for one in CONFIGURATIONS)
        return admission.errored(f"expected a {known} but got a {group_kind.kind or 'nothing'}")
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource:
        return admission.allowed()
    metadata = as_object(document).get("metadata")
    if not isinstance(document, dict) or not isinstance(metadata, dict):
        return admission.errored("request.object is not an object with metadata")
    if metadata.get("deletionTimestamp"):
        return admission.allowed()
    found = list(problems(group_kind, document))
    if not found:
        return admission.allowed()
    texts = [f"{problem.field}: {problem.text}" for problem in found]
    causes = [StatusCause(problem.field, problem.text, "FieldValueInvalid") for problem in found]
    return admission.invalid(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", causes)
