"""Finds violations of the rules about several members of a struct: choices, `STRUCT_RULES` and `POD_RULES`."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Final, NamedTuple

from fleethook.engines.overrider.schema.findings import Finding, Violation
from fleethook.engines.overrider.schema.go_structs import Kind, load_structs, root_name, struct_name
from fleethook.engines.overrider.schema.pod_rules import POD_RULES
from fleethook.engines.overrider.schema.rules.choices import (
    DISCRIMINATED,
    find_conflicts,
    find_disallowed,
    load_choices,
)
from fleethook.engines.overrider.schema.struct_rules import STRUCT_RULES, Rule
from fleethook.model.json import JSON, JSONObject, enumerate_objects
from fleethook.patch import format_pointer


class _Place(NamedTuple):
    """The path of a value: built for each object on the way down, read only for a finding."""

    parent: "_Place | None"
    token: str | int


_Visit = Callable[[JSON, _Place | None], Iterator[Finding]]
# kube-apiserver and the owner write these.
_NOT_CHECKED: Final = frozenset({"status", "managedFields", "ownerReferences"})


def find_violations(workload: JSONObject, kind: Kind) -> Iterator[Finding]:
    """Yield the violations in a workload, outer structs first.

    Args:
        workload: A result of `fleethook.engines.overrider.schema.normalize.decode_workload` without values of a wrong
            type.
        kind: Its kind.
    """
    visit = _compile_visit(root_name(kind))
    if visit is not None:
        yield from visit(workload, None)


@cache
def _compile_visit(struct: str) -> _Visit | None:
    """Return the function that visits a struct and the structs inside; None if no rule is about any of them."""
    rules = [*STRUCT_RULES.get(struct, ()), *POD_RULES.get(struct, ())]
    if struct in load_choices():
        rules.append(_as_rule(partial(find_conflicts, load_choices()[struct])))
    if struct in DISCRIMINATED:
        rules.append(_as_rule(partial(find_disallowed, DISCRIMINATED[struct])))
    members: dict[str, _Visit] = {}
    for name, field in load_structs()[struct].items():
        inner = struct_name(field.type)
        if inner is not None and name not in _NOT_CHECKED and (visit := _compile_visit(inner)) is not None:
            members[name] = _visit_each(visit) if field.type.startswith("[]") else visit
    return _visit_struct(tuple(rules), members) if rules or members else None


def _as_rule(find: Callable[[JSONObject], Iterator[tuple[str, str]]]) -> Rule:
    def check(node: JSONObject) -> Iterator[Violation]:
        for member, message in find(node):
            yield Violation((member,) if member else (), message)

    return check


def _visit_struct(rules: tuple[Rule, ...], members: Mapping[str, _Visit]) -> _Visit:
    def visit(value: JSON, place: _Place | None) -> Iterator[Finding]:
        if not isinstance(value, dict):
            return
        for rule in rules:
            for tokens, message, problem in rule(value):
                yield Finding(_format_place(place, tokens), problem, message)
        for name in members.keys() & value.keys():
            yield from members[name](value[name], _Place(place, name))

    return visit


def _visit_each(visit: _Visit) -> _Visit:
    def visit_each(value: JSON, place: _Place | None) -> Iterator[Finding]:
        for number, element in enumerate_objects(value):
            yield from visit(element, _Place(place, number))

    return visit_each


def _format_place(place: _Place | None, tokens: tuple[str | int, ...]) -> str:
    path = [*map(str, tokens[::-1])]
    while place is not None:
        path.append(str(place.token))
        place = place.parent
    return format_pointer(path[::-1])
