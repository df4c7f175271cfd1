"""cel-cpp, set up as an apiserver sets up cel-go for match conditions (upstream: pkg/cel/environment/base.go).

It parses and checks expressions. `plan` evaluates them: cel-cpp does not count what an evaluation costs.
"""

from functools import cache
from typing import Final

from cel_expr_python import cel

from app.dispatch.cel.functions import declarations
from app.dispatch.cel.library import DECLARED, comparisons
from app.dispatch.cel.messages import checked_pool
from app.dispatch.cel.plan import Plan, Planner
from app.dispatch.cel.tree import read_tree

_T: Final = cel.Type
_EXTENSIONS: Final = "- name: sets\n- name: lists\n- name: optional\n- name: two-var-comprehensions\n"
# Functions of the language itself that Kubernetes adds to: see `library`.
_REPLACED: Final = "stdlib:\n  exclude_functions:\n" + "".join(
    f"  - name: '{name}'\n" for name in ("string", "matches", *comparisons.OPERATORS)
)


@cache
def _checking() -> cel.Env:
    """Return what says whether an expression is one: all names and types, and no code."""
    return cel.NewEnv(
        descriptor_pool=checked_pool(),
        config=cel.NewEnvConfigFromYaml(
            f"name: checking\n{_REPLACED}extensions:\n{_EXTENSIONS}{declarations(DECLARED)}"
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


def check(expression: str) -> tuple[cel.Type, Plan]:
    """Return the type of an expression and its code.

    Raises:
        RuntimeError: the expression does not compile; the text is cel-cpp's.
        DecodeError: it is nested too deeply for protobuf.
    """
    checked = _checking().compile(expression)
    return checked.return_type(), Planner(read_tree(checked.serialize())).plan()
