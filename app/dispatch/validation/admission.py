"""Admission of Mutating- and ValidatingWebhookConfigurations, by the rules of an apiserver."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from app.dispatch.defaults import MUTATING, VALIDATING, set_defaults
from app.dispatch.validation.configuration import configuration_problems
from app.dispatch.validation.match_conditions import CompileExpression
from app.dispatch.validation.warnings import configuration_warnings
from app.model import admission
from app.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from app.model.findings import MAX_PROBLEMS, Problem, first_problems
from app.model.gvk import GroupKind
from app.model.json import as_object

_GROUP: Final = "admissionregistration.k8s.io"
_KINDS: Final = (GroupKind(_GROUP, MUTATING), GroupKind(_GROUP, VALIDATING))
_REASONS: Final = {
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Too many": "FieldValueTooMany",
    "Too long": "FieldValueTooLong",
}
"""The causes of a refusal by how their texts begin (k8s.io/apimachinery/pkg/util/validation/field); else invalid."""


def validate_configuration(request: AdmissionRequest, *, compile_expression: CompileExpression) -> Response:
    """Answer the review of a configuration with everything that is wrong with it, and warn of what is odd.

    Args:
        request: CREATE or UPDATE of one of the two kinds; anything else that happens to one is allowed.
        compile_expression: Raises ValueError with what is wrong with a match condition.

    Raises:
        msgspec.DecodeError: One of the objects is no JSON.
    """
    answer = not_for_review(request, _KINDS)
    if answer is not None:
        return answer
    kind = request.kind.kind
    configuration = set_defaults(request.object)
    old = set_defaults(dict(as_object(request.old_object))) if request.operation == "UPDATE" else None
    found = first_problems(configuration_problems(kind, configuration, old=old, compile_expression=compile_expression))
    odd = list(islice(configuration_warnings(configuration), MAX_PROBLEMS))
    return _refused(found, odd) if found else admission.allowed(warnings=odd)


def _refused(found: Sequence[Problem], odd: Sequence[str]) -> Response:
    causes = [
        StatusCause(problem.field, problem.text, _REASONS.get(problem.text.partition(":")[0], "FieldValueInvalid"))
        for problem in found
    ]
    # A text that is there twice is told once, though both are causes (upstream: ErrorList.ToAggregate).
    texts = list(dict.fromkeys(f"{problem.field}: {problem.text}" for problem in found))
    return admission.invalid(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", causes, warnings=odd)
