"""Updates of objects that broke a rule before, for example because the rule is newer.

kube-apiserver sends the whole object for each change, also for the removal of a finalizer by a controller. A refusal of
a violation that the update does not add would keep the object as it is for ever.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from fleethook.admission.declaration import Declaration
from fleethook.admission.matching import find_mismatch
from fleethook.cel import EvaluationError
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, allowed
from fleethook.model.json import JSON, JSONObject, as_object

REFUSALS: Final = ("Forbidden", "Invalid")
"""The reasons of responses with which a rule refuses an object; a rule that fails has another one."""


async def judge_update(
    declaration: Declaration,
    request: AdmissionRequest,
    refusal: Response,
    ask: Callable[[AdmissionRequest], Awaitable[Response]],
) -> Response:
    """Return the answer to an update that a rule refuses: admitted if the stored object has the same violation.

    A function ends at its first refusal, so a violation that the object had may hide one that the update adds. So the
    rule is also asked about each element of a list that the update adds or changes, without the others.

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
    if former is None or former.message != refusal.message:
        return refusal
    for change in list_changes(stored, updated):
        found = await find_refusal(change.after)
        if found is not None:
            former = await find_refusal(change.before)
            if former is None or former.message != found.message:
                return _place(found, change)
    text = f"the stored object breaks the rule {declaration.name}, too, so the update is admitted: {refusal.message}"
    return allowed(warnings=(*refusal.warnings, text))


class Change(NamedTuple):
    """An element of a list that an update adds or changes.

    Attributes:
        after: The updated object, without other elements of its lists of objects.
        before: The stored object, only with the former element; with none if the update adds it.
        path: The list, such as ``spec.containers``.
        position: The index of the element.
    """

    after: JSONObject
    before: JSONObject
    path: str
    position: int


def list_changes(stored: Mapping[str, JSON], updated: Mapping[str, JSON]) -> Iterator[Change]:
    """Yield the elements that an update adds to lists of objects, or changes; not those of lists inside of elements."""
    former = dict(_list_lists(stored))
    for path, elements in _list_lists(updated):
        others = former.get(path, [])
        for index, element in enumerate(elements):
            if element in others:
                continue
            name = as_object(element).get("name")
            same = [one for one in others if as_object(one).get("name") == name] if name is not None else []
            if name is None and len(others) == len(elements):
                same = [others[index]]
            yield Change(_keep(updated, path, [element]), _keep(stored, path, same[:1]), ".".join(path), index)


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
