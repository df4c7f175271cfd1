"""Whether a text is what it should be: every ``isX`` is an ``x`` that raises nothing."""

from collections.abc import Callable


def can_parse(parse: Callable[[str], object], text: str) -> bool:
    """Return whether ``parse`` takes ``text`` without ValueError."""
    try:
        parse(text)
    except ValueError:
        return False
    return True
