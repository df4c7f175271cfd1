"""Strategic merge patch, as k8s.io/apimachinery/pkg/util/strategicpatch applies it.

Accepted patches have upstream's result, with two exceptions:

- ``$patch: merge`` is accepted and has no effect. Upstream's design document names it, its code rejects it.
- New values never contain nulls, unless the caller keeps them, or directives. Upstream keeps some of them and drops
  them in its typed decoding.

More patches are rejected than upstream rejects:

- an element without its merge key, even in a new list
- an object in place of a list
- further members in a list element with ``$patch: replace`` (upstream then drops the list)
- unknown directives
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.merge_keys import MergeSchema
from fleethook.patch.diff import identical
from fleethook.patch.pointer_and_limits import StrategicMergeError, escape

Identify = Callable[[JSON], Hashable]
"""Returns the identity of an element, such as the value of its merge key."""


def order_elements(
    merged: list[JSON], *, order: Sequence[Hashable], server: Sequence[Hashable], identify: Identify
) -> list[JSON]:
    """Return the elements of a merged list in upstream's order.

    Elements of the patch keep the order of the patch, all others keep the order of the server's list. Both sequences
    are merged from the front. An element of the server comes first only if it preceded the next element of the patch
    in the server's list. An element that is new in the patch therefore precedes all remaining elements of the server.

    Args:
        merged: The elements.
        order: The identities of the patch's elements, in the order of the patch.
        server: The identities of the server's list before the merge.
        identify: Returns the identity of an element.
    """
    wanted_at, server_at = _first_positions(order), _first_positions(server)
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
    edits: Edits = Edits([], set(), any(as_object(element).get(_DIRECTIVE) == "replace" for element in patch))
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

    identities = [identify(element) for element in _require_list(order, path)]
    _check_order([identify(element) for element in named], identities, path)
    before = [identify(element) for element in (present if server is None else server)]
    ordered = order_elements(present, order=identities, server=before, identify=identify)
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


_RETAIN: Final = "$retainKeys"
_DELETE_PREFIX: Final = "$deleteFromPrimitiveList/"
_ORDER_PREFIX: Final = "$setElementOrder/"
_ATOMIC: Final = MergeSchema()
_DROPPED: Final = object()


def strategic_merge(original: JSON, patch: JSON, schema: MergeSchema, *, keeps_nulls: bool = False) -> JSON:
    """Return ``original`` with ``patch`` merged into it.

    Null deletes a member, and objects merge member by member. Lists with a merge key merge element by element, sets of
    scalars are united, other lists are replaced. In a merged list, elements of the patch keep the order of the patch
    or of its ``$setElementOrder``. Members without a schema merge by their JSON type.

    Args:
        original: The object. It stays unchanged and shares untouched branches with the result. A patch that changes
            nothing returns the object itself.
        patch: The patch, with upstream's directives ``$patch``, ``$retainKeys``, ``$deleteFromPrimitiveList/<member>``
            and ``$setElementOrder/<member>``.
        schema: The merge keys of the object.
        keeps_nulls: Whether new objects keep the nulls of the patch, as those of k8s.io/apimachinery v0.22 do. In a
            map, a typed decoder reads such a null as an empty value.

    Raises:
        StrategicMergeError: The patch does not apply; see the module's docstring for all reasons.
    """
    if not isinstance(original, dict) or not isinstance(patch, dict):
        raise StrategicMergeError("", "both the object and the patch must be JSON objects")
    try:
        return _merge_object(original, patch, schema=schema, path="", nulls=keeps_nulls)
    except RecursionError:
        raise StrategicMergeError("", "the object or the patch is nested too deeply") from None


def _merge_object(
    original: JSONObject, patch: JSONObject, *, schema: MergeSchema, path: str, nulls: bool
) -> JSONObject:
    action = _read_action(patch, path)
    if action == "delete":
        return {} if original else original
    if action == "replace":
        replaced = _clean_new_object(patch, schema, path, nulls=nulls)
        return original if identical(original, replaced) else replaced
    result = dict(original)
    if _RETAIN in patch:
        _apply_retain_keys(result, patch, path)
    for name, value in patch.items():
        if not _is_directive(name, path):
            order = patch.get(_ORDER_PREFIX + name)
            child = schema.fields.get(name, _ATOMIC)
            place = f"{path}/{escape(name)}"
            _merge_member(result, name, value, order=order, schema=child, path=place, nulls=nulls)
    _order_unpatched_lists(result, patch, schema, path)
    # Upstream deletes from lists of scalars after it has merged them.
    for name, value in patch.items():
        if name.startswith(_DELETE_PREFIX):
            delete_scalars(result, name.removeprefix(_DELETE_PREFIX), value, path=f"{path}/{escape(name)}")
    same = len(result) == len(original) and all(original.get(name, _DROPPED) is value for name, value in result.items())
    return original if same else result


def _is_directive(name: str, path: str) -> bool:
    if not name.startswith("$"):
        return False
    if name not in (_DIRECTIVE, _RETAIN) and not name.startswith((_DELETE_PREFIX, _ORDER_PREFIX)):
        raise StrategicMergeError(f"{path}/{escape(name)}", "is an unknown directive")
    return True


def _read_action(patch: JSONObject, path: str) -> str:
    action = patch.get(_DIRECTIVE, "merge")
    if action not in ("delete", "replace", "merge"):
        raise StrategicMergeError(f"{path}/{_DIRECTIVE}", f"must be delete, replace or merge, not {action!r}")
    return str(action)


def _apply_retain_keys(result: JSONObject, patch: JSONObject, path: str) -> None:
    place, retained = f"{path}/{_RETAIN}", patch[_RETAIN]
    if not isinstance(retained, list):
        raise StrategicMergeError(place, "must be a list")
    for name, value in patch.items():
        if value is not None and not _is_directive(name, path) and name not in retained:
            raise StrategicMergeError(place, f"must name {name!r}, which the patch sets")
    for name in [name for name in result if name not in retained]:
        del result[name]


def _order_unpatched_lists(result: JSONObject, patch: JSONObject, schema: MergeSchema, path: str) -> None:
    """Order lists for which the patch has a ``$setElementOrder`` and no elements."""
    for directive, order in patch.items():
        name = directive.removeprefix(_ORDER_PREFIX)
        if directive.startswith(_ORDER_PREFIX) and name not in patch and isinstance(result.get(name), list):
            place = f"{path}/{escape(directive)}"
            child = schema.fields.get(name, _ATOMIC)
            result[name] = order_list(result[name], order, named=(), schema=child, path=place)


def _merge_member(
    result: JSONObject, name: str, value: JSON, *, order: JSON, schema: MergeSchema, path: str, nulls: bool
) -> None:
    present = result.get(name)
    if value is None:
        merged: JSON = _DROPPED
    elif present is None:
        merged = _clean_new_value(value, schema, path, nulls=nulls)
        if order is not None and isinstance(merged, list):
            merged = order_list(merged, order, named=merged, schema=schema, path=path)
    elif type(present) is not type(value) and isinstance(value, dict | list) | isinstance(present, dict | list):
        raise StrategicMergeError(
            path, f"the patch has {_describe_type(value)} where the object has {_describe_type(present)}"
        )
    elif isinstance(value, dict):
        merged = _merge_object(present, value, schema=schema, path=path, nulls=nulls)
    elif isinstance(value, list):
        merged = _merge_list(present, value, order=order, schema=schema, path=path, nulls=nulls)
    else:
        merged = present if identical(present, value) else value
    if merged is _DROPPED:
        result.pop(name, None)
    else:
        result[name] = merged


def _describe_type(value: JSON) -> str:
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a scalar"


def _merge_list(
    original: list[JSON], patch: list[JSON], *, order: JSON, schema: MergeSchema, path: str, nulls: bool
) -> list[JSON]:
    merged: list[JSON]
    if schema.primitive:
        merged = merge_scalars(original, patch, order=order, path=path)
    elif schema.merge_key is None:
        merged = _clean_new_value(patch, schema, path, nulls=nulls)
    else:
        merged = _merge_elements(original, patch, order=order, schema=schema, path=path, nulls=nulls)
    return original if identical(original, merged) else merged


def _merge_elements(
    original: list[JSON], patch: list[JSON], *, order: JSON, schema: MergeSchema, path: str, nulls: bool
) -> list[JSON]:
    key = schema.merge_key or ""
    edits = parse_edits(patch, key, path)
    merged = [] if edits.replace else drop_deleted(original, key, deleted=edits.deleted, path=path)
    positions = {identify_element(element, key, path): at for at, element in reversed(list(enumerate(merged)))}
    for identity, place, element in edits.upserts:
        position = positions.get(identity)
        if edits.replace or position is None:
            positions.setdefault(identity, len(merged))
            merged.append(_clean_new_object(element, schema, place, nulls=nulls))
        else:
            merged[position] = _merge_object(merged[position], element, schema=schema, path=place, nulls=nulls)
    named = [element for _, _, element in edits.upserts]
    if order is None or edits.replace:
        wanted = named if order is None else order
        return order_list(merged, wanted, named=named, schema=schema, path=path, server=original)
    # Upstream deletes and appends in the array of the server's list. Thereby new elements get the places of deleted
    # ones, and upstream takes that array for the server's order (patch.go: mergePatchIntoOriginal).
    server = merged[: len(original)]
    return order_list(merged, order, named=named, schema=schema, path=path, server=server)


def _clean_new_value(value: JSON, schema: MergeSchema, path: str, *, nulls: bool) -> JSON:
    """Return a new value without nulls and directives, or _DROPPED for an object with ``$patch``."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            _read_action(value, path)
            return _DROPPED
        return _clean_new_object(value, schema, path, nulls=nulls)
    if not isinstance(value, list):
        return value
    fresh: list[JSON] = []
    for number, element in enumerate(value):
        kept = _clean_new_value(element, schema, f"{path}/{number}", nulls=nulls)
        if kept is not _DROPPED:
            if schema.merge_key is not None:
                identify_element(kept, schema.merge_key, f"{path}/{number}")
            fresh.append(kept)
    return fresh


def _clean_new_object(value: JSONObject, schema: MergeSchema, path: str, *, nulls: bool) -> JSONObject:
    fresh: JSONObject = {}
    for name, inner in value.items():
        if (inner is None and not nulls) or _is_directive(name, path):
            continue
        kept = _clean_new_value(inner, schema.fields.get(name, _ATOMIC), f"{path}/{escape(name)}", nulls=nulls)
        if kept is not _DROPPED:
            fresh[name] = kept
    return fresh


def merge_patch(target: JSON, patch: JSON) -> JSON:
    """Return ``target`` merged with ``patch``; null removes a member. Both arguments stay unchanged."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
