"""The common part of functions such as ``isIP`` and ``isSemver``: they report whether a string parses."""

from collections.abc import Callable


def can_parse(parse: Callable[[str], object], text: str) -> bool:
    """Return whether ``parse`` accepts ``text`` without a ValueError."""
    try:
        parse(text)
    except ValueError:
        return False
    return True
