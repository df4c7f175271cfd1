"""Compiles and evaluates match conditions in CEL, with kube-apiserver's variables, functions and cost limits."""

from fleethook.cel.evaluation import (
    CostError,
    EvaluationError,
    ExpressionError,
)
from fleethook.cel.program import Activation, Program, compile_condition

__all__ = [
    "Activation",
    "CostError",
    "EvaluationError",
    "ExpressionError",
    "Program",
    "compile_condition",
]
