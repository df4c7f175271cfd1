"""Reviews Mutating- and ValidatingWebhookConfigurations with the rules of an apiserver."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from app.dispatch.defaults import MUTATING, VALIDATING, set_defaults
from app.dispatch.validation.configuration import configuration_problems
from app.dispatch.validation.match_conditions import CompileExpression
from app.dispatch.validation.warnings import configuration_warnings
from app.model import admission
from app.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from app.model.field_errors import MAX_PROBLEMS, Problem, first_problems
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
"""The causes of a refusal by the prefix of their texts (k8s.io/apimachinery/pkg/util/validation/field)."""


def validate_configuration(request: AdmissionRequest, *, compile_expression: CompileExpression) -> Response:
    """Review a configuration: return all errors, and warnings about likely mistakes.

    Args:
        request: CREATE or UPDATE of one of the two kinds; other operations are allowed.
        compile_expression: Raises ValueError with the error of a match condition.

    Raises:
        msgspec.DecodeError: An object of the review is not JSON.
    """
    answer = not_for_review(request, _KINDS)
    if answer is not None:
        return answer
    kind = request.kind.kind
    configuration = set_defaults(request.object)
    old = set_defaults(dict(as_object(request.old_object))) if request.operation == "UPDATE" else None
    errors = first_problems(configuration_problems(kind, configuration, old=old, compile_expression=compile_expression))
    warnings = list(islice(configuration_warnings(configuration), MAX_PROBLEMS))
    return _refuse(errors, warnings) if errors else admission.allowed(warnings=warnings)


def _refuse(errors: Sequence[Problem], warnings: Sequence[str]) -> Response:
    causes = [
        StatusCause(problem.field, problem.text, _REASONS.get(problem.text.partition(":")[0], "FieldValueInvalid"))
        for problem in errors
    ]
    # A duplicate text is reported once, but has two causes (upstream: ErrorList.ToAggregate).
    texts = list(dict.fromkeys(f"{problem.field}: {problem.text}" for problem in errors))
    return admission.invalid(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", causes, warnings=warnings)
