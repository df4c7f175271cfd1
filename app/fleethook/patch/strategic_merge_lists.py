"""Merges, deletes and orders list elements for strategic merge patch."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from fleethook.model.json import JSON, JSONObject
from fleethook.model.merge_keys import MergeSchema
from fleethook.patch.limits import StrategicMergeError

Identify = Callable[[JSON], Hashable]
"""Returns the identity of an element, such as the value of its merge key."""


def order_elements(
    merged: list[JSON], *, wanted: Sequence[Hashable], server: Sequence[Hashable], identify: Identify
) -> list[JSON]:
    """Return the elements of a merged list in upstream's order.

    Elements of the patch keep the order of the patch, all others keep the order of the server's list. Both sequences
    are merged from the front. An element of the server comes first only if it preceded the next element of the patch
    in the server's list. An element that is new in the patch therefore precedes all remaining elements of the server.

    Args:
        merged: The elements.
        wanted: The identities of the patch's elements, in the order of the patch.
        server: The identities of the server's list before the merge.
        identify: Returns the identity of an element.
    """
    wanted_at, server_at = _first_positions(wanted), _first_positions(server)
    named = [element for element in merged if identify(element) in wanted_at]
    others = [element for element in merged if identify(element) not in wanted_at]
    named.sort(key=lambda element: wanted_at[identify(element)])
    others.sort(key=lambda element: server_at.get(identify(element), len(server_at)))
    return _merge_sorted(others, named, server_at=server_at, identify=identify)


def _first_positions(identities: Sequence[Hashable]) -> dict[Hashable, int]:
    positions: dict[Hashable, int] = {}
    for position, identity in enumerate(identities):
        positions.setdefault(identity, position)
    return positions


def _merge_sorted(
    left: list[JSON], right: list[JSON], *, server_at: dict[Hashable, int], identify: Identify
) -> list[JSON]:
    result: list[JSON] = []
    i = j = 0
    while i < len(left) and j < len(right):
        left_at, right_at = server_at.get(identify(left[i])), server_at.get(identify(right[j]))
        if left_at is not None and right_at is not None and left_at < right_at:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + left[i:] + right[j:]


_DIRECTIVE: Final = "$patch"


class Edits(NamedTuple):
    """The changes of a patch to a list that merges by key.

    Attributes:
        upserts: Identity, JSON pointer into the patch, and members of each element to merge or add.
        deleted: Identities of the elements to delete.
        replace: Whether the elements in ``upserts`` replace the list.
    """

    upserts: list[tuple[Hashable, str, JSONObject]]
    deleted: set[Hashable]
    replace: bool


def identify_element(element: JSON, key: str | None, path: str) -> Hashable:
    """Return the identity of ``element``: its merge key's value, or the element itself in a list of scalars.

    The identity contains the type, because 1, 1.0 and true are equal in Python and differ in JSON.

    Raises:
        StrategicMergeError: The merge key is missing, or the value is not a scalar.
    """
    if key is not None:
        if not isinstance(element, dict) or element.get(key) is None:
            raise StrategicMergeError(path, f"has no {key!r}, by which elements of this list are merged")
        element = element[key]
    if isinstance(element, dict | list):
        raise StrategicMergeError(path, "must be a scalar" if key is None else f"must have a scalar as its {key!r}")
    return type(element), element


def parse_edits(patch: list[JSON], key: str, path: str) -> Edits:
    """Return the edits in the elements of ``patch``; raises StrategicMergeError for an invalid element."""
    edits: Edits = Edits(
        [], set(), any(isinstance(element, dict) and _is_replace_directive(element) for element in patch)
    )
    for number, element in enumerate(patch):
        place = f"{path}/{number}"
        action = element.get(_DIRECTIVE, "merge") if isinstance(element, dict) else "merge"
        if action == "replace":
            if len(element) > 1:
                raise StrategicMergeError(place, "replaces the list: remove all members beside '$patch: replace'")
        elif action == "delete":
            edits.deleted.add(identify_element(element, key, place))
        elif action == "merge":
            identity = identify_element(element, key, place)
            upserts = {name: value for name, value in element.items() if name != _DIRECTIVE}
            edits.upserts.append((identity, place, upserts))
        else:
            raise StrategicMergeError(f"{place}/{_DIRECTIVE}", f"must be delete, replace or merge, not {action!r}")
    return edits


def _is_replace_directive(element: JSONObject) -> bool:
    return bool(element.get(_DIRECTIVE) == "replace")


def drop_deleted(original: list[JSON], key: str, *, deleted: set[Hashable], path: str) -> list[JSON]:
    """Return the elements of ``original`` without those in ``deleted``."""
    return [
        element
        for number, element in enumerate(original)
        if identify_element(element, key, f"{path} (element {number} of the object)") not in deleted
    ]


def merge_scalars(original: list[JSON], patch: list[JSON], *, order: JSON, path: str) -> list[JSON]:
    """Return the union of both lists in the order of the patch."""
    united = {identify_element(value, None, path): value for value in (*original, *patch)}
    schema = MergeSchema(primitive=True)
    wanted = patch if order is None else order
    return order_list(list(united.values()), wanted, named=patch, schema=schema, path=path, server=original)


def delete_scalars(result: JSONObject, name: str, values: JSON, *, path: str) -> None:
    """Delete ``values`` from the list in member ``name`` of ``result``, if that member exists."""
    unwanted = {identify_element(value, None, path) for value in _require_list(values, path)}
    present = result.get(name)
    if present is None:
        return
    kept = [value for value in _require_list(present, path) if identify_element(value, None, path) not in unwanted]
    if len(kept) < len(present):
        result[name] = kept


def order_list(
    present: list[JSON],
    order: JSON,
    *,
    named: Iterable[JSON],
    schema: MergeSchema,
    path: str,
    server: Sequence[JSON] | None = None,
) -> list[JSON]:
    """Return ``present`` in the order of a patch, or ``present`` itself if it has that order already.

    Args:
        present: The merged elements.
        order: The elements of the patch, or of its ``$setElementOrder``.
        named: The elements that the patch merges or adds. ``order`` must contain them in the same order.
        schema: The merge key of the elements.
        path: The JSON pointer into the patch, for errors.
        server: The list before the merge; None if it is ``present``.

    Raises:
        StrategicMergeError: ``order`` is not a list of elements, the list does not merge, or ``order`` contradicts
            ``named``.
    """
    key = schema.merge_key
    if key is None and not schema.primitive:
        raise StrategicMergeError(path, "orders a list that the patch can only replace: remove the order")

    def identify(element: JSON) -> Hashable:
        return identify_element(element, key, path)

    wanted = [identify(element) for element in _require_list(order, path)]
    _check_order([identify(element) for element in named], wanted, path)
    before = [identify(element) for element in (present if server is None else server)]
    ordered = order_elements(present, wanted=wanted, server=before, identify=identify)
    same = all(left is right for left, right in zip(ordered, present, strict=True))
    return present if same else ordered


def _check_order(named: Sequence[Hashable], wanted: Sequence[Hashable], path: str) -> None:
    remaining = iter(wanted)
    if not all(identity in remaining for identity in named):
        raise StrategicMergeError(path, "the elements of the patch are not in the order of its $setElementOrder")


def _require_list(value: JSON, path: str) -> list[JSON]:
    if not isinstance(value, list):
        raise StrategicMergeError(path, "must be a list")
    return value
