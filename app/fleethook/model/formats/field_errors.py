"""Field errors, and validation of the fields that all kinds of webhook configurations have.

The messages are those of kube-apiserver (k8s.io/apimachinery/pkg/util/validation/field, v0.36), so that users can
search for them. Values of a wrong type count as missing: the schema of the API finds them (`fleethook.api_schema`).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeGuard

from fleethook.model.json import JSON, JSONObject, as_text, enumerate_objects, list_texts

EVERY: Final = "*"
SCOPES: Final = ("*", "Cluster", "Namespaced")
FAILURE_POLICIES: Final = ("Fail", "Ignore")

MAX_PROBLEMS: Final = 100
"""Maximum field errors of one object; an object of 8 MiB may have a million."""
MAX_SHOWN: Final = 1000
"""Maximum characters of a text, or elements of a list, in a field error. kube-apiserver shows all."""
_MAX_TIMEOUT: Final = 30
MAX_SUBDOMAIN: Final = 253
MAX_LABEL: Final = 63
_SUBDOMAIN_FORM: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_FORM)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_FORM}')"
)
_DNS_1035_FORM: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS_1035: Final = re.compile(_DNS_1035_FORM)
_DNS_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_DNS_1035_FORM}')"
)
_SEGMENTS: Final = {2: "two", 3: "three"}


class FieldError(NamedTuple):
    """One field error, with the message of kube-apiserver."""

    field: str
    text: str


def first_problems(problems: Iterable[FieldError]) -> list[FieldError]:
    """Return the first `MAX_PROBLEMS` field errors, and one more that reports if there are others.

    ``problems`` should be a generator, because it is not consumed further.
    """
    found = list(islice(problems, MAX_PROBLEMS + 1))
    if len(found) > MAX_PROBLEMS:
        found[-1] = FieldError(found[-1].field, f"Too many findings: only the first {MAX_PROBLEMS} are listed")
    return found


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a missing value."""
    return FieldError(field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: str | float | Sequence[str], detail: str) -> FieldError:
    """Return the error of an invalid value, which is shown as JSON."""
    return FieldError(field, f"Invalid value: {quoted(value)}: {detail}")


def mistyped(field: str, expected: str) -> FieldError:
    """Return the error of a value with a wrong type; the value is not shown, because it may be large."""
    return FieldError(field, f"Invalid value: must be {expected}")


def unsupported(field: str, value: str, supported: Sequence[str]) -> FieldError:
    """Return the error of a value that is not supported."""
    known = ", ".join(quoted(one) for one in supported)
    return FieldError(field, f"Unsupported value: {quoted(value)}: supported values: {known}")


def duplicate(field: str, value: str) -> FieldError:
    """Return the error of a duplicate value."""
    return FieldError(field, f"Duplicate value: {quoted(value)}")


def quoted(value: str | float | Sequence[str]) -> str:
    """Return a value as Go prints it in a field error, cut to `MAX_SHOWN` with an ellipsis."""
    if isinstance(value, str | Sequence) and len(value) > MAX_SHOWN:
        value = f"{value[:MAX_SHOWN]}…" if isinstance(value, str) else [*value[:MAX_SHOWN], "…"]
    if not isinstance(value, str | int | float):
        value = [f"{one[:MAX_SHOWN]}…" if len(one) > MAX_SHOWN else one for one in value]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_readable(text: str) -> bool:
    """Return whether a text is short enough to be matched with a pattern.

    A pattern takes up to 0.15 µs per character, and blocks the event loop meanwhile.
    """
    return len(text) <= MAX_SHOWN


def too_long(field: str, limit: int) -> FieldError:
    """Return the error of a text with too many characters."""
    return FieldError(field, f"Too long: must have at most {limit} characters")


def is_integer(value: JSON) -> TypeGuard[int]:
    """Return whether a value is a JSON integer; in Python, a boolean is an int as well."""
    return isinstance(value, int) and not isinstance(value, bool)


def subdomain_problems(text: str, *, unit: str = "characters") -> Iterator[str]:
    """Yield the problems of an RFC 1123 subdomain. The word for the unit differs between fields upstream."""
    if len(text) > MAX_SUBDOMAIN:
        yield f"must be no more than {MAX_SUBDOMAIN} {unit}"
    if is_readable(text) and not _SUBDOMAIN.fullmatch(text):
        yield _SUBDOMAIN_TEXT


def name_problems(name: JSON, field: str, *, segments: int) -> Iterator[FieldError]:
    """Yield the problems of a webhook's name, a domain with at least ``segments`` segments."""
    text = as_text(name)
    if not text:
        yield required(field)
    elif texts := list(subdomain_problems(text)):
        yield invalid(field, text, ",".join(texts))
    elif text.count(".") < segments - 1:
        yield invalid(field, text, f"should be a domain with at least {_SEGMENTS[segments]} segments separated by dots")


def webhooks_problems(webhooks: JSON, check: Callable[[JSONObject, str], Iterator[FieldError]]) -> Iterator[FieldError]:
    """Yield the problems of the list of webhooks in a configuration, in the order of kube-apiserver.

    Args:
        webhooks: The list.
        check: Yields the problems of one webhook, a JSON object, at a path.
    """
    seen: set[str] = set()
    for index, webhook in enumerate_objects(webhooks):
        field = f"webhooks[{index}]"
        yield from check(webhook, field)
        if (name := as_text(webhook.get("name"))) in seen:
            yield duplicate(f"{field}.name", name)
        if name:
            seen.add(name)


def choice_problems(value: JSON, field: str, supported: Sequence[str]) -> Iterator[FieldError]:
    """Yield the problem of an optional value that is not supported."""
    if isinstance(value, str) and value not in supported:
        yield unsupported(field, value, supported)


def list_problems(names: JSON, field: str, what: str, *, empty_items: bool) -> Iterator[FieldError]:
    """Yield the problems of a list in a rule: it must not be empty, and ``*`` must be its only element."""
    texts = list_texts(names)
    if not texts:
        yield required(field)
    if EVERY in texts and len(texts) > 1:
        yield invalid(field, texts, f"if '*' is present, must not specify other {what}")
    for index, text in enumerate(texts):
        if not text and not empty_items:
            yield required(f"{field}[{index}]")


def timeout_problems(timeout: JSON, field: str) -> Iterator[FieldError]:
    """Yield the problems of optional ``timeoutSeconds``."""
    if is_integer(timeout) and not 1 <= timeout <= _MAX_TIMEOUT:
        yield invalid(field, timeout, "the timeout value must be between 1 and 30 seconds")


def version_problems(versions: JSON, field: str, known: Sequence[str]) -> Iterator[FieldError]:
    """Yield the problems of the review versions that a webhook accepts.

    Args:
        versions: The value of the field.
        field: The path of the field.
        known: The versions that this server supports; the list must contain one of them.
    """
    texts = list_texts(versions)
    if not texts:
        yield required(field, f"must specify one of {', '.join(known)}")
        return
    seen: set[str] = set()
    for index, version in enumerate(texts):
        place = f"{field}[{index}]"
        if version in seen:
            yield invalid(place, version, "duplicate version")
        else:
            seen.add(version)
            yield from (invalid(place, version, text) for text in _dns_1035_problems(version))
    if seen.isdisjoint(known):
        yield invalid(field, texts, f"must include at least one of {', '.join(known)}")


def _dns_1035_problems(text: str) -> Iterator[str]:
    if len(text) > MAX_LABEL:
        yield f"must be no more than {MAX_LABEL} characters"
    if is_readable(text) and not _DNS_1035.fullmatch(text):
        yield _DNS_1035_TEXT
