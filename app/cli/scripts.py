"""Scripts of customizations as commands report them: with file and line, each once."""

from collections.abc import Iterable, Iterator

from app.interpret.lua.customizations import read_object
from app.interpret.lua.rules import FUNCTIONS, ParsedRules, describe_object, list_findings, list_unportable
from app.interpret.lua.runner import Runner
from app.interpret.lua.vm import LuaError, Program
from app.model.gvk import GroupVersionKind
from app.model.karmada import CONFIG_MAP, CONFIG_MAP_NAME, CUSTOMIZATION
from app.store.store import key_of
from app.store.yaml_lines import FieldLines
from app.store.yaml_reader import Document


def has_scripts(document: Document) -> bool:
    """Return whether an object is a customization or ``karmada-config``."""
    key = key_of(document.object)
    return key.group_kind == CUSTOMIZATION or (key.group_kind, key.name) == (CONFIG_MAP, CONFIG_MAP_NAME)


def read_scripts(document: Document) -> ParsedRules:
    """Return the rules of a customization or of ``karmada-config``, and its problems."""
    return read_object(key_of(document.object), document.object)


def refusals(documents: Iterable[Document]) -> Iterator[str]:
    """Yield each problem that makes scripts unusable, as ``FILE:LINE: OBJECT: FIELD: PROBLEM``."""
    lines = FieldLines()
    for document in filter(has_scripts, documents):
        for problem in read_scripts(document).problems:
            place = f"{document.source}:{lines.line(document, problem.place)}"
            yield f"{place}: {describe_object(document.object)}: {problem.place}: {problem.text}"


def unasked(documents: Iterable[Document], kinds: set[GroupVersionKind]) -> Iterator[str]:
    """Yield a warning for each object whose scripts answer for none of the kinds that fixtures ask about."""
    for document in filter(has_scripts, documents):
        own = {rule.kind for rule in read_scripts(document).rules}
        if own and own.isdisjoint(kinds):
            names = ", ".join(sorted(f"{kind.api_version} {kind.kind}" for kind in own))
            text = f"no fixture asks about {names}, for which {describe_object(document.object)} has scripts"
            yield f"{document.source}:{document.line}: warning: {text}"


def judged(document: Document, runner: Runner) -> tuple[list[str], list[str], list[str]]:
    """Return the problems of an object's scripts, the warnings, and a line for each rule that may be set."""
    read = read_scripts(document)
    problems = [f"{problem.place}: {problem.text}" for problem in read.problems]
    warnings: list[str] = []
    refused = {problem.place for problem in read.problems}
    for rule in read.rules:
        warnings += [f"{rule.place}: {text}" for text in (*list_findings(rule), *list_unportable(rule))]
        problem = _tried(rule.program, rule.function.name, runner)
        if problem:
            problems.append(f"{rule.place}: {problem}")
            refused.add(rule.place)
    return problems, warnings, list(_rules(document, read, refused))


def _rules(document: Document, read: ParsedRules, refused: set[str]) -> Iterator[str]:
    if key_of(document.object).group_kind != CUSTOMIZATION:
        for rule in read.rules:
            state = "refused" if rule.place in refused else "set"
            yield f"{rule.function.operation} of {rule.kind.api_version} {rule.kind.kind}: {state}"
        return
    usable = {rule.function for rule in read.rules if rule.place not in refused}
    for function in FUNCTIONS:
        place = f"spec.customizations.{function.member}"
        wrong = any(name == place or name.startswith(f"{place}.") for name in refused)
        state = "refused" if wrong else "set" if function in usable else "not set"
        yield f"{function.operation:<20} {state}"


def _tried(program: Program, name: str, runner: Runner) -> str:
    """Return what is wrong once the top level of a script has run, ``""`` if nothing."""
    try:
        functions = runner.try_at_once(program)
    except LuaError as error:
        return f"its top level fails: {error}"
    return "" if name in functions else f"there is no function {name} once its top level has run"
