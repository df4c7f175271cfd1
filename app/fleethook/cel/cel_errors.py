"""Errors of compiling and evaluating expressions."""

from typing import Final

from fleethook.cel.access_check import AccessQuestion

# cel-go, interpreter/runtimecost.go: the error of an expression that exceeds its cost limit.
COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


class ExpressionError(ValueError):
    """An expression does not compile, or its type is not bool; the text is kube-apiserver's."""


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


class PendingChecksError(Exception):
    """An expression needs decisions of an authorizer.

    The caller gets a decision for each of ``questions`` and evaluates the expression again.
    """

    def __init__(self, questions: frozenset[AccessQuestion]) -> None:
        super().__init__(f"{len(questions)} access checks have no decision yet")
        self.questions: Final = questions
