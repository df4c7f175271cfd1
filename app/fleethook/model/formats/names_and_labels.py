"""Validate names, label keys and label values, and compile and validate label selectors.

Sources: k8s.io/apimachinery, pkg/util/validation and pkg/labels. The messages are those of kube-apiserver.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from fleethook.model.formats.field_errors import (
    MAX_LABEL,
    FieldError,
    invalid,
    is_readable,
    mistyped,
    quoted,
    required,
    subdomain_problems,
)
from fleethook.model.json import JSON, as_object

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""The label with its name, which kube-apiserver gives to each Namespace."""


def is_dns1123_label(text: str) -> bool:
    """Return whether ``text`` is an RFC 1123 label, such as the name of a node pool or namespace."""
    return len(text) <= MAX_LABEL and _LABEL.fullmatch(text) is not None


def is_dns1123_subdomain(text: str) -> bool:
    """Return whether ``text`` is an RFC 1123 subdomain, such as the name of most objects."""
    return not any(subdomain_problems(text))


_KEY_FORM: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY: Final = re.compile(_KEY_FORM)
_KEY_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY_FORM}')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'({_KEY_FORM})?')"
)


def label_key_problems(key: str) -> Iterator[str]:
    """Yield the errors of a label key, a qualified name in Kubernetes' terms."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        yield f"a valid label key {_KEY_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {text}" for text in subdomain_problems(prefix, unit="bytes"))
    if not name:
        yield "name part must be non-empty"
    elif _count_bytes(name) > MAX_LABEL:
        yield f"name part must be no more than {MAX_LABEL} bytes"
    if is_readable(name) and not _KEY.fullmatch(name):
        yield f"name part {_KEY_TEXT}"


def label_value_problems(value: str) -> Iterator[str]:
    """Yield the errors of a label value; it may be empty."""
    if _count_bytes(value) > MAX_LABEL:
        yield f"must be no more than {MAX_LABEL} bytes"
    if value and is_readable(value) and not _KEY.fullmatch(value):
        yield _VALUE_TEXT


def label_key_problem(key: str) -> str | None:
    """Return a label key with its first error, None if it is valid."""
    return next((f"{key!r}: {text}" for text in label_key_problems(key)), None)


def label_value_problem(value: str) -> str | None:
    """Return a label value with its first error, None if it is valid."""
    return next((f"{value!r}: {text}" for text in label_value_problems(value)), None)


def _count_bytes(text: str) -> int:
    # UTF-8 cannot encode a lone surrogate, which a manifest may contain.
    return len(text.encode(errors="replace"))


def read_labels(document: JSON) -> Mapping[str, str]:
    """Return an object's labels; values that are not strings are ignored."""
    labels = as_object(as_object(as_object(document).get("metadata")).get("labels"))
    return {name: value for name, value in labels.items() if isinstance(value, str)}


def labels_problems(labels: JSON, field: str) -> Iterator[FieldError]:
    """Yield the errors of a map of labels."""
    if labels is None:
        return
    if not isinstance(labels, dict):
        yield mistyped(field, "an object")
        return
    for key, value in labels.items():
        yield from (invalid(field, str(key), text) for text in label_key_problems(str(key)))
        if isinstance(value, str):
            yield from (invalid(field, value, text) for text in label_value_problems(value))
        elif value is not None:
            yield mistyped(field, f"an object of strings: quote the value of {quoted(str(key))}")


def selector_problems(selector: JSON, field: str) -> Iterator[FieldError]:
    """Yield the errors of a label selector."""
    if selector is None:
        return
    if not isinstance(selector, dict):
        yield mistyped(field, "an object")
        return
    yield from labels_problems(selector.get("matchLabels"), f"{field}.matchLabels")
    requirements = selector.get("matchExpressions")
    if requirements is not None and not isinstance(requirements, list):
        yield mistyped(f"{field}.matchExpressions", "a list")
        return
    for index, requirement in enumerate(requirements or ()):
        yield from _requirement_problems(requirement, f"{field}.matchExpressions[{index}]")


def _requirement_problems(requirement: JSON, field: str) -> Iterator[FieldError]:
    if not isinstance(requirement, dict):
        yield mistyped(field, "an object")
        return
    values = requirement.get("values")
    if values is not None and not isinstance(values, list):
        yield mistyped(f"{field}.values", "a list")
        values = None
    yield from _operator_problems(requirement.get("operator"), field, with_values=bool(values))
    key = requirement.get("key")
    if key is None or isinstance(key, str):
        yield from (invalid(f"{field}.key", key or "", text) for text in label_key_problems(key or ""))
    else:
        yield mistyped(f"{field}.key", "a string")
    for index, value in enumerate(values or ()):
        if not isinstance(value, str):
            yield mistyped(f"{field}.values[{index}]", "a string")
        else:
            yield from (invalid(f"{field}.values[{index}]", value, text) for text in label_value_problems(value))


def _operator_problems(operator: JSON, field: str, *, with_values: bool) -> Iterator[FieldError]:
    if operator is not None and not isinstance(operator, str):
        yield mistyped(f"{field}.operator", "a string")
    elif operator in _WITH_VALUES:
        if not with_values:
            yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _WITHOUT_VALUES:
        if with_values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield FieldError(f"{field}.values", f"Forbidden: {text}")
    else:
        yield invalid(f"{field}.operator", operator or "", "not a valid selector operator")


Selects = Callable[[Mapping[str, str]], bool]

_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")


def compile_selector(selector: JSON) -> Selects:
    """Return a function that returns whether a selector selects a set of labels.

    As in ``metav1.LabelSelectorAsSelector``, a missing selector selects nothing and an empty one everything. A selector
    with a field of a wrong type, or with a requirement that `validate_selector` refuses, selects nothing.
    """
    if not isinstance(selector, dict):
        return lambda _labels: False
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(wanted, dict) or not isinstance(expressions, list):
        return lambda _labels: False
    tests = [_compile_requirement(requirement) for requirement in expressions]

    def selects(labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in wanted.items()) and all(test(labels) for test in tests)

    return selects


def _compile_requirement(requirement: JSON) -> Selects:
    members = as_object(requirement)
    key, operator, given = members.get("key"), members.get("operator"), members.get("values") or []
    if not isinstance(key, str) or not isinstance(given, list):
        return lambda _labels: False
    values = frozenset(value for value in given if isinstance(value, str))
    if operator == "In":
        return lambda labels: _has_one_of(labels, key, values)
    if operator == "NotIn":
        # NotIn also selects objects without the label.
        return lambda labels: not _has_one_of(labels, key, values)
    if operator == "Exists":
        return lambda labels: key in labels
    if operator == "DoesNotExist":
        return lambda labels: key not in labels
    return lambda _labels: False


def _has_one_of(labels: Mapping[str, JSON], key: str, values: frozenset[str]) -> bool:
    """Return whether a label has one of some values; in unvalidated objects, the value may be of any type."""
    value = labels.get(key)
    return isinstance(value, str) and value in values


def validate_selector(selector: JSON, path: str) -> Iterator[tuple[str, str]]:
    """Yield the errors of a selector that is present: a JSON pointer that starts with ``path``, and a message."""
    if selector is None:
        yield path, "must be an object"
    for problem in selector_problems(selector, ""):
        yield path + problem.field.replace("[", "/").replace("]", "").replace(".", "/"), problem.text
