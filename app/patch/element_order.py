"""Orders the elements of a merged list (apimachinery, util/strategicpatch/patch.go: normalizeElementOrder)."""

from collections.abc import Callable, Hashable, Sequence

from app.model.json import JSON

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
