"""The limit of digits of a number in a body: Python's time to read one grows with the square of its digits."""

from typing import Final

from app.api.body_limit import RequestError

MAX_DIGITS: Final = 309
"""Digits of a number in a large body. The largest number of Kubernetes' JSON, a double, has so many (1.8e308)."""

_DIGIT_OR_NOT: Final = bytes(ord("0") if chr(code) in "0123456789" else ord(" ") for code in range(256))
_TOO_LONG: Final = b"0" * (MAX_DIGITS + 1)


def check_numbers(body: bytes) -> None:
    """Refuse a body with a number of more than `MAX_DIGITS` digits in a row; raises RequestError.

    The limit does not apply to digits in strings. A body without such a row of digits takes a single search.
    """
    rows = body.translate(_DIGIT_OR_NOT)
    start = rows.find(_TOO_LONG)
    if start < 0:
        return
    # Of the same length, without the quotation marks that end no text.
    plain = body.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    seen, quotes = 0, 0
    while start >= 0:
        quotes += plain.count(b'"', seen, start)
        if quotes % 2 == 0:
            text = f"the body has a number of more than {MAX_DIGITS} digits, which no apiserver sends: use a string"
            raise RequestError(400, "BadRequest", text)
        seen = start
        end = rows.find(b" ", start)
        start = rows.find(_TOO_LONG, end) if end >= 0 else -1
