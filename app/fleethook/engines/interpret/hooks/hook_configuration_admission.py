"""Admits hook configurations: ResourceExploringWebhookConfiguration and ResourceInterpreterWebhookConfiguration."""

from collections.abc import Iterable, Sequence

from fleethook.engines.interpret.hooks.hook_configuration import CONFIGURATIONS
from fleethook.engines.interpret.hooks.hook_validation import problems
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from fleethook.model.formats.field_errors import Problem, first_problems
from fleethook.model.gvk import GroupKind


def validate_configuration(request: AdmissionRequest) -> Response:
    """Answer the review of a hook configuration with all of its problems."""
    answer = not_for_review(request, CONFIGURATIONS)
    if answer is not None:
        return answer
    return refuse_problems(problems(GroupKind(request.kind.group, request.kind.kind), request.object))


def refuse_problems(problems_found: Iterable[Problem], *, warnings: Sequence[str] = ()) -> Response:
    """Deny an object with the problems that `first_problems` lists; allow it if there are none."""
    causes = [StatusCause(field, text, "FieldValueInvalid") for field, text in first_problems(problems_found)]
    if not causes:
        return admission.allowed(warnings=warnings)
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    return admission.invalid(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", causes)
