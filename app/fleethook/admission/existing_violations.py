"""Updates of objects that broke a rule before, for example because the rule is newer.

kube-apiserver sends the whole object for each change, also for the removal of a finalizer by a controller. A refusal of
a violation that the update does not add would keep the object as it is for ever.
"""

import itertools
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec

from fleethook.admission.rule_matching import find_mismatch
from fleethook.admission.rule_options import Declaration
from fleethook.cel.evaluation import EvaluationError
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, allowed
from fleethook.model.json import JSON, JSONObject, as_object, as_text
from fleethook.patch.diff import identical

REFUSALS: Final = ("Forbidden", "Invalid")
"""The reasons of responses with which a rule refuses an object; a rule that fails has another one."""


MAX_CHANGES: Final = 250
"""Elements and members of an update about which a rule is asked alone. An update with more answers for all of them."""


async def judge_update(
    declaration: Declaration,
    request: AdmissionRequest,
    refusal: Response,
    ask: Callable[[AdmissionRequest], Awaitable[Response]],
) -> Response:
    """Return the answer to an update that a rule refuses: admitted if the stored object has the same violation.

    A function ends at its first refusal, so a violation that the object had may hide one that the update adds, and one
    that the update removes may have hidden another. So the rule is also asked about single elements and members.

    Args:
        declaration: The requests that the rule decides about.
        request: The update.
        refusal: The answer of the rule.
        ask: Returns the answer of the rule to another request.
    """
    judge = _Judge(declaration, request, ask)
    stored, updated = as_object(request.old_object), as_object(request.object)
    parts = Change(_keep(updated, (), []), _keep(stored, (), []), None, "", 0)
    former = await judge.find_refusal(stored)
    if former is None:
        return refusal
    if former.message != refusal.message:
        if not await judge.hides(refusal, list_kept(stored, updated)):
            return refusal
    elif await judge.worsens(refusal, parts):
        return refusal
    for number, change in enumerate(list_changes(stored, updated)):
        if number >= MAX_CHANGES:
            return refusal
        if (further_refusal := await judge.find_further_refusal(change)) is not None:
            return further_refusal
    text = f"the stored object breaks the rule {declaration.name}, too, so the update is admitted: {refusal.message}"
    return allowed(warnings=(*refusal.warnings, text))


class _Judge(NamedTuple):
    """Asks a rule about parts of an update."""

    declaration: Declaration
    request: AdmissionRequest
    ask: Callable[[AdmissionRequest], Awaitable[Response]]

    async def find_refusal(self, document: Mapping[str, JSON]) -> Response | None:
        """Return the refusal of a request that would create an object, None without one."""
        created = self.request.with_objects(document, None)
        created.operation = "CREATE"
        try:
            # The namespace is that of the update.
            if find_mismatch(self.declaration._replace(namespace_selector={}), created, {}):
                return None
        except EvaluationError:
            return None
        answer = await self.ask(created)
        return answer if not answer.allowed and answer.reason in REFUSALS else None

    async def hides(self, refusal: Response, kept: Iterator["Change"]) -> bool:
        """Return whether the rule refuses an unchanged element of the stored object for the same reason."""
        for change in itertools.islice(kept, MAX_CHANGES):
            response = await self.find_refusal(change.after)
            if response is not None and _place(response, change).message == refusal.message:
                return True
        return False

    async def find_further_refusal(self, change: "Change") -> Response | None:
        """Return the refusal of a change, None if its former state had the same violation."""
        refusal = await self.find_refusal(change.after)
        if refusal is None:
            return None
        former = await self.find_refusal(change.before)
        is_same = former is not None and former.message == refusal.message and not await self.worsens(refusal, change)
        return None if is_same else _place(refusal, change)

    async def worsens(self, found: Response, change: "Change") -> bool:
        """Return whether a change has a part in a violation that its former state had for the same reason."""
        field = found.causes[0].field if found.causes else ""
        # Without a field, labels and the changed element are the likely places of the violation.
        old, new = (
            _find_value(one, field or change.path or "metadata.labels") for one in (change.before, change.after)
        )
        # Without a member as field, the unchanged members may have the violation alone.
        if not field or (field.endswith("]") and isinstance(new, dict)) or isinstance(new, list):
            kept = found if change.kept is None else await self.find_refusal(change.kept)
            return kept is None or kept.message != found.message or _loses(old, new)
        return _loses(old, new) if field.startswith("metadata") and isinstance(new, dict) else _alters(old, new)


class Change(NamedTuple):
    """An element of a list, or some members of an object, that an update adds or changes.

    Attributes:
        after: The updated object without the unchanged elements or members that may have the violation, too.
        before: The stored object with the former element or members; with none if the update adds them.
        kept: The object with the unchanged members of the element alone; None if the update adds it.
        path: The list of the element, such as ``spec.containers``; ``""`` for members.
        position: The index of the element.
    """

    after: JSONObject
    before: JSONObject
    kept: JSONObject | None
    path: str
    position: int


def list_changes(stored: Mapping[str, JSON], updated: Mapping[str, JSON]) -> Iterator[Change]:
    """Yield the elements that an update adds to lists of objects, or changes, and then other changed members.

    Each comes a second time without the unchanged members of the element and of the objects around it: these may have
    the violation, too. The first time is for rules that need these members.
    """
    former = dict(_list_lists(stored))
    after, before = (_keep(one, (), []) for one in (updated, stored))
    for path, elements in _list_lists(updated):
        others = former.get(path, [])
        known, named = _write(others), {as_text(as_object(other).get("name")): other for other in others}
        for index, element in enumerate(elements if _has_objects(elements) else ()):
            if _encode(element) in known:
                continue
            name = as_text(as_object(element).get("name"))
            same = [named[name]] if name and name in named else []
            if not name and len(others) == len(elements):
                same = [others[index]]
            kept = _keep(updated, path, [_share(element, same[0])]) if same else None
            field = ".".join(path)
            yield Change(_keep(updated, path, [element]), _keep(stored, path, same), kept, field, index)
            changed = {path[-1]: [_differ(element, same[0]) if same else element]}
            replaced = {path[-1]: [_differ(one, element) for one in same]}
            part = partial(_replace, place=path[:-1], alone=True)
            yield Change(part(after, members=changed), part(before, members=replaced), None, field, index)
    for place, new, old in _list_members(updated, stored):
        for alone in (False, True):
            part = partial(_replace, place=place, alone=alone)
            yield Change(part(after, members=new), part(before, members=old), part(after, members={}), "", 0)


def list_kept(stored: Mapping[str, JSON], updated: Mapping[str, JSON]) -> Iterator[Change]:
    """Yield the elements of lists that an update does not change, each alone in the stored object."""
    former = dict(_list_lists(stored))
    for path, elements in _list_lists(updated):
        known = _write(former.get(path, []))
        for index, element in enumerate(elements):
            if _encode(element) in known:
                yield Change(_keep(stored, path, [element]), {}, None, ".".join(path), index)


_NAMES: Final = frozenset({"apiVersion", "kind", "name", "namespace"})
"""Members that rules read, and that an update does not change."""


def _differ(value: JSON, other: JSON) -> JSON:
    """Return the members and elements of a value that another one lacks, or has otherwise, with names."""
    if isinstance(value, dict) and isinstance(other, dict):
        differing = (name for name, one in value.items() if name in _NAMES or one != other.get(name))
        return {name: _differ(value[name], other.get(name)) for name in differing}
    return _subtract(value, other) if isinstance(value, list) and isinstance(other, list) else value


def _share(value: JSON, other: JSON) -> JSON:
    """Return the members and elements of a value that are the same in another one."""
    if isinstance(value, dict) and isinstance(other, dict):
        kept = {name: _share(one, other[name]) for name, one in value.items() if name in other}
        return {name: one for name, one in kept.items() if one is not None}
    if isinstance(value, list) and isinstance(other, list):
        return _subtract(value, _subtract(value, other))
    return value if value == other else None


_TOKENS: Final = re.compile(r"\[([^]]*)\]|([^.[]+)")


def _find_value(document: Mapping[str, JSON], field: str) -> JSON:
    value: JSON = document
    for index, name in _TOKENS.findall(field):
        if isinstance(value, list) and index.isdigit():
            value = value[int(index)] if int(index) < len(value) else None
        else:
            value = as_object(value).get(index.strip("'\"") or name)
    return value


def _alters(old: JSON, new: JSON) -> bool:
    """Return whether an update changes a value, or more of an object than to add members, about which it is asked."""
    if isinstance(new, dict):
        return any(_alters(one, new.get(name)) for name, one in as_object(old).items() if not isinstance(one, list))
    return not identical(old, new)


def _loses(old: JSON, new: JSON) -> bool:
    """Return whether an update removes a member of an object, or of the only element of a list."""
    if isinstance(old, dict) and isinstance(new, dict):
        return any(_loses(one, new.get(name)) for name, one in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) == 1 and _loses(old[0], new[0])
    return new is None and old not in (None, {}, [])


def _list_members(
    node: Mapping[str, JSON], former: Mapping[str, JSON], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], JSONObject, JSONObject]]:
    """Yield paths of objects with their changed members that are neither objects nor lists of them, and former ones."""
    # Each update changes texts of the metadata, such as resourceVersion.
    others = (dict, str, int) if path == ("metadata",) else dict
    plain = {name: value for name, value in node.items() if not isinstance(value, others) and not _has_objects(value)}
    other = {name: former[name] for name in plain if name in former}
    new, old = dict(_differ(plain, other)), dict(_differ(other, plain))
    if any(name not in _NAMES and value != [] for name, value in new.items()):
        yield path, new, old
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _list_members(value, as_object(former.get(name)), (*path, name))


def _replace(node: Mapping[str, JSON], place: tuple[str, ...], members: JSONObject, *, alone: bool) -> JSONObject:
    """Return an object whose part at a place has these members, and otherwise only objects and names.

    With ``alone``, the other objects are missing, except those of the uppermost level, such as ``metadata``.
    """
    drops = alone and "apiVersion" not in node
    others = {name: one for name, one in node.items() if not (drops and isinstance(one, dict))}
    if place:
        return {**others, place[0]: _replace(as_object(node.get(place[0])), place[1:], members, alone=alone)}
    kept = {name: one for name, one in others.items() if isinstance(one, dict) or one == [] or name in _NAMES}
    return {**kept, **members}


def _subtract(values: list[JSON], others: list[JSON]) -> list[JSON]:
    known = _write(others)
    return [value for value in values if _encode(value) not in known]


_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def _write(values: list[JSON]) -> set[bytes]:
    """Return the texts of values. A list may have 100,000, too many to compare each with each."""
    return set(map(_encode, values))


def _list_lists(node: Mapping[str, JSON], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[JSON]]]:
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _list_lists(value, (*path, name))
        elif isinstance(value, list):
            yield (*path, name), value


def _has_objects(value: JSON) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) for one in value)


def _keep(node: Mapping[str, JSON], path: tuple[str, ...], elements: list[JSON]) -> JSONObject:
    """Return an object whose list at a path has these elements, and whose other lists of objects are empty."""
    return {
        name: elements
        if path == (name,)
        else _keep(value, path[1:] if path[:1] == (name,) else (), elements)
        if isinstance(value, dict)
        else []
        if _has_objects(value)
        else value
        for name, value in node.items()
    }


def _place(refusal: Response, change: Change) -> Response:
    """Return a refusal with the index that the only element of a list has in the updated object."""
    shown, real = f"{change.path}[0]", f"{change.path}[{change.position}]"
    causes = tuple(
        StatusCause(cause.field.replace(shown, real), cause.message, cause.reason) for cause in refusal.causes
    )
    return msgspec.structs.replace(refusal, message=refusal.message.replace(shown, real), causes=causes)
