"""Compiles and evaluates ``matchConditions`` (k8s.io/apiserver: pkg/admission/plugin/webhook/matchconditions).

The conditions of a webhook are first evaluated on the event loop, within a small limit for each request. If they need
more, they are evaluated again in a thread, with their full limits. Counts select the thread, never a clock. Both ways
give the same result. Compiled conditions are cached; each cluster has a fair share of the memory.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from fleethook.cel.compile_error_list import ExpressionError
from fleethook.cel.cost_and_length_limits import INLINE_LIMITS, LIMITS, EvaluationLimits, compute_expanded_length
from fleethook.cel.program import Activation, CostError, EvaluationError, Program, compile_condition
from fleethook.engines.dispatch.attributes_and_cluster_annotation import Attributes
from fleethook.engines.dispatch.errors_and_deadline import Deadline
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import MatchCondition, Webhook
from fleethook.fair_limits import FairCache
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSONObject
from fleethook.work.threads_and_gc import Worker

# k8s.io/apiserver/pkg/apis/cel/config.go: RuntimeCELCostBudgetMatchConditions, for all conditions of one webhook.
MAX_COST_OF_WEBHOOK: Final = 2_500_000
# For all webhooks of one request: the budget of four webhooks. kube-apiserver has no such limit, because one
# administrator writes all configurations of a cluster. The number is that of RuntimeCELCostBudget, its limit for the
# validation rules of one object.
MAX_COST_OF_REQUEST: Final = 10_000_000
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class ConditionsVerdict(NamedTuple):
    """The verdict of a webhook's matchConditions.

    Attributes:
        matched: Whether the webhook is called. False with ``errors`` refuses the request, False without skips the
            webhook.
        failed: The name of the first condition that is false.
        errors: The reasons of a refusal, one for each condition without a result.
        results: The name of each evaluated condition, with ``true``, ``false`` or ``error: ...``.
        exhausted: Whether an evaluation exceeded its limits.
    """

    matched: bool
    failed: str = ""
    errors: tuple[str, ...] = ()
    results: tuple[tuple[str, str], ...] = ()
    exhausted: bool = False


class ConditionResult(NamedTuple):
    """The result of one condition.

    Attributes:
        result: ``true``, ``false`` or ``error: ...``.
        cost: Kubernetes' charge for the evaluation.
        used: The part of the request's budget that it used.
        error: The reason of an error, ``""`` without one.
        exhausted: Whether the evaluation exceeded its limits.
    """

    result: str
    cost: int = 0
    used: int = 0
    error: str = ""
    exhausted: bool = False


class Budget:
    """The budget for the matchConditions of one request, in Kubernetes' units of cost.

    Attributes:
        limit: The initial budget.
        remaining: The remaining budget.
        held: The units used on the event loop.
    """

    __slots__ = ("held", "limit", "remaining")

    def __init__(self, limit: int = MAX_COST_OF_REQUEST) -> None:
        """Initialize the budget."""
        self.limit: Final = limit
        self.remaining = limit
        self.held = 0

    def use(self, used: int) -> str:
        """Use a part of the budget; return the error if that exceeds it."""
        self.remaining -= min(used, self.remaining + 1)
        if self.remaining >= 0:
            return ""
        return f"the matchConditions of all webhooks cost more than {self.limit}, the limit of one request"


def evaluate_conditions(
    conditions: Sequence[MatchCondition],
    scope: Activation,
    *,
    fail_open: bool,
    budget: Budget | None = None,
    limits: EvaluationLimits = LIMITS,
    get_program: Callable[[str], Program] = compile_condition,
) -> ConditionsVerdict:
    """Evaluate the conditions of a webhook, and return its verdict.

    All conditions are evaluated in order. The first false condition decides, even if others have errors. Otherwise an
    error skips the webhook with ``fail_open`` (``failurePolicy: Ignore``), and refuses the request without it.

    Conditions that exceed the webhook's limit are an error of the webhook, even if one is false. Conditions that exceed
    the request's limit refuse the request, even with ``fail_open``. Otherwise, the author of a large object could
    switch off webhooks with failurePolicy Ignore.

    Args:
        conditions: The conditions.
        scope: The variables of the request.
        fail_open: Whether the failurePolicy is Ignore.
        budget: The remaining budget of the request; None for a full one.
        limits: The limits of each evaluation.
        get_program: Returns the program of an expression; raises ExpressionError.
    """
    budget = budget or Budget()
    results: list[ConditionResult] = []
    remaining = MAX_COST_OF_WEBHOOK
    for condition in conditions:
        if exceeded := budget.use(0):
            return _report_errors((exceeded,), _list_results(conditions, results), fail_open=False)
        each = EvaluationLimits(min(limits.cost, remaining), limits.work)
        result = evaluate_condition(condition, scope, each, get_program)
        remaining -= result.cost
        if remaining < 0:
            return _report_errors((_OUT_OF_BUDGET,), _list_results(conditions, results), fail_open=fail_open)
        if exceeded := budget.use(result.used):
            return _report_errors((exceeded,), _list_results(conditions, results), fail_open=False)
        results.append(result)
    verdict = _decide(conditions, results, fail_open=fail_open)
    return verdict._replace(exhausted=True) if any(one.exhausted for one in results) else verdict


def _decide(
    conditions: Sequence[MatchCondition], answers: Sequence[ConditionResult], *, fail_open: bool
) -> ConditionsVerdict:
    results = _list_results(conditions, answers)
    for name, result in results:
        if result == "false":
            return ConditionsVerdict(matched=False, failed=name, results=results)
    errors = tuple(answer.error for answer in answers if answer.error)
    if errors:
        return _report_errors(errors, results, fail_open=fail_open)
    return ConditionsVerdict(matched=True, results=results)


def _report_errors(
    errors: tuple[str, ...], results: tuple[tuple[str, str], ...], *, fail_open: bool
) -> ConditionsVerdict:
    return ConditionsVerdict(matched=False, errors=() if fail_open else errors, results=results)


def _list_results(
    conditions: Sequence[MatchCondition], answers: Sequence[ConditionResult]
) -> tuple[tuple[str, str], ...]:
    return tuple((condition.name, answer.result) for condition, answer in zip(conditions, answers, strict=False))


def evaluate_condition(
    condition: MatchCondition,
    scope: Activation,
    limits: EvaluationLimits = LIMITS,
    get_program: Callable[[str], Program] = compile_condition,
) -> ConditionResult:
    """Evaluate one condition.

    Args:
        condition: The condition.
        scope: The variables of the request.
        limits: The limits of the evaluation.
        get_program: Returns the program of an expression; raises ExpressionError.
    """
    try:
        value, cost, used = get_program(condition.expression).measure(scope, limits)
    except ExpressionError as error:
        text = f"compilation error: {error}"
        return ConditionResult(f"error: {text}", error=text)
    except EvaluationError as error:
        exhausted = isinstance(error, CostError)
        return ConditionResult(f"error: {error}", error.cost, error.used, str(error), exhausted=exhausted)
    return ConditionResult("true" if value else "false", cost, used)


# Expressions up to this length compile on the event loop, in 1 to 2 ms and in 6 ms at worst.
_MAX_SHORT_LENGTH: Final = 500


class Rejected(NamedTuple):
    """An expression that does not compile to a condition, and its error."""

    expression: str
    error: ExpressionError

    @property
    def size(self) -> int:
        """Its size in a cache, in the unit of `Program.size`."""
        return 1 + len(self.expression) // 500


Compiled = Program | Rejected


def is_short(expression: str) -> bool:
    """Return whether an expression is short enough to compile on the event loop."""
    return compute_expanded_length(expression) <= _MAX_SHORT_LENGTH


def _compile_here(expression: str) -> Compiled:
    """Compile an expression in the current thread."""
    try:
        return compile_condition(expression)
    except ExpressionError as error:
        return Rejected(expression, error)


# The code of a node takes about 500 bytes, so this is 50 MiB: ten thousand conditions of ten nodes.
MAX_NODES: Final = 100_000


# Units of cost on the event loop for all conditions of one request: about 3 ms.
_MAX_HELD: Final = 6_000


# Compiling a condition takes as long as this many units of cost, plus the units for each character.
_COMPILING: Final = 1_000


_COMPILING_CHARACTER: Final = 10


# The minimum duration of an evaluation, in units of cost.
_EVALUATING: Final = 100


class ConditionEvaluator:
    """Evaluates the matchConditions of all requests of a dispatcher."""

    def __init__(self, worker: Worker) -> None:
        """Initialize the evaluator; ``worker`` runs long functions in a thread."""
        self._cache: Final[FairCache[str, Compiled]] = FairCache(MAX_NODES, size_of=lambda program: program.size)
        self._worker: Final = worker

    async def evaluate(
        self, webhook: Webhook, scope: Activation, *, cluster: str, budget: Budget, deadline: Deadline
    ) -> ConditionsVerdict:
        """Evaluate the matchConditions of a webhook.

        Args:
            webhook: The webhook.
            scope: The variables of the request.
            cluster: The cluster of the request, for fair scheduling in the thread.
            budget: The remaining budget of the request.
            deadline: The deadline of the request. Its caller waits no longer, so the rest is not evaluated.

        Raises:
            StatusError: The deadline has passed.
        """
        programs = {
            condition.expression: await self._find_program(webhook.cluster, condition.expression, cluster, budget)
            for condition in webhook.conditions
        }

        def get_program(expression: str) -> Program:
            # The evaluation may have waited for those of other requests.
            deadline.require_time()
            program = programs[expression]
            if isinstance(program, Rejected):
                raise program.error
            return program

        evaluate = partial(
            evaluate_conditions, webhook.conditions, scope, fail_open=webhook.fails_open, get_program=get_program
        )
        if budget.held <= _MAX_HELD:
            trial = Budget(min(budget.remaining, _MAX_HELD))
            verdict = evaluate(budget=trial, limits=INLINE_LIMITS)
            used = trial.limit - trial.remaining
            budget.held += used + _EVALUATING * len(programs)
            if trial.remaining >= 0 and not verdict.exhausted:
                budget.use(used)
                return verdict
        return await self._worker.run(cluster, partial(evaluate, budget=budget))

    async def _find_program(self, owner: str, expression: str, cluster: str, budget: Budget) -> Compiled:
        found = self._cache.get(owner, expression)
        if found is not None:
            return found
        if budget.held <= _MAX_HELD and is_short(expression):
            compiled = _compile_here(expression)
            budget.held += _COMPILING + _COMPILING_CHARACTER * len(expression)
        else:
            compiled = await self._worker.run(cluster, _compile_here, expression)
        self._cache.put(owner, expression, compiled)
        return compiled


def build_condition_request(attributes: Attributes, *, kind: GroupVersionKind) -> JSONObject:
    """Return the variable ``request`` of matchConditions.

    As in an apiserver, ``kind`` is the matched kind, but ``resource`` is the requested resource (`Match` in
    k8s.io/apiserver pkg/admission/plugin/webhook/matchconditions). The AdmissionReview has the matched resource.
    """
    requested_kind, requested_resource, requested_subresource = attributes.requested
    return {
        "kind": kind._asdict(),
        "resource": attributes.resource._asdict(),
        "subResource": attributes.subresource,
        "requestKind": requested_kind._asdict(),
        "requestResource": requested_resource._asdict(),
        "requestSubResource": requested_subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": attributes.user_info or {},
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
