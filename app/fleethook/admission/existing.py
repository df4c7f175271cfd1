"""Updates of objects that broke a rule before, for example because the rule is newer.

kube-apiserver sends the whole object for each change, also for the removal of a finalizer by a controller. A refusal of
a violation that the update does not add would keep the object as it is for ever.
"""

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from fleethook.admission.declaration import Declaration
from fleethook.admission.matching import find_mismatch
from fleethook.cel.evaluation import EvaluationError
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, allowed
from fleethook.model.json import JSON, JSONObject, as_object, as_text

REFUSALS: Final = ("Forbidden", "Invalid")
"""The reasons of responses with which a rule refuses an object; a rule that fails has another one."""


MAX_CHANGES: Final = 500
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

    async def find_refusal(document: Mapping[str, JSON]) -> Response | None:
        """Return the refusal of a request that would create an object, None without one."""
        text = msgspec.Raw(msgspec.json.encode(document))
        created = msgspec.structs.replace(
            request, operation="CREATE", object_raw=text, old_object_raw=msgspec.Raw(b"null")
        )
        try:
            # The namespace is that of the update.
            if find_mismatch(declaration._replace(namespace_selector={}), created, {}):
                return None
        except EvaluationError:
            return None
        answer = await ask(created)
        return answer if not answer.allowed and answer.reason in REFUSALS else None

    stored, updated = as_object(request.old_object), as_object(request.object)
    former = await find_refusal(stored)
    if former is None:
        return refusal
    if former.message != refusal.message and not await _hides(refusal, list_kept(stored, updated), find_refusal):
        return refusal
    for number, change in enumerate(list_changes(stored, updated)):
        if number >= MAX_CHANGES:
            return refusal
        found = await find_refusal(change.after)
        if found is not None:
            former = await find_refusal(change.before)
            if former is None or former.message != found.message:
                return _place(found, change)
    text = f"the stored object breaks the rule {declaration.name}, too, so the update is admitted: {refusal.message}"
    return allowed(warnings=(*refusal.warnings, text))


async def _hides(
    refusal: Response,
    kept: Iterator["Change"],
    find_refusal: Callable[[Mapping[str, JSON]], Awaitable[Response | None]],
) -> bool:
    """Return whether a rule refuses an unchanged element of the stored object for the same reason."""
    for one in itertools.islice(kept, MAX_CHANGES):
        found = await find_refusal(one.after)
        if found is not None and _place(found, one).message == refusal.message:
            return True
    return False


class Change(NamedTuple):
    """An element of a list, or some members of an object, that an update adds or changes.

    Attributes:
        after: The updated object without the unchanged elements or members that may have the violation, too.
        before: The stored object with the former element or members; with none if the update adds them.
        path: The list of the element, such as ``spec.containers``; ``""`` for members.
        position: The index of the element.
    """

    after: JSONObject
    before: JSONObject
    path: str
    position: int


def list_changes(stored: Mapping[str, JSON], updated: Mapping[str, JSON]) -> Iterator[Change]:
    """Yield the elements that an update adds to lists of objects, or changes, and then other changed members.

    A changed element comes a second time with nothing but its changed members.
    """
    former = dict(_list_lists(stored))
    for path, elements in _list_lists(updated):
        others = former.get(path, [])
        known, named = _write(others), {as_text(as_object(one).get("name")): one for one in others}
        for index, element in enumerate(elements):
            if _encode(element) in known:
                continue
            name = as_text(as_object(element).get("name"))
            same = [named[name]] if name and name in named else []
            if not name and len(others) == len(elements):
                same = [others[index]]
            yield Change(_keep(updated, path, [element]), _keep(stored, path, same[:1]), ".".join(path), index)
            if same:
                new, old = _reduce(as_object(element), as_object(same[0]))
                yield Change(_keep(updated, path, [new]), _keep(stored, path, [old]), ".".join(path), index)
    for place, new, old in _list_members(updated, stored):
        yield Change(_replace(_keep(updated, (), []), place, new), _replace(_keep(stored, (), []), place, old), "", 0)


def list_kept(stored: Mapping[str, JSON], updated: Mapping[str, JSON]) -> Iterator[Change]:
    """Yield the elements of lists of objects that an update does not change, each alone in the stored object."""
    former = dict(_list_lists(stored))
    for path, elements in _list_lists(updated):
        known = _write(former.get(path, []))
        for index, element in enumerate(elements):
            if _encode(element) in known:
                yield Change(_keep(stored, path, [element]), {}, ".".join(path), index)


_NAMES: Final = frozenset({"apiVersion", "kind", "name", "namespace"})
"""Members that rules read, and that an update does not change."""


def _reduce(node: Mapping[str, JSON], former: Mapping[str, JSON]) -> tuple[JSONObject, JSONObject]:
    """Return the members of an object that differ from those of its former state, and the former ones; names stay."""
    after: JSONObject = {}
    before: JSONObject = {}
    for name in dict.fromkeys((*node, *former)):
        new, old = node.get(name), former.get(name)
        if name not in _NAMES and new == old:
            continue
        if isinstance(new, dict) and isinstance(old, dict):
            new, old = _reduce(new, old)
        elif isinstance(new, list) and isinstance(old, list):
            new, old = _subtract(new, old), _subtract(old, new)
        after.update({name: new} if name in node else {})
        before.update({name: old} if name in former else {})
    return after, before


def _list_members(
    node: Mapping[str, JSON], former: Mapping[str, JSON], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], JSONObject, JSONObject]]:
    """Yield paths of objects with their changed members that are neither objects nor lists of them, and former ones."""
    plain = {name: value for name, value in node.items() if not isinstance(value, dict) and not _has_objects(value)}
    new, old = _reduce(plain, {name: former[name] for name in plain if name in former})
    if path != ("metadata",) and any(name not in _NAMES and value != [] for name, value in new.items()):
        yield path, new, old
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _list_members(value, as_object(former.get(name)), (*path, name))


def _replace(node: Mapping[str, JSON], path: tuple[str, ...], members: JSONObject) -> JSONObject:
    """Return an object whose part at a path has these members, and otherwise only objects and names."""
    if path:
        return {**node, path[0]: _replace(as_object(node.get(path[0])), path[1:], members)}
    kept = {name: one for name, one in node.items() if isinstance(one, dict) or one == [] or name in _NAMES}
    return {**kept, **members}


def _subtract(values: list[JSON], others: list[JSON]) -> list[JSON]:
    known = _write(others)
    return [one for one in values if _encode(one) not in known]


_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def _write(values: list[JSON]) -> set[bytes]:
    """Return the texts of values. A list may have 100,000, too many to compare each with each."""
    return set(map(_encode, values))


def _list_lists(node: Mapping[str, JSON], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[JSON]]]:
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _list_lists(value, (*path, name))
        elif _has_objects(value):
            yield (*path, name), value


def _has_objects(value: JSON) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) for one in value)


def _keep(node: Mapping[str, JSON], path: tuple[str, ...], elements: list[JSON]) -> JSONObject:
    """Return an object whose lists of objects are empty, except for the one at a path."""
    return {
        name: (elements if path == (name,) else [])
        if _has_objects(value)
        else _keep(value, path[1:] if path[:1] == (name,) else (), elements)
        if isinstance(value, dict)
        else value
        for name, value in node.items()
    }


def _place(refusal: Response, change: Change) -> Response:
    """Return a refusal with the index that the only element of a list has in the updated object."""
    shown, real = f"{change.path}[0]", f"{change.path}[{change.position}]"
    causes = tuple(StatusCause(one.field.replace(shown, real), one.message, one.reason) for one in refusal.causes)
    return msgspec.structs.replace(refusal, message=refusal.message.replace(shown, real), causes=causes)
