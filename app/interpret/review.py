"""Admission of hook configurations, of the proposed and of the shipped kind."""

from collections.abc import Iterable, Sequence

from app.interpret.hook_rules import problems
from app.interpret.hooks import CONFIGURATIONS
from app.model import admission
from app.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from app.model.gvk import GroupKind


def validate_configuration(request: AdmissionRequest) -> Response:
    """Answer the review of a hook configuration with everything that is wrong with it."""
    answer = not_for_review(request, CONFIGURATIONS)
    if answer is not None:
        return answer
    found = problems(GroupKind(request.kind.group, request.kind.kind), request.object)
    return refused((problem.field, problem.text) for problem in found)


def refused(problems_found: Iterable[tuple[str, str]], *, warnings: Sequence[str] = ()) -> Response:
    """Refuse an object with all that is wrong with it, each a field and a text; allow it if nothing is."""
    causes = [StatusCause(field, text, "FieldValueInvalid") for field, text in problems_found]
    if not causes:
        return admission.allowed(warnings=warnings)
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    return admission.invalid(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", causes)
