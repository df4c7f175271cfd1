"""Checking the Lua scripts of customizations for commands. Each problem is reported once, with file and line."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fleethook.cluster.manifests.yaml_reader import Document, FieldLines, ManifestError
from fleethook.cluster.store.store import key_of
from fleethook.engines.interpret.lua.customizations import read_object
from fleethook.engines.interpret.lua.rules import (
    FUNCTIONS,
    ParsedRules,
    describe_object,
    list_findings,
    list_unportable,
)
from fleethook.engines.interpret.lua.runner import Runner
from fleethook.engines.interpret.lua.vm import LuaError, Program
from fleethook.model.formats.field_errors import Problem
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION


class ScriptReport(NamedTuple):
    """The result of checking the scripts of one object.

    Attributes:
        problems: Reasons why a script cannot be used.
        warnings: Suspicious code in usable scripts.
        rules: A line for each rule that the object may set.
    """

    problems: list[Problem]
    warnings: list[Problem]
    rules: list[str]


def has_scripts(document: Document) -> bool:
    """Return whether an object is a customization or the ConfigMap ``karmada-config``."""
    key = key_of(document.object)
    return key.group_kind == CUSTOMIZATION or (key.group_kind, key.name) == (CONFIG_MAP, CONFIG_MAP_NAME)


def read_scripts(document: Document) -> ParsedRules:
    """Return the rules of a customization or of ``karmada-config``, and its problems."""
    return read_object(key_of(document.object), document.object)


def find_problems(documents: Iterable[Document]) -> Iterator[ManifestError]:
    """Yield the problems that make scripts unusable, as ``OBJECT: FIELD: PROBLEM`` with file and line."""
    lines = FieldLines()
    for document in filter(has_scripts, documents):
        for problem in read_scripts(document).problems:
            text = f"{describe_object(document.object)}: {problem.place}: {problem.text}"
            yield ManifestError(document.source, lines.line(document, problem.place), text)


def warn_untested(documents: Iterable[Document], kinds: set[GroupVersionKind]) -> Iterator[str]:
    """Yield a warning for each object whose scripts answer for none of the ``kinds`` that fixtures ask about."""
    for document in filter(has_scripts, documents):
        own = {rule.kind for rule in read_scripts(document).rules}
        if own and own.isdisjoint(kinds):
            names = ", ".join(sorted(f"{kind.api_version} {kind.kind}" for kind in own))
            text = f"no fixture asks about {names}, for which {describe_object(document.object)} has scripts"
            yield f"{document.source}:{document.line}: warning: {text}"


def check_scripts(document: Document, runner: Runner) -> ScriptReport:
    """Compile the scripts of an object, run their top level and report the result."""
    read = read_scripts(document)
    problems = [Problem(problem.place, problem.text) for problem in read.problems]
    warnings: list[Problem] = []
    refused = {problem.place for problem in read.problems}
    for rule in read.rules:
        warnings += [Problem(rule.place, text) for text in (*list_findings(rule), *list_unportable(rule))]
        problem = _run_top_level(rule.program, rule.function.name, runner)
        if problem:
            problems.append(Problem(rule.place, problem))
            refused.add(rule.place)
    return ScriptReport(problems, warnings, list(_list_rules(document, read, refused)))


def _list_rules(document: Document, read: ParsedRules, refused: set[str]) -> Iterator[str]:
    """Yield a line for each rule that a customization may have, or for each rule of ``karmada-config``."""
    if key_of(document.object).group_kind != CUSTOMIZATION:
        for rule in read.rules:
            state = "refused" if rule.place in refused else "set"
            yield f"{rule.function.operation} of {rule.kind.api_version} {rule.kind.kind}: {state}"
        return
    usable = {rule.function for rule in read.rules if rule.place not in refused}
    for function in FUNCTIONS:
        place = f"spec.customizations.{function.member}"
        is_refused = any(name == place or name.startswith(f"{place}.") for name in refused)
        state = "refused" if is_refused else "set" if function in usable else "not set"
        yield f"{function.operation:<20} {state}"


def _run_top_level(program: Program, name: str, runner: Runner) -> str:
    """Run the top level of a script; return the problem, ``""`` if it defines the function ``name``."""
    try:
        functions = runner.try_at_once(program)
    except LuaError as error:
        return f"its top level fails: {error}"
    return "" if name in functions else f"there is no function {name} after its top level has run"
