"""How Kubernetes spells names, labels and label values (k8s.io/apimachinery/pkg/util/validation)."""

import re
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253


def is_dns1123_label(text: str) -> bool:
    """Return whether ``text`` is a DNS label as RFC 1123 has it: a node pool's name, a namespace."""
    return len(text) <= _LONGEST_LABEL and _LABEL.fullmatch(text) is not None


def is_dns1123_subdomain(text: str) -> bool:
    """Return whether ``text`` is a DNS subdomain as RFC 1123 has it: most objects' names."""
    return len(text) <= _LONGEST_SUBDOMAIN and all(_LABEL.fullmatch(part) for part in text.split("."))


def label_key_problem(key: str) -> str | None:
    """Return what is wrong with a label key, None if nothing is."""
    prefix, separator, name = key.rpartition("/")
    if separator and not is_dns1123_subdomain(prefix):
        return f"the prefix {prefix!r} must be a lower case DNS subdomain"
    if len(name) > _LONGEST_LABEL or not _QUALIFIED.fullmatch(name):
        return (
            f"the name {name!r} must have 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at its ends"
        )
    return None


def label_value_problem(value: str) -> str | None:
    """Return what is wrong with a label value, None if nothing is; an empty one is fine."""
    if value and (len(value) > _LONGEST_LABEL or not _QUALIFIED.fullmatch(value)):
        return f"{value!r} must have at most 63 letters, digits, '-', '_' or '.', with a letter or digit at its ends"
    return None
