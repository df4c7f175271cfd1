"""The decorators that make a function a rule, and the loading of files with rules."""

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from msgspec.structs import astuple

from fleethook.admission.parameters_and_typed_objects import read_signature
from fleethook.admission.rule_call import Function
from fleethook.admission.rule_in_tests import Rule
from fleethook.admission.rule_scope_and_options import (
    DEFAULT_TIMEOUT,
    MUTATING_FAILURE_POLICY,
    MUTATING_OPERATIONS,
    VALIDATING_FAILURE_POLICY,
    VALIDATING_OPERATIONS,
    RuleError,
    compile_cel,
    declare,
)
from fleethook.cel.program import Program
from fleethook.python_files import run_file

Decorator = Callable[[Function], Rule]

COLLECTED: Final[ContextVar[list[Rule] | None]] = ContextVar("COLLECTED", default=None)
"""The rules of the file that is being loaded. Python keeps only the last function of a name."""


def validate(  # noqa: PLR0913 - one parameter for each field of a webhook
    api_version: str,
    kind: str = "",
    *,
    on: str | Iterable[str] = VALIDATING_OPERATIONS,
    subresource: str = "",
    scope: str = "*",
    namespaces: str | Sequence[str] | None = None,
    namespace_selector: Mapping[str, Any] | None = None,
    object_selector: Mapping[str, Any] | None = None,
    match_conditions: Mapping[str, str] | None = None,
    failure_policy: str = VALIDATING_FAILURE_POLICY,
    side_effects: str = "None",
    timeout: int = DEFAULT_TIMEOUT,
    order: int = 0,
    follows: Sequence[Any] = (),
    resource: str = "",
    name: str | None = None,
    inline: bool = False,
    existing: str = "admit",
    templates: bool = False,
    expression: str | None = None,
    message: str = "",
) -> Decorator:
    """Make a function a rule that admits or refuses objects; it raises `Denied` to refuse.

    Args:
        api_version: The apiVersion of the objects, such as ``apps/v1``; ``*/*`` for all.
        kind: The kind, such as ``Deployment``, or the resource, such as ``deployments``.
        on: The operations; ``*`` for all.
        subresource: The subresource, such as ``scale``.
        scope: ``Namespaced``, ``Cluster`` or ``*``.
        namespaces: The namespaces of the objects, by name; ``*`` for all except that of the server. By default, the
            rule does not see kube-system, kube-node-lease and kube-public either.
        namespace_selector: A label selector for the namespaces of the objects.
        object_selector: A label selector for the objects.
        match_conditions: CEL expressions by name. kube-apiserver sends only requests for which all are true.
        failure_policy: The answer of a rule that fails: ``Fail`` refuses the object, ``Ignore`` admits it. The default
            is ``Fail``: a rule that cannot decide must not let an object pass.
        side_effects: ``NoneOnDryRun`` for a rule that changes something outside of the object.
        timeout: The time limit in seconds.
        order: The position among the rules of a server.
        follows: The kinds that the rule reads from ``store``: apiVersion, kind, irregular plural; or a list of these.
        resource: The plural of the kind, if it is irregular.
        name: The name of the rule; that of the function if missing.
        inline: Whether the event loop of the server calls the rule, which takes less time than a thread. Such a rule
            must neither wait nor compute long: the replica answers nothing else meanwhile.
        existing: The answer to an UPDATE of a stored object that breaks the rule for the same reason: ``admit`` with a
            warning, or ``refuse``. A rule with the parameter ``old`` decides itself.
        templates: Whether a rule about Pods also gets the Pods in templates: of Deployments, StatefulSets, DaemonSets,
            ReplicaSets, Jobs, CronJobs and ReplicationControllers.
        expression: The rule in CEL; the function is not called then.
        message: The reason of a refusal by ``expression``.

    Raises:
        RuleError: An argument cannot be used; raised when the decorator is applied.
    """
    return _decorate(locals(), mutates=False)


def mutate(  # noqa: PLR0913 - one parameter for each field of a webhook
    api_version: str,
    kind: str = "",
    *,
    on: str | Iterable[str] = MUTATING_OPERATIONS,
    subresource: str = "",
    scope: str = "*",
    namespaces: str | Sequence[str] | None = None,
    namespace_selector: Mapping[str, Any] | None = None,
    object_selector: Mapping[str, Any] | None = None,
    match_conditions: Mapping[str, str] | None = None,
    failure_policy: str = MUTATING_FAILURE_POLICY,
    side_effects: str = "None",
    timeout: int = DEFAULT_TIMEOUT,
    order: int = 0,
    follows: Sequence[Any] = (),
    resource: str = "",
    name: str | None = None,
    inline: bool = False,
) -> Decorator:
    """Make a function a rule that changes objects; its changes become a JSON Patch.

    The arguments are those of `validate`. The default of ``on`` is CREATE, because many members of stored objects are
    immutable. The default of ``failure_policy`` is ``Ignore``: a missing default must not block a write, and a
    validating rule can refuse objects without it.

    Raises:
        RuleError: An argument cannot be used; raised when the decorator is applied.
    """
    return _decorate(
        {**locals(), "existing": "refuse", "templates": False, "expression": None, "message": ""}, mutates=True
    )


def _decorate(arguments: Mapping[str, Any], *, mutates: bool) -> Decorator:
    """Return the decorator for the arguments of `validate`."""
    if callable(arguments["api_version"]):  # ``@validate`` without arguments gives the function as the first one.
        raise RuleError(f"{_find_caller()}: the decorator has no arguments: give apiVersion and kind")
    return lambda function: _make_rule(function, arguments, mutates=mutates)


def _make_rule(function: Any, arguments: Mapping[str, Any], *, mutates: bool) -> Rule:
    if isinstance(function, Rule):
        raise RuleError(
            f"{_find_caller()}: {function.name!r} is a rule already: decorate another function, or for several "
            "kinds, call validate(…, name=…)(function) once for each"
        )
    if not callable(function) or not inspect.isfunction(inspect.unwrap(function)):
        raise RuleError(f"{_find_caller()}: {function!r} is no function: decorate one that `def` makes")
    code = inspect.unwrap(function).__code__
    try:
        declaration = declare(arguments, function.__name__, mutates=mutates)
        program = _compile_expression(arguments["expression"], arguments["message"])
        signature = read_signature(function, mutates=mutates)
        rule = Rule(declaration, function, signature, expression=program, message=arguments["message"].strip())
        _check_call(rule)
    except RuleError as error:
        raise RuleError(f"{code.co_filename}:{code.co_firstlineno}: {function.__name__}: {error}") from error
    if (collected := COLLECTED.get()) is not None:
        collected.append(rule)
    return rule


def _check_call(rule: Rule) -> None:
    """Raise RuleError for a function that cannot be called as its declaration says."""
    declared, signature, has_expression = rule.declaration, rule.signature, rule.expression is not None
    if inspect.isgeneratorfunction(rule.function) or inspect.isasyncgenfunction(rule.function):
        raise RuleError("the function has a yield, so a call does not run it: remove the yield")
    if declared.inline and (rule.is_async or has_expression):
        raise RuleError("inline=True is for plain functions: remove it")
    if has_expression and (signature.names or signature.object_name):
        raise RuleError("a rule with an expression does not run its function: remove the parameters")
    if "store" in signature.names and not declared.follows:
        raise RuleError("the parameter 'store' needs the kinds to follow: give follows=('v1', 'ConfigMap')")


def _find_caller() -> str:
    """Return file and line of the author's code that applies a decorator."""
    frames = traceback.extract_stack()
    frame = next((summary for summary in reversed(frames) if summary.filename != __file__), frames[0])
    return f"{frame.filename}:{frame.lineno}"


def _compile_expression(expression: str | None, message: str) -> Program | None:
    if expression is None and message:
        raise RuleError("message: it belongs to expression=; a rule in Python raises Denied(message)")
    if expression is not None and not message.strip():
        raise RuleError("expression: give message=, the reason of a refusal")
    return None if expression is None else compile_cel("expression", expression)


_HINT: Final = "; a rule gets other objects by follows=, and values by settings"


def load_rules(paths: Sequence[Path]) -> tuple[Rule, ...]:
    """Return the rules of some files: mutating ones first, then by order and name.

    Raises:
        RuleError: A file cannot be read or run, does not end, has no rule, or two rules have the same name.
    """
    rules = unite_rules(rule for path in paths for rule in _load_file(path))
    return tuple(sorted(rules, key=lambda one: (not one.declaration.mutates, one.declaration.order, one.name)))


def _identify(rule: Rule) -> object:
    """Return a value that rules of different places have not in common; several kinds may share one function."""
    return Path(rule.file).resolve(), rule.line, astuple(rule.declaration)[:5]


def unite_rules(rules: Iterable[Rule], identify: Callable[[Rule], object] = _identify) -> list[Rule]:
    """Return all rules, one that several files import once; raises RuleError if two rules have the same name."""
    known: dict[str, Rule] = {}
    for rule in rules:
        other = known.setdefault(rule.name, rule)
        if identify(other) != identify(rule):
            raise RuleError(
                f"{rule.file}:{rule.line}: two rules have the name {rule.name!r}, and the other one is at "
                f"{other.file}:{other.line}: rename a function, or give name="
            )
    return [*known.values()]


def _load_file(path: Path) -> list[Rule]:
    """Return the rules of a file, and those that it imports by name."""
    collected: list[Rule] = []
    token = COLLECTED.set(collected)
    try:
        module = run_file(path, f"fleethook_rules_{path.stem}", RuleError, hint=_HINT)
    finally:
        COLLECTED.reset(token)
    own = [rule for rule in collected if rule.file == str(path)]
    imported = (one for one in vars(module).values() if isinstance(one, Rule))
    rules = unite_rules([*own, *imported], id)  # A function that makes rules has one place for all of them.
    if not rules:
        raise RuleError(f"{path}: the file has no rule: decorate a function with @validate or @mutate")
    return rules
