"""cel-cpp, set up as an apiserver sets up cel-go for match conditions (upstream: pkg/cel/environment/base.go)."""

from functools import cache
from typing import Final

from cel_expr_python import cel

from app.dispatch.cel.functions import declarations, implementations
from app.dispatch.cel.guards import GUARDS, Guard
from app.dispatch.cel.library import FUNCTIONS, comparisons, maps
from app.dispatch.cel.messages import EVALUATED, checked_pool
from app.dispatch.cel.syntax import Code, Syntax, prepare

_T: Final = cel.Type
_EXTENSIONS: Final = "- name: sets\n- name: lists\n- name: optional\n- name: two-var-comprehensions\n"
# Functions of the language itself that Kubernetes adds to, or that charge their cost here: see `library`.
_REPLACED: Final = "stdlib:\n  exclude_functions:\n" + "".join(
    f"  - name: '{name}'\n" for name in ("string", "matches", *comparisons.OPERATORS)
)
_CODES: Final = {
    **{
        function.overload: Code(function.overload, optional=function.optional)
        for function in FUNCTIONS
        if function.code is not None
    },
    **dict.fromkeys(maps.OVERLOADS, Code(maps.NAME, optional=False)),
}


@cache
def _checking() -> cel.Env:
    """Return what says whether an expression is one: all names and types, and no code."""
    return cel.NewEnv(
        descriptor_pool=checked_pool(),
        config=cel.NewEnvConfigFromYaml(
            f"name: checking\n{_REPLACED}extensions:\n{_EXTENSIONS}{declarations((*FUNCTIONS, *comparisons.FUNCTIONS))}"
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


@cache
def evaluating() -> cel.Env:
    """Return what evaluates expressions: the code under its private names, and variables of any type.

    ``request`` is a typed message for the check and a plain map here, as it is in an apiserver: an absent member is
    `no such key` and not an empty text.
    """
    return cel.NewEnv(
        descriptor_pool=EVALUATED,
        config=cel.NewEnvConfigFromYaml(f"name: evaluating\nextensions:\n- name: strings\n  version: 2\n{_EXTENSIONS}"),
        variables={
            "object": _T.DYN,
            "oldObject": _T.DYN,
            "namespaceObject": _T.DYN,
            "request": _T.DYN,
            "authorizer": _T.DYN,
            "authorizer.requestResource": _T.DYN,
        },
        functions=[*map(_declared, GUARDS), *implementations((*FUNCTIONS, *maps.FUNCTIONS))],
    )


def _declared(guard: Guard) -> cel.FunctionDecl:
    return cel.FunctionDecl(
        guard.name,
        [
            cel.Overload(
                f"{guard.name}({','.join(kind.name() for kind in parameters)})",
                return_type=_T.BOOL,
                parameters=list(parameters),
                is_member=False,
                impl=guard.code,
            )
            for parameters in guard.kinds
        ],
    )


def check(expression: str) -> tuple[cel.Type, Syntax]:
    """Return the type of an expression and its tree.

    Raises:
        RuntimeError: the expression does not compile; the text is cel-cpp's.
    """
    checked = _checking().compile(expression)
    return checked.return_type(), prepare(checked.serialize(), codes=_CODES)
