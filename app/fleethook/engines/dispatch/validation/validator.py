"""Reviews webhook configurations without blocking the event loop: one may have thousands of conditions."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from fleethook.cel import ExpressionError, compile_condition
from fleethook.engines.dispatch.hooks.hook_defaults import MUTATING, VALIDATING, set_defaults
from fleethook.engines.dispatch.match.condition_compiler import Compiler, Rejected, compile_here, is_short
from fleethook.engines.dispatch.validation.configuration import configuration_problems
from fleethook.engines.dispatch.validation.match_conditions import CompileExpression, list_expressions
from fleethook.engines.dispatch.validation.warnings import configuration_warnings
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from fleethook.model.formats.field_errors import MAX_PROBLEMS, Problem, first_problems
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, as_object, count_values
from fleethook.model.kcp import cluster_of
from fleethook.work.fair_turns import Executor, Turns
from fleethook.work.slices import Pauses

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


# The largest configuration, in values, that is validated on the event loop: about fifty webhooks.
_SMALL: Final = 2_000
# Characters of short expressions that are compiled before other requests get a turn: about 3 ms.
_SLICE: Final = 1_000


class ConfigurationValidator:
    """Reviews webhook configurations, as `validate_configuration` does."""

    def __init__(self, compiler: Compiler, *, worker: Executor, turns: Turns) -> None:
        """Initialize the validator.

        Args:
            compiler: Compiles long expressions.
            worker: Runs the validation of large configurations in a thread.
            turns: Schedules long work of clusters fairly on the event loop.
        """
        self._compiler: Final = compiler
        self._worker: Final = worker
        self._turns: Final = turns

    async def review(self, request: AdmissionRequest) -> Response:
        """Review a configuration; raises msgspec.DecodeError."""
        document = request.object
        cluster = cluster_of(document) if isinstance(as_object(document).get("metadata"), dict) else ""
        known = await self._compile_new(document, _list_all_expressions(request.old_object), cluster)

        def compile_expression(expression: str) -> None:
            # The validation strips expressions.
            error = known[expression] if expression in known else _find_error(expression)
            if error is not None:
                raise error

        if count_values(document, limit=_SMALL) <= _SMALL:
            return validate_configuration(request, compile_expression=compile_expression)
        return await self._worker.run(
            cluster, partial(validate_configuration, request, compile_expression=compile_expression)
        )

    async def _compile_new(
        self, document: JSON, stored: frozenset[str], cluster: str
    ) -> Mapping[str, ExpressionError | None]:
        """Compile the expressions that the stored configuration does not have; return their errors."""
        found: dict[str, ExpressionError | None] = {}
        pauses = Pauses(_SLICE)
        for expression in {one.strip() for one in _list_all_expressions(document)} - stored:
            if is_short(expression):
                compiled = compile_here(expression)
                if pauses.due(100 + len(expression)):
                    await self._turns.pause(cluster)
            else:
                compiled = await self._compiler.compile(expression, cluster=cluster)
            found[expression] = compiled.error if isinstance(compiled, Rejected) else None
        return found


def _list_all_expressions(document: JSON) -> frozenset[str]:
    webhooks = as_object(document).get("webhooks")
    listed = webhooks if isinstance(webhooks, list) else ()
    found = (list_expressions(as_object(one).get("matchConditions")) for one in listed)
    return frozenset(expression for expressions in found for expression in expressions)


def _find_error(expression: str) -> ExpressionError | None:
    try:
        compile_condition(expression)
    except ExpressionError as error:
        return error
    return None
