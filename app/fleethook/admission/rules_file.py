"""Loads files of rules; each error names file and line."""

import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from fleethook.admission.declaration import RuleError
from fleethook.admission.rule import COLLECTED, Hook
from fleethook.admission.short_rules import compile_short

_MODULE: Final = "fleethook_rules_"


def load_rules(paths: Sequence[Path]) -> tuple[Hook, ...]:
    """Return the rules of some files: mutating ones first, then by order and name.

    Raises:
        RuleError: A file cannot be read or run, has no rule, or two rules have the same name.
    """
    found = [rule for path in paths for rule in _load_file(path)]
    check_names(found)
    return tuple(sorted(found, key=lambda one: (not one.declaration.mutates, one.declaration.order, one.name)))


def check_names(rules: Iterable[Hook]) -> None:
    """Raise RuleError if two rules have the same name."""
    known: dict[str, Hook] = {}
    for rule in rules:
        if (other := known.setdefault(rule.name, rule)) is not rule:
            raise RuleError(
                f"{rule.file}:{rule.line}: two rules have the name {rule.name!r}, and the other one is at "
                f"{other.file}:{other.line}: rename a function, or give name="
            )


def _load_file(path: Path) -> list[Hook]:
    """Return the rules of a file, those that it imports from other modules too."""
    collected: list[Hook] = []
    token = COLLECTED.set(collected)
    try:
        module, text = _run(path)
    finally:
        COLLECTED.reset(token)
    functions, budget = compile_short(text, str(path), vars(module))
    for rule in collected:
        if rule.file == str(path):
            rule.shorten(functions.get(rule.line), budget)
    imported = [one for one in vars(module).values() if isinstance(one, Hook) and one not in collected]
    if not collected and not imported:
        raise RuleError(f"{path}: the file has no rule: decorate a function with @validate or @mutate")
    return collected + imported


def _run(path: Path) -> tuple[ModuleType, bytes]:
    # A cache of bytecode compares times, and a reload may follow a change within the same second.
    module = ModuleType(f"{_MODULE}{path.stem}")
    module.__file__ = str(path)
    former = sys.modules.get(module.__name__)
    # Dataclasses find the types of their annotations through this table.
    sys.modules[module.__name__] = module
    try:
        text = path.read_bytes()
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the rules of the operator
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        if former is not None:
            sys.modules[module.__name__] = former
        raise _explain(error, path) from error
    return module, text


def _explain(error: BaseException, path: Path) -> RuleError:
    if isinstance(error, RuleError):
        return error
    if isinstance(error, OSError) and error.filename == str(path):
        remedy = "; give the files in it" if isinstance(error, IsADirectoryError) else ""
        return RuleError(f"{path}: cannot be read: {error.strerror}{remedy}")
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return RuleError(f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return RuleError(f"{path}:{lines[-1] if lines else 1}: {type(error).__name__}: {error}")
