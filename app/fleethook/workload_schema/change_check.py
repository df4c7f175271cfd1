"""Checks whether a change may add findings about a workload, in time for the change only."""

from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Final, NamedTuple

import msgspec
from jsonschema_rs import Draft4Validator

from fleethook.model.json import JSON, JSONObject
from fleethook.patch import parse_pointer
from fleethook.workload_schema.check import (
    CONTAINER_LISTS,
    IN_POD,
    find_duplicates,
    list_rules,
    load_checker,
    make_validator,
)
from fleethook.workload_schema.go_structs import Kind, load_structs, root_name
from fleethook.workload_schema.normalize import decode_member
from fleethook.workload_schema.pod_rules import MEMBERWISE, NEEDS, READS
from fleethook.workload_schema.struct_rules import Rule


def adds_no_finding(before: JSONObject, after: JSONObject, kind: Kind | None) -> bool:
    """Return True if a change of a workload certainly adds nothing to the findings of `check_workload`.

    This checks the changed members, and the rules that read any of them, so it takes time for the changes only.

    Args:
        before: The workload as kube-apiserver sends it.
        after: The changed workload, whose unchanged parts are the same Python objects.
        kind: Their kind; None for pods, which are like the pod template of a Deployment.
    """
    try:
        stored, changed = _store_struct(_TEMPLATE if kind is None else root_name(kind), before, after)
        if kind is None:
            stored = {"selector": {}, "template": stored}
            _check_rules(_load_struct("apps.v1.DeploymentSpec"), stored, changed)
    except Exception:  # noqa: BLE001 - a rule may fail on a workload that kube-apiserver would not send
        return False
    if changed.isdisjoint(_IDENTIFIED):
        return True
    return not any(find_duplicates({"spec": stored} if kind is None else stored))


@lru_cache(maxsize=1024)
def find_conditions(kind: Kind | None, path: str, value: bytes) -> tuple[tuple[tuple[str, ...], str], ...] | None:
    """Return the conditions under which a new member certainly adds nothing to the findings of `check_workload`.

    Args:
        kind: The kind of the workload, below 256 KiB; None for pods.
        path: The JSON pointer of the member.
        value: The member as JSON.

    Returns:
        The paths of structs with members that they must lack. None if the member may add a finding in any case.
    """
    *parents, name = parse_pointer(path)
    structs, added = [_TEMPLATE if kind is None else root_name(kind)], msgspec.json.decode(value)
    for one in parents[:-1]:
        structs.append(_load_struct(structs[-1]).fields.get(one, ""))
        if structs[-1] not in load_structs():
            return None
    if parents:
        inner = _load_struct(structs[-1]).fields.get(parents[-1], "")
        if inner in load_structs():
            structs.append(inner)
        else:
            # A map: its other members are valid or not without this one.
            name, added = parents.pop(), {name: added}
    stored: JSONObject = {}
    changed = set[str]()
    try:
        _store_change(structs[-1], name, _MISSING, added, stored, changed)
        settled = {rule for rule, _ in _load_struct(structs[-1]).rules if rule in MEMBERWISE and not any(rule(stored))}
    except Exception:  # noqa: BLE001 - as in `adds_no_finding`
        return None
    changed.update(parents)
    rules = [
        (tuple(parents[:depth]), *one) for depth, struct in enumerate(structs) for one in _load_struct(struct).rules
    ]
    if kind is None:
        # The selector of the Deployment that stands for a pod selects every pod.
        outer = _load_struct("apps.v1.DeploymentSpec").rules
        rules += [((), rule, read) for rule, read in outer if read is None or "selector" not in read]
    asked = [
        (place, rule)
        for place, rule, read in rules
        if rule not in settled and (read is None or not changed.isdisjoint(read))
    ]
    is_known = changed.isdisjoint(_IDENTIFIED) and all(_load_struct(struct).is_checked for struct in structs)
    if not is_known or not all(rule in NEEDS for _, rule in asked):
        return None
    return tuple((place, NEEDS[rule]) for place, rule in asked)


class _DoubtError(Exception):
    """A change may have added a finding."""


_IDENTIFIED: Final = frozenset({*CONTAINER_LISTS, *(name for name, _ in IN_POD)})
"""The lists that `find_duplicates` reads."""
_TEMPLATE: Final = "core.v1.PodTemplateSpec"
_MISSING: Final = object()
_NEW: Final = ""
"""Stands for the members of a struct that did not exist."""


class _Struct(NamedTuple):
    """A struct for the check of changes."""

    fields: Mapping[str, str]
    """The struct in a member; with ``[]`` before it for a list of structs, ``""`` for any other type."""
    is_checked: bool
    required: frozenset[str]
    rules: tuple[tuple[Rule, frozenset[str] | None], ...]
    """The rules with the names of the members on the paths that they read; None for rules that read all members."""


@cache
def _load_struct(struct: str) -> _Struct:
    definition, structs = load_checker("Deployment").definitions[struct], load_structs()
    types = {name: field.type.lstrip("*") for name, field in structs[struct].items()}
    return _Struct(
        {name: one if one.removeprefix("[]") in structs else "" for name, one in types.items()},
        "properties" in definition,
        frozenset(definition.get("required", ())),
        tuple((rule, READS.get(rule)) for rule in list_rules(struct)),
    )


def _store_struct(struct: str, before: JSON, after: JSON) -> tuple[JSONObject, set[str]]:
    """Return a struct with its changed members in stored form, and the names on the paths of its changes.

    Raises:
        _DoubtError: The changes may add a finding.
    """
    if type(after) is not dict:
        raise _DoubtError
    known, changed = _load_struct(struct), set[str]()
    if type(before) is not dict:
        before = {}
        changed.add(_NEW)
    if not known.is_checked:
        return after, {_NEW}
    stored = {**after}
    for name in [name for name, new in after.items() if before.get(name, _MISSING) is not new]:
        _store_change(struct, name, before.get(name, _MISSING), after[name], stored, changed)
    changed.update([name for name in before if name not in after])
    if changed:
        _check_rules(known, stored, changed)
    return stored, changed


def _store_change(struct: str, name: str, old: JSON, new: JSON, stored: JSONObject, changed: set[str]) -> None:
    """Store a changed member, and add the names on the paths of its changes; raises _DoubtError."""
    kept, inner = None, _load_struct(struct).fields.get(name)
    if inner is None:
        raise _DoubtError
    if new is None:
        changed.add(name)
    elif not inner:
        changed.add(name)
        kept = (_store_text if type(new) is str and len(new) <= _MAX_STORED else _store_value)(struct, name, new)
    else:
        is_list = inner.startswith("[]")
        kept, made = _store_elements(inner[2:], old, new) if is_list else _store_struct(inner, old, new)
        if made:
            changed |= made - {_NEW}
            changed.add(name)
    if kept is None:
        stored.pop(name, None)
    else:
        stored[name] = kept


def _store_value(struct: str, name: str, new: JSON) -> JSON:
    """Return a member that is neither a struct nor a list of structs in stored form; raises _DoubtError."""
    kept = decode_member(struct, name, new)
    if kept is not None and not _load_member_validator(struct, name).is_valid(kept):
        raise _DoubtError
    return kept


_store_text: Final = lru_cache(maxsize=1024)(_store_value)
_MAX_STORED: Final = 256
"""Characters of the longest text whose check is cached: the constants of rules."""


def _store_elements(struct: str, old: JSON, new: JSON) -> tuple[list[JSON] | None, set[str]]:
    if type(new) is not list:
        raise _DoubtError
    former: list[JSON] = old if type(old) is list else []
    stored, changed = [], set[str]() if len(new) == len(former) else {_NEW}
    for one, before in zip_longest(new, former[: len(new)]):
        kept, made = (one, ()) if one is before else _store_struct(struct, before, one)
        stored.append(kept)
        changed.update(made)
    return stored or None, changed


def _check_rules(known: _Struct, stored: JSONObject, changed: set[str]) -> None:
    """Apply the rules of a struct that read any of its changes; raises _DoubtError."""
    if not known.required <= stored.keys():
        raise _DoubtError
    for rule, read in known.rules:
        if (read is None or _NEW in changed or not changed.isdisjoint(read)) and any(rule(stored)):
            raise _DoubtError


@cache
def _load_member_validator(struct: str, name: str) -> Draft4Validator:
    """Return the validator of a member that is neither a struct nor a list of structs."""
    definitions = load_checker("Deployment").definitions
    simple = {one: schema for one, schema in definitions.items() if "properties" not in schema}
    return make_validator({**definitions[struct]["properties"][name], "definitions": simple})
