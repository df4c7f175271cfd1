"""cel-cpp, set up as an apiserver sets up cel-go for match conditions (upstream: pkg/cel/environment/base.go).

It parses and checks expressions. `plan` evaluates them: cel-cpp does not count what an evaluation costs.
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

# Protobuf reads at most 100 levels, which are some 20 loops within each other; cel-go takes more.
_TOO_DEEP: Final = "compilation failed: the expression is nested too deeply"
_T: Final = cel.Type
_EXTENSIONS: Final = "- name: sets\n- name: lists\n- name: optional\n- name: two-var-comprehensions\n"
# Functions of the language itself that Kubernetes adds to: see `library`.
_EXCLUDED_FUNCTIONS: Final = "stdlib:\n  exclude_functions:\n" + "".join(
    f"  - name: '{name}'\n" for name in ("string", "matches", *comparisons.OPERATORS)
)


@cache
def _build_environment() -> cel.Env:
    """Return what says whether an expression is one: all names and types, and no code."""
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
    """Return whether an expression has the type bool, and the checked expression as text for `plan`.

    Raises:
        ExpressionError: it does not compile; in the words of an apiserver.
    """
    try:
        checked = _build_environment().compile(expression)
    except TypeError:
        # A lone surrogate is no text in UTF-8 and does not even reach cel-cpp.
        raise ExpressionError("compilation failed: the expression is not valid UTF-8") from None
    except RuntimeError as error:
        raise ExpressionError(f"compilation failed: {translate_compile_error(str(error))}") from None
    return checked.return_type() == _T.BOOL, checked.serialize()


def plan(checked: bytes) -> Plan:
    """Return the code of a checked expression.

    Raises:
        ExpressionError: it is nested too deeply for protobuf.
    """
    try:
        return Planner(read_tree(checked)).plan()
    except DecodeError:
        raise ExpressionError(_TOO_DEEP) from None
