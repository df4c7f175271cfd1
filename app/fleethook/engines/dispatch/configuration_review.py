"""Reviews webhook configurations as an apiserver does, and warns of likely mistakes in those that it accepts.

A configuration may have thousands of conditions, so the review does not block the event loop.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from fleethook.cel import ExpressionError, compile_condition
from fleethook.engines.dispatch.configuration_validation import (
    CompileExpression,
    configuration_problems,
    list_expressions,
    resource_problems,
    static_name_warning,
)
from fleethook.engines.dispatch.hooks.hooks import GROUP, MUTATING, VALIDATING, set_defaults
from fleethook.engines.dispatch.match.match_conditions import Compiler, Rejected, compile_here, is_short
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, not_for_review
from fleethook.model.formats.field_errors import (
    EVERY,
    MAX_PROBLEMS,
    Problem,
    first_problems,
    subdomain_problems,
    texts_of,
)
from fleethook.model.json import JSON, JSONObject, as_object, count_values
from fleethook.model.kcp import cluster_of
from fleethook.outbound.tls.trust import bundle_problems, list_skipped
from fleethook.work.pausing import Pauses
from fleethook.work.turns import Executor, Turns

_EXEMPT: Final = frozenset(
    {
        "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
        "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
    }
)  # fmt: skip
_VERSION: Final = re.compile(r"\*|[a-z]([-a-z0-9]*[a-z0-9])?")
_RESOURCE: Final = re.compile(r"\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def configuration_warnings(configuration: JSONObject) -> Iterator[str]:
    """Yield warnings about a configuration, each with its field; members may have any type."""
    yield from static_name_warning(configuration.get("metadata"))
    webhooks = configuration.get("webhooks")
    for index, webhook in enumerate(webhooks if isinstance(webhooks, list) else ()):
        members, field = as_object(webhook), f"webhooks[{index}]"
        bundle = as_object(members.get("clientConfig")).get("caBundle")
        for problem in bundle_problems(bundle, f"{field}.clientConfig.caBundle"):
            yield f"{problem.field}: every call will fail: {problem.text}"
        for text in list_skipped(bundle):
            yield f"{field}.clientConfig.caBundle: {text}; it is not used, and the others are"
        rules = members.get("rules")
        for position, rule in enumerate(rules if isinstance(rules, list) else ()):
            yield from _rule_warnings(as_object(rule), f"{field}.rules[{position}]")


def _rule_warnings(rule: JSON, field: str) -> Iterator[str]:
    groups, versions = texts_of(rule.get("apiGroups")), texts_of(rule.get("apiVersions"))
    resources = texts_of(rule.get("resources"))
    yield from _order_warnings(resources, f"{field}.resources")
    yield from _exempt_warnings(groups, resources, f"{field}.resources")
    if groups and not any(_is_group(group) for group in groups):
        hint = ' (the group of pods is "")' if "core" in groups else ""
        yield f"{field}.apiGroups: the rule never matches: no API group is spelled like this{hint}"
    if versions and not any(_VERSION.fullmatch(version) for version in versions):
        yield f"{field}.apiVersions: the rule never matches: no API version is spelled like this"
    if resources and not any(_RESOURCE.fullmatch(resource.partition("/")[0]) for resource in resources):
        yield f"{field}.resources: the rule never matches: resources are plurals in lower case"


def _is_group(group: str) -> bool:
    # A group of "core" would be a name without a dot, which only an aggregated API could have.
    return group in ("", EVERY) or (group != "core" and not list(subdomain_problems(group)))


def _order_warnings(resources: Sequence[str], field: str) -> Iterator[str]:
    """Yield the errors that the resources would have with the wildcards first."""
    if any(resource_problems(resources, field)):
        return
    for problem in resource_problems(sorted(resources, key=lambda resource: EVERY not in resource), field):
        yield f"{field}: accepted in this order only: {problem.text.rpartition(': ')[2]}"


def _exempt_warnings(groups: Sequence[str], resources: Sequence[str], field: str) -> Iterator[str]:
    if GROUP not in groups:
        return
    for resource in resources:
        if resource.partition("/")[0] in _EXEMPT | {EVERY}:
            yield f'{field}: "{resource}" of {GROUP}: webhooks are never called for configurations of admission'


_KINDS: Final = (MUTATING, VALIDATING)
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
