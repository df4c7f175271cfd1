"""Validate names, label keys and label values (k8s.io/apimachinery/pkg/util/validation)."""

import re
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
MAX_LABEL: Final = 63
MAX_SUBDOMAIN: Final = 253


def is_dns1123_label(text: str) -> bool:
    """Return whether ``text`` is an RFC 1123 label, such as the name of a node pool or namespace."""
    return len(text) <= MAX_LABEL and _LABEL.fullmatch(text) is not None


def is_dns1123_subdomain(text: str) -> bool:
    """Return whether ``text`` is an RFC 1123 subdomain, such as the name of most objects."""
    return len(text) <= MAX_SUBDOMAIN and all(_LABEL.fullmatch(part) for part in text.split("."))


def label_key_problem(key: str) -> str | None:
    """Return the problem of a label key, None if it is valid."""
    prefix, separator, name = key.rpartition("/")
    if separator and not is_dns1123_subdomain(prefix):
        return f"the prefix {prefix!r} must be a lower case DNS subdomain"
    if len(name) > MAX_LABEL or not _QUALIFIED.fullmatch(name):
        return (
            f"the name {name!r} must have 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at its ends"
        )
    return None


def label_value_problem(value: str) -> str | None:
    """Return the problem of a label value, None if it is valid; an empty value is valid."""
    if value and (len(value) > MAX_LABEL or not _QUALIFIED.fullmatch(value)):
        return f"{value!r} must have at most 63 letters, digits, '-', '_' or '.', with a letter or digit at its ends"
    return None
