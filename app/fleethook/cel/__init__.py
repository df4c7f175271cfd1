"""Compiles and evaluates match conditions in CEL, with kube-apiserver's variables, functions and cost limits."""

from fleethook.cel.evaluation import (
    AccessDecision,
    AccessDecisions,
    AccessQuestion,
    CostError,
    EvaluationError,
    ExpressionError,
    PendingChecksError,
)
from fleethook.cel.program import Activation, Program, compile_condition

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
