"""Translates errors of cel-cpp to those of cel-go, which users of Kubernetes know and search for."""

import re
from typing import Final

_STATUS: Final = re.compile(r"\A[A-Z_]+: ")
_STATUS_AFTER: Final = re.compile(r" \[[A-Z_]+\]\Z")
_COMPILING: Final = ((re.compile(r"undefined field '([^']*)' not found in struct '[^']*'"), r"undefined field '\1'"),)
_EVALUATING: Final = (
    (re.compile(r'\AKey not found in map : "(.*)"\Z', re.DOTALL), r"no such key: \1"),
    (re.compile(r"\AKey not found in map : (.*)\Z", re.DOTALL), r"no such key: \1"),
    (re.compile(r"\AIndex error: index=(-?[0-9]+) size=.*\Z"), r"index out of bounds: \1"),
    (re.compile(r"\ANo matching overloads found : .*\Z", re.DOTALL), "no such overload"),
    (re.compile(r"\AApplying SELECT to non-message type\Z"), "no such overload"),
    (re.compile(r'\ANo value with name "(.*)" found in Activation\Z', re.DOTALL), r"no such attribute(s): \1"),
    # pybind11 reports a string with a lone surrogate like this.
    (re.compile(r"\Abasic_string: .*\Z", re.DOTALL), "a text is not valid UTF-8"),
    (re.compile(r"\Adivide by zero\Z"), "division by zero"),
    (re.compile(r"\AInteger value '(.*)' out of range .*\Z", re.DOTALL), r"integer out of range: \1"),
)


def strip_status(text: str) -> str:
    """Return an error without cel-cpp's status codes at its start and end."""
    return _STATUS_AFTER.sub("", _STATUS.sub("", text))


def translate_compile_error(text: str) -> str:
    """Return cel-go's text for a compile error of cel-cpp."""
    text = strip_status(text)
    for pattern, replacement in _COMPILING:
        text = pattern.sub(replacement, text)
    return text


def translate_evaluation_error(text: str) -> str:
    """Return cel-go's text for an evaluation error of cel-cpp."""
    text = strip_status(text)
    for pattern, replacement in _EVALUATING:
        if pattern.match(text):
            return pattern.sub(replacement, text)
    return text
