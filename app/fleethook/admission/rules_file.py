"""Loads files of rules."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from fleethook.admission.decorators import COLLECTED
from fleethook.admission.rule_options import RuleError
from fleethook.admission.tested_rule import Rule
from fleethook.python_files import run_file

_HINT: Final = "; a rule gets other objects by follows=, and values by settings"


def load_rules(paths: Sequence[Path]) -> tuple[Rule, ...]:
    """Return the rules of some files: mutating ones first, then by order and name.

    Raises:
        RuleError: A file cannot be read or run, does not end, has no rule, or two rules have the same name.
    """
    found = unite_rules(rule for path in paths for rule in _load_file(path))
    return tuple(sorted(found, key=lambda one: (not one.declaration.mutates, one.declaration.order, one.name)))


def _identify(rule: Rule) -> object:
    """Return a value that rules of different places have not in common; several kinds may share one function."""
    return Path(rule.file).resolve(), rule.line, rule.declaration[:5]


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
    found = unite_rules([*own, *imported], id)  # A function that makes rules has one place for all of them.
    if not found:
        raise RuleError(f"{path}: the file has no rule: decorate a function with @validate or @mutate")
    return found
