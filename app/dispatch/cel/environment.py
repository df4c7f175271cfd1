"""Configures cel-cpp as kube-apiserver configures cel-go (k8s.io/apiserver/pkg/cel/environment/base.go).

cel-cpp parses and type-checks expressions. It does not count the cost of an evaluation, so `plan` turns checked
expressions into Python code that does.
"""

from functools import cache
from typing import Final

from cel_expr_python import cel
from google.protobuf.message import DecodeError

from app.dispatch.cel.checked_expr import read_tree
from app.dispatch.cel.error_texts import translate_compile_error
from app.dispatch.cel.errors import ExpressionError
from app.dispatch.cel.functions import declare_functions
from app.dispatch.cel.library import DECLARED, comparisons
from app.dispatch.cel.planner import Plan, Planner
from app.dispatch.cel.protobuf_types import build_checked_pool

# Protobuf reads at most 100 levels, which is about 20 nested comprehensions; cel-go accepts more.
_TOO_DEEP: Final = "compilation failed: the expression is nested too deeply"
_T: Final = cel.Type
_EXTENSIONS: Final = "- name: sets\n- name: lists\n- name: optional\n- name: two-var-comprehensions\n"
# Standard functions to which Kubernetes adds overloads: `library` declares all their overloads.
_EXCLUDED_FUNCTIONS: Final = "stdlib:\n  exclude_functions:\n" + "".join(
    f"  - name: '{name}'\n" for name in ("string", "matches", *comparisons.OPERATORS)
)


@cache
def _build_environment() -> cel.Env:
    """Return the environment for type checks, with all names and types and without code."""
    return cel.NewEnv(
        descriptor_pool=build_checked_pool(),
        config=cel.NewEnvConfigFromYaml(
            f"name: checking\n{_EXCLUDED_FUNCTIONS}extensions:\n{_EXTENSIONS}{declare_functions(DECLARED)}"
        ),
        variables={
            "object": _T.DYN,
            "oldObject": _T.DYN,
            "namespaceObject": _T.DYN,
            "request": _T("kubernetes.AdmissionRequest"),
            "authorizer": _T("kubernetes.authorization.Authorizer"),
            "authorizer.requestResource": _T("kubernetes.authorization.ResourceCheck"),
        },
    )


def check(expression: str) -> tuple[bool, bytes]:
    """Type-check an expression; return whether its type is bool, and the serialized checked expression for `plan`.

    Raises:
        ExpressionError: The expression does not compile; the text is kube-apiserver's.
    """
    try:
        checked = _build_environment().compile(expression)
    except TypeError:
        # A string with a lone surrogate is no UTF-8; the binding rejects it before it calls cel-cpp.
        raise ExpressionError("compilation failed: the expression is not valid UTF-8") from None
    except RuntimeError as error:
        raise ExpressionError(f"compilation failed: {translate_compile_error(str(error))}") from None
    return checked.return_type() == _T.BOOL, checked.serialize()


def plan(checked: bytes) -> Plan:
    """Plan the code of a checked expression.

    Raises:
        ExpressionError: The expression is nested too deeply for protobuf.
    """
    try:
        return Planner(read_tree(checked)).plan()
    except DecodeError:
        raise ExpressionError(_TOO_DEEP) from None
