"""Compiles and evaluates match conditions in CEL, with kube-apiserver's variables, functions and cost limits."""

from fleethook.dispatch.cel.access_check import AccessDecision, AccessDecisions, AccessQuestion
from fleethook.dispatch.cel.activation import Activation
from fleethook.dispatch.cel.errors import CostError, EvaluationError, ExpressionError, PendingChecksError
from fleethook.dispatch.cel.program import Program, compile_condition

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
