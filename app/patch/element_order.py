"""In which order the elements of a merged list stand (normalizeElementOrder of apimachinery's strategicpatch)."""

from collections.abc import Callable, Hashable, Sequence

from app.model.json import JSON

Identify = Callable[[JSON], Hashable]
"""Returns what an element is recognised by."""


def order_elements(
    merged: list[JSON], *, wanted: Sequence[Hashable], server: Sequence[Hashable], identify: Identify
) -> list[JSON]:
    """Return the elements of a merged list in their order.

    What the patch names stands in the order of the patch, everything else in the order of the server. The two are
    merged from the front, and an element that only the server has goes first only where it stood before the next
    one of the patch on the server: so an element that is new on the server goes in front of those it was not told
    about.

    Args:
        merged: The elements.
        wanted: What the elements of the patch are recognised by, in the order of the patch.
        server: The same of the list before it was merged.
        identify: How the elements are recognised.
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
