"""Count the values of a document, up to a limit."""

from fleethook.model.json import JSON


def count_values(document: JSON, *, limit: int) -> int:
    """Return the number of values in a document; counting stops soon after ``limit``.

    Args:
        document: Decoded JSON.
        limit: The number above which the exact count is irrelevant.
    """
    count, waiting = 1, [document]
    while waiting and count <= limit:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        count += len(inner)
        if count <= limit:
            waiting += inner
    return count
