"""The ways in which an expression has no answer."""

from typing import Final

from app.dispatch.cel.access_check import AccessQuestion

# k8s.io/apiserver/pkg/cel: what an apiserver says when an expression is dearer than it allows.
COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


class ExpressionError(ValueError):
    """A text that is no condition: it does not compile, or its type is not bool. The text is an apiserver's."""


class EvaluationError(Exception):
    """An expression ended in an error.

    Attributes:
        cause: what went wrong, without the expression it went wrong in.
        cost: what the evaluation cost until then, for the budget of the webhook.
        used: the same for the budget of the request.
    """

    def __init__(self, expression: str, cause: str, *, cost: int = 0, used: int = 0) -> None:
        super().__init__(f"expression '{expression}' resulted in error: {cause}")
        self.cause: Final = cause
        self.cost: Final = cost
        self.used: Final = used


class UnsupportedError(EvaluationError):
    """An expression needs a function that Kubernetes has and that is not evaluated here."""


class CostError(EvaluationError):
    """An expression took more than it may."""

    def __init__(self, expression: str, *, cost: int = 0, used: int = 0) -> None:
        super().__init__(expression, COST_EXCEEDED, cost=cost, used=used)


class PendingChecksError(Exception):
    """An expression needs answers of an authorizer that are not there yet: ask ``questions`` and evaluate again."""

    def __init__(self, questions: frozenset[AccessQuestion]) -> None:
        super().__init__(f"{len(questions)} access questions are open")
        self.questions: Final = questions
