"""Programs: match conditions that are compiled once and evaluated with the variables of each request."""

from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from fleethook.cel.check.checker import check, validate
from fleethook.cel.check.types_and_declarations import (
    BOOL,
    describe_type,
)
from fleethook.cel.compile_error_list import ExpressionError, SourceErrors
from fleethook.cel.cost_and_length_limits import (
    CURRENT,
    LIMITS,
    Evaluation,
    EvaluationLimits,
    LimitReachedError,
    check_length,
)
from fleethook.cel.parse.parser import parse
from fleethook.cel.plan.calls_literals_loops import ABSENT, COST, Frame
from fleethook.cel.plan.planner import FIRST_LOCAL, ExpressionPlan, Planner
from fleethook.cel.values.values_and_overloads import NO_SUCH_OVERLOAD, CelError
from fleethook.model.admission import AdmissionRequest
from fleethook.model.json import JSON, JSONObject

# k8s.io/apiserver/pkg/admission/plugin/cel/compile.go, BuildRequestType: no uid, object and oldObject.
_MEMBERS: Final = (
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "dryRun",
    "options",
)
# These members have `omitempty` in k8s.io/api/admission/v1. If they are empty, reading them is an error.
_OMITTED_EMPTY: Final = frozenset({"subResource", "requestSubResource", "name", "namespace"})


class Activation:
    """The variables of one request.

    Args:
        object_: The object in the version that the webhook receives, None if the request has none.
        old_object: The existing object in that version, None if the request has none.
        request: The AdmissionRequest. Expressions see the same members as in kube-apiserver.
        has_namespace: Whether ``namespaceObject`` exists; kube-apiserver sets it to null in match conditions.
    """

    def __init__(
        self,
        *,
        object_: JSON,
        old_object: JSON,
        request: JSONObject,
        has_namespace: bool = True,
    ) -> None:
        self._object: Final = object_
        self._old_object: Final = old_object
        self._request: Final = request
        self._namespace: Final = None if has_namespace else ABSENT

    @cached_property
    def variables(self) -> tuple[Any, ...]:
        """The values of `planner.VARIABLES`. No request has an ``authorizer``, as in kcp."""
        request = {
            member: self._request[member]
            for member in _MEMBERS
            if member in self._request and not (member in _OMITTED_EMPTY and self._request[member] == "")
        }
        return (self._object, self._old_object, self._namespace, request, ABSENT, ABSENT)


def bind_variables(request: AdmissionRequest, *, has_namespace: bool = True) -> Activation:
    """Return the variables of CEL expressions for a request, without an authorizer.

    Args:
        request: The request.
        has_namespace: Whether ``namespaceObject`` exists. It is null in match conditions.
    """
    described: JSONObject = {
        "kind": msgspec.to_builtins(request.kind),
        "resource": msgspec.to_builtins(request.resource),
        "subResource": request.sub_resource,
        "requestKind": msgspec.to_builtins(request.request_kind or request.kind),
        "requestResource": msgspec.to_builtins(request.request_resource or request.resource),
        "requestSubResource": request.request_sub_resource,
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": request.user,
        "dryRun": bool(request.dry_run),
        "options": request.decoded_options,
    }
    return Activation(
        object_=request.object, old_object=request.old_object, request=described, has_namespace=has_namespace
    )


# cel-go, interpreter/runtimecost.go: the error of an expression that exceeds its cost limit.
COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


class EvaluationError(Exception):
    """The evaluation of an expression ended in an error.

    Attributes:
        cause: The error without the expression.
        cost: The cost until the error, for the budget of the webhook.
        used: The usage until the error, for the budget of the request (`Evaluation.used`).
    """

    def __init__(self, expression: str, cause: str, *, cost: int = 0, used: int = 0) -> None:
        super().__init__(f"expression '{expression}' resulted in error: {cause}")
        self.cause: Final = cause
        self.cost: Final = cost
        self.used: Final = used


class CostError(EvaluationError):
    """An expression exceeded its limit for cost or for work."""

    def __init__(self, expression: str, *, cost: int = 0, used: int = 0) -> None:
        super().__init__(expression, COST_EXCEEDED, cost=cost, used=used)


class Measurement(NamedTuple):
    """The result of a condition and its usage.

    Attributes:
        value: The result.
        cost: Kubernetes' charge for the evaluation.
        used: The usage of the request's budget.
    """

    value: bool
    cost: int
    used: int


_TOO_DEEP: Final = "the expression is nested too deeply for fleethook"
# As many characters count as one node: a string literal of any length is one node.
_CHARACTERS_PER_NODE: Final = 500


class Program:
    """A compiled condition."""

    __slots__ = ("_plan", "expression")

    def __init__(self, expression: str, plan: ExpressionPlan) -> None:
        self.expression: Final = expression
        self._plan: Final = plan

    @property
    def size(self) -> int:
        """The size in a cache: the number of nodes, plus a share for long strings."""
        return self._plan.nodes + len(self.expression) // _CHARACTERS_PER_NODE

    def evaluate(self, activation: Activation) -> bool:
        """Evaluate the condition for a request.

        Raises:
            EvaluationError: The evaluation ended in an error, or exceeded a limit (CostError).
        """
        return self.measure(activation).value

    def measure(self, activation: Activation, limits: EvaluationLimits = LIMITS) -> Measurement:
        """Evaluate the condition and return its result with the usage; raises the errors of `evaluate`."""
        evaluation = Evaluation(max_work=limits.work)
        frame: Frame = [0, limits.cost, *activation.variables, *([ABSENT] * (self._plan.slots - FIRST_LOCAL))]
        token = CURRENT.set(evaluation)
        try:
            value = self._plan.code(frame)
            exhausted = frame[COST] > limits.cost
        except LimitReachedError:
            value, exhausted = None, True
        except RecursionError:
            value, exhausted = CelError(_TOO_DEEP), False
        except Exception as error:  # noqa: BLE001 - a fault of ours is an error of this condition, as in cel-go
            value, exhausted = CelError(f"internal error: {type(error).__name__}: {error}"), False
        finally:
            CURRENT.reset(token)
            evaluation.cost = frame[COST]
        if exhausted:
            raise CostError(self.expression, cost=evaluation.cost, used=evaluation.used)
        if type(value) is bool:
            return Measurement(value, evaluation.cost, evaluation.used)
        text = value.text if isinstance(value, CelError) else NO_SUCH_OVERLOAD
        raise EvaluationError(self.expression, text, cost=evaluation.cost, used=evaluation.used)


def compile_condition(expression: str) -> Program:
    """Compile a match condition.

    Raises:
        ExpressionError: The expression does not compile, or its type is not bool; the text is kube-apiserver's.
    """
    check_length(expression)
    try:
        planned = plan_expression(expression, must_be_bool=True)
    except RecursionError:
        raise ExpressionError(f"compilation failed: {_TOO_DEEP}") from None
    except ExpressionError:
        raise
    except Exception as error:
        # A fault in one condition must not stop the others.
        raise ExpressionError(f"compilation failed: internal error: {type(error).__name__}: {error}") from error
    return Program(expression, planned)


def plan_expression(expression: str, *, must_be_bool: bool = False) -> ExpressionPlan:
    """Parse, check and plan an expression; raises ExpressionError."""
    errors = SourceErrors(expression)
    tree = parse(expression, errors)
    if tree is not None:
        found = check(tree, errors)
        if not errors:
            validate(tree, errors)
    if tree is None or errors:
        raise ExpressionError(f"compilation failed: {errors.format()}")
    if must_be_bool and found != BOOL:
        raise ExpressionError(f"must evaluate to bool but got {describe_type(found)}")
    return Planner(tree).plan()
