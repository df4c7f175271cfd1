"""Compiles and evaluates match conditions in CEL, with kube-apiserver's variables, functions and cost limits."""

from app.dispatch.cel.access_check import AccessDecision, AccessDecisions, AccessQuestion
from app.dispatch.cel.activation import Activation
from app.dispatch.cel.errors import CostError, EvaluationError, ExpressionError, PendingChecksError
from app.dispatch.cel.program import Program, compile_condition

__all__ = [
    "AccessDecision",
    "AccessDecisions",
    "AccessQuestion",
    "Activation",
    "CostError",
    "EvaluationError",
    "ExpressionError",
    "PendingChecksError",
    "Program",
    "compile_condition",
]
