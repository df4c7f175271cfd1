"""Updates of objects that broke a rule before, for example because the rule is newer.

kube-apiserver sends the whole object for each change, also for the removal of a finalizer by a controller. A refusal of
a violation that the update does not add would keep the object as it is for ever.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fleethook.admission.mismatch_and_pod_templates import find_mismatch
from fleethook.admission.refusals_and_warnings import REFUSALS
from fleethook.admission.rule_scope_and_options import Declaration
from fleethook.cel.program import EvaluationError, Program
from fleethook.model.admission import AdmissionRequest, Response, StatusCause, allowed
from fleethook.model.json import JSON, JSONObject, as_object, as_text
from fleethook.patch.diff import identical

MAX_CHANGES: Final = 250
"""Parts of an update about which a rule is asked alone. An update with more answers for all of them."""
_NAMES_MORE: Final = re.compile(r"\b(oldObject|userInfo|options)\b")
"""The variables and members of an expression that depends on more than the object."""


def decides_itself(declaration: Declaration, parameters: Collection[str], expression: Program | None) -> bool:
    """Return whether a rule is not asked about the stored object: it decides about changes, or has effects."""
    names_more = expression is not None and _NAMES_MORE.search(expression.expression) is not None
    return declaration.existing == "refuse" or declaration.side_effects != "None" or "old" in parameters or names_more


async def judge_update(
    declaration: Declaration,
    request: AdmissionRequest,
    refusal: Response,
    ask: Callable[[AdmissionRequest], Awaitable[Response]],
) -> Response:
    """Return the answer to an update that a rule refuses: admitted if the stored object has the same violation.

    A function ends at its first refusal, so a violation that the object had may hide one that the update adds, and one
    that the update removes may have hidden another. So the rule is also asked about the parts that the update changes.
    A violation in a member that every part has, or lacks, such as a missing label, still hides others.

    Args:
        declaration: The requests that the rule decides about.
        request: The update.
        refusal: The answer of the rule.
        ask: Returns the answer of the rule to another request.
    """
    judge = _Judge(declaration, request, ask)
    stored, updated = as_object(request.old_object), as_object(request.object)
    former = await judge.find_refusal(stored)
    if former is None:
        return refusal
    # The unchanged part may have the violation alone, behind another one that the update repairs.
    if not _is_same(former, refusal) and not _is_same(await judge.find_refusal(_share(updated, stored)), refusal):
        return refusal
    asked, answered = set[tuple[str, int]](), set[tuple[str, int]]()
    for number, change in enumerate(list_changes(stored, updated)):
        if number >= MAX_CHANGES:
            return refusal
        if not change.path.startswith(_UNSPECIFIED) and (change.path or _changes_spec(stored, updated)):
            asked.add((change.path, change.position))
        if (further_refusal := await judge.find_further_refusal(change, answered)) is not None:
            return further_refusal
    if asked - answered:
        return refusal  # The rule fails about each form of a part, which may have a further violation.
    text = f"the stored object breaks the rule {declaration.name}, too, so the update is admitted: {refusal.message}"
    return allowed(warnings=(*refusal.warnings, text))


# Controllers change these members of any object, and few rules are about them.
_UNSPECIFIED: Final = ("metadata", "status")


def _changes_spec(stored: Mapping[str, JSON], updated: Mapping[str, JSON]) -> bool:
    """Return whether an update changes a member beside metadata, status and lists of objects."""
    before, after = _empty_lists(stored), _empty_lists(updated)
    return any(before.get(name) != after.get(name) for name in {*before, *after}.difference(_UNSPECIFIED))


class _Judge(NamedTuple):
    """Asks a rule about parts of an update."""

    declaration: Declaration
    request: AdmissionRequest
    ask: Callable[[AdmissionRequest], Awaitable[Response]]

    async def answer(self, document: Mapping[str, JSON]) -> Response:
        """Return the answer to a request that would create an object: admitted if the rule does not get it."""
        created = self.request.with_objects(document, None)
        created.operation = "CREATE"
        try:
            # The namespace is that of the update.
            if find_mismatch(msgspec.structs.replace(self.declaration, namespace_selector={}), created, {}):
                return allowed()
        except EvaluationError:
            return allowed()
        return await self.ask(created)

    async def find_refusal(self, document: Mapping[str, JSON]) -> Response | None:
        """Return the refusal of an object, None without one, also if the rule fails."""
        answer = await self.answer(document)
        return answer if not answer.allowed and answer.reason in REFUSALS else None

    async def find_further_refusal(self, change: "Change", answered: set[tuple[str, int]]) -> Response | None:
        """Return the refusal of a change, None if its former state had the same violation, or if the rule fails.

        Without a failure, add the change to ``answered``.
        """
        refusal = await self.answer(change.after)
        if refusal.allowed or refusal.reason in REFUSALS:
            answered.add((change.path, change.position))
        if refusal.allowed or refusal.reason not in REFUSALS:
            return None
        former = await self.find_refusal(change.before)
        is_same = _is_same(former, refusal) and not await self.worsens(refusal, former, change)
        return None if is_same else _place(refusal, change)

    async def worsens(self, found: Response, former: Response | None, change: "Change") -> bool:
        """Return whether a change has a part in a violation that its former state had for the same reason.

        With a member as field, the change alters its value; below metadata, it removes one. Otherwise, the unchanged
        members do not have the violation alone, or the change removes a member of the element, or else a label.
        """
        # Without a field, labels and the changed element are the likely places of the violation.
        field = _find_field(found)
        new = _find_value(change.after, field or change.path or "metadata.labels")
        old = _find_value(change.before, _find_field(former) or change.path or "metadata.labels")
        # Without a member as field, the unchanged members may have the violation alone.
        if not field or (field.endswith("]") and isinstance(new, dict)) or isinstance(new, list):
            is_changed = change.kept is not None and not _is_same(await self.find_refusal(change.kept), found)
            return is_changed or _loses(old, new)
        return _loses(old, new) if field.startswith("metadata") and isinstance(new, dict) else _alters(old, new)


_INDEX: Final = re.compile(r"\[\d+\]")


def _is_same(former: Response | None, refusal: Response) -> bool:
    """Return whether two refusals have one reason, of an element that may have another index."""
    return former is not None and _INDEX.sub("", former.message) == _INDEX.sub("", refusal.message)


def _find_field(refusal: Response | None) -> str:
    return refusal.causes[0].field if refusal and refusal.causes else ""


class Change(NamedTuple):
    """A part of an object that an update changes.

    Attributes:
        after: The updated object without other parts, which may have the violation, too.
        before: The stored object in the same way.
        kept: The updated object without the change; None if the unchanged members are not to be asked about alone.
        path: The changed element, such as ``spec.containers[0]``; ``""`` for members.
        position: The index of the element in the updated object.
    """

    after: JSONObject
    before: JSONObject
    kept: JSONObject | None
    path: str = ""
    position: int = 0


def list_changes(stored: Mapping[str, JSON], updated: Mapping[str, JSON]) -> Iterator[Change]:
    """Yield the members that an update changes, then each element that it adds to a list of objects, or changes.

    Each comes twice: with the unchanged members around it, which a rule may need, and without them, because they may
    have the violation, too.
    """
    after, before = _empty_lists(updated), _empty_lists(stored)
    # The rule may need a label whose value changes.
    yield Change(after, before, {**_share(after, before), "metadata": after.get("metadata")})
    yield Change(_differ(after, before), _differ(before, after, common=True), _differ(after, after))
    for name, value in after.items():
        other = as_object(before.get(name))
        if isinstance(value, dict) and value != other:
            equal = {member: one for member, one in value.items() if isinstance(one, dict) and one == other.get(member)}
            new, old = _differ(value, other), _differ(other, value, common=True)
            yield Change(
                {**after, name: {**new, **equal}},
                {**before, name: {**old, **equal}},
                {**after, name: {**_differ(value, value), **equal}},
            )
    for path, index, element, same in _list_elements(updated, stored):
        kept = _set(after, path, [_share(element, same[0])]) if same else None
        place = f"{'.'.join(path)}[0]"
        yield Change(_set(after, path, [element]), _set(before, path, same), kept, place, index)
        new, old = ({**one, path[0]: _differ(one.get(path[0]), one.get(path[0]))} for one in (after, before))
        new = _set(new, path, [_differ(element, same[0]) if same else element])
        old = _set(old, path, [_differ(one, element) for one in same])
        yield Change(new, old, None, place, index)


_NAMES: Final = frozenset({"apiVersion", "kind", "name", "namespace"})
"""Members that rules read, and that an update does not change."""


def _differ(value: Any, other: Any, *, common: bool = False) -> Any:
    """Return the members and elements of a value that another one lacks, or has otherwise, with names and objects.

    With ``common``, the members that the other one lacks are missing, too.
    """
    if isinstance(value, dict) and isinstance(other, dict):
        return {
            name: _differ(one, other.get(name), common=common)
            for name, one in value.items()
            if (name in other or not common)
            and (name in _NAMES or one == [] or isinstance(one, dict) or one != other.get(name))
        }
    return _subtract(value, other) if isinstance(value, list) and isinstance(other, list) else value


def _share(value: Any, other: Any) -> Any:
    """Return the members and elements of a value that are the same in another one."""
    if isinstance(value, dict) and isinstance(other, dict):
        kept = {name: _share(one, other[name]) for name, one in value.items() if name in other}
        return {name: one for name, one in kept.items() if one is not None}
    if isinstance(value, list) and isinstance(other, list):
        return _subtract(value, _subtract(value, other))
    return value if value == other else None


_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def _subtract(values: list[JSON], others: list[JSON]) -> list[JSON]:
    # A list may have 100,000 elements, too many to compare each with each.
    known = set(map(_encode, others))
    return [value for value in values if _encode(value) not in known]


def _empty_lists(node: Mapping[str, JSON]) -> JSONObject:
    """Return an object whose lists of objects are empty."""
    return {
        name: _empty_lists(value) if isinstance(value, dict) else [] if _has_objects(value) else value
        for name, value in node.items()
    }


def _has_objects(value: JSON) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) for one in value)


def _set(node: Mapping[str, JSON], path: tuple[str, ...], value: JSON) -> JSONObject:
    """Return an object with a value at a path."""
    name, *rest = path
    return {**node, name: _set(as_object(node.get(name)), tuple(rest), value) if rest else value}


def _list_elements(
    node: Mapping[str, JSON], former: Mapping[str, JSON], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], int, JSON, list[JSON]]]:
    """Yield path, index and value of the elements that ``former`` lacks, with the former element if there was one."""
    for name, value in node.items():
        others: Any = former.get(name)
        if isinstance(value, dict):
            yield from _list_elements(value, as_object(others), (*path, name))
        elif isinstance(value, list) and _has_objects(value):
            others = others if isinstance(others, list) else []
            left, named = Counter(map(_encode, others)), {as_text(as_object(one).get("name")): one for one in others}
            for index, element in enumerate(value):
                own = as_text(as_object(element).get("name"))
                same = [named[own]] if own and own in named else []
                if not own and len(others) == len(value):
                    same = [others[index]]
                left[_encode(element)] -= 1  # The list may have equal elements, of which one is new.
                if left[_encode(element)] < 0:
                    yield (*path, name), index, element, same


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
    """Return whether an update removes a value, or a member of an object."""
    if isinstance(old, dict) and isinstance(new, dict):
        return any(_loses(one, new.get(name)) for name, one in old.items())
    return new is None and old not in (None, {}, [])


def _place(refusal: Response, change: Change) -> Response:
    """Return a refusal with the index that the only element of a list has in the updated object."""
    if not change.path:
        return refusal
    real = f"{change.path.removesuffix('[0]')}[{change.position}]"
    causes = [StatusCause(one.field.replace(change.path, real), one.message, one.reason) for one in refusal.causes]
    message = refusal.message.replace(change.path, real)
    return msgspec.structs.replace(refusal, message=message, causes=tuple(causes))
