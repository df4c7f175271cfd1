"""What is wrong with members that every kind of hook configuration has, in the words for it.

The words are those of an apiserver's field errors (k8s.io/apimachinery/pkg/util/validation/field, v0.36), so that
somebody who looks for a text finds what the world knows about it. Values of a wrong type, which an apiserver would not
even decode, are findings too: a manifest has been through no apiserver.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeGuard

from app.model.json import JSON, JSONObject

EVERY: Final = "*"
SCOPES: Final = ("*", "Cluster", "Namespaced")
FAILURE_POLICIES: Final = ("Fail", "Ignore")

MAX_PROBLEMS: Final = 100
"""Findings about one object. Nobody reads more, and an object of 8 MiB may have a million."""
MAX_SHOWN: Final = 1000
"""Characters of a text, or elements of a list, that a finding shows. An apiserver shows all."""
_LONGEST_TIMEOUT: Final = 30
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_LABEL: Final = 63
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


class Problem(NamedTuple):
    """One finding, in the words of an apiserver's field errors."""

    field: str
    text: str


def first_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return the first `MAX_PROBLEMS` findings, with one more that says so if there are others.

    The search for further ones ends there, so ``problems`` should be a generator.
    """
    found = list(islice(problems, MAX_PROBLEMS + 1))
    if len(found) > MAX_PROBLEMS:
        found[-1] = Problem(found[-1].field, f"Too many findings: only the first {MAX_PROBLEMS} are listed")
    return found


def required(field: str, detail: str = "") -> Problem:
    """Say that something is missing."""
    return Problem(field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: str | float | Sequence[str], detail: str) -> Problem:
    """Say what is wrong with a value, which is shown as JSON."""
    return Problem(field, f"Invalid value: {quoted(value)}: {detail}")


def mistyped(field: str, expected: str) -> Problem:
    """Say that a value has a wrong type; the value is not shown, it may be anything."""
    return Problem(field, f"Invalid value: must be {expected}")


def unsupported(field: str, value: str, supported: Sequence[str]) -> Problem:
    """Say that a value is none of those that there are."""
    known = ", ".join(quoted(one) for one in supported)
    return Problem(field, f"Unsupported value: {quoted(value)}: supported values: {known}")


def duplicate(field: str, value: str) -> Problem:
    """Say that a value is there twice."""
    return Problem(field, f"Duplicate value: {quoted(value)}")


def quoted(value: str | float | Sequence[str]) -> str:
    """Return a value as Go prints it in a finding, at most `MAX_SHOWN` of it and then an ellipsis."""
    if isinstance(value, str | Sequence) and len(value) > MAX_SHOWN:
        value = f"{value[:MAX_SHOWN]}…" if isinstance(value, str) else [*value[:MAX_SHOWN], "…"]
    if not isinstance(value, str | int | float):
        value = [f"{one[:MAX_SHOWN]}…" if len(one) > MAX_SHOWN else one for one in value]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_readable(text: str) -> bool:
    """Return whether a text is short enough to be searched for more mistakes than its length.

    A pattern takes up to 0.15 µs for a character, and no other request is answered meanwhile.
    """
    return len(text) <= MAX_SHOWN


def too_long(field: str, limit: int) -> Problem:
    """Say that a text has too many characters."""
    return Problem(field, f"Too long: must have at most {limit} characters")


def text_problem(value: JSON, field: str, *, limit: int) -> Problem | None:
    """Return the finding about a value that is not a string, or is longer than ``limit``; None about any other."""
    if not isinstance(value, str):
        return mistyped(field, "a string")
    return too_long(field, limit) if len(value) > limit else None


def is_integer(value: JSON) -> TypeGuard[int]:
    """Return whether a value is a JSON number without a fraction: Python takes a boolean for one."""
    return isinstance(value, int) and not isinstance(value, bool)


def subdomain_problems(text: str, *, unit: str = "characters") -> Iterator[str]:
    """Yield why a text is no DNS subdomain as RFC 1123 has it; upstream counts it in this unit here, in that there."""
    if len(text) > _LONGEST_SUBDOMAIN:
        yield f"must be no more than {_LONGEST_SUBDOMAIN} {unit}"
    if is_readable(text) and not _SUBDOMAIN.fullmatch(text):
        yield _SUBDOMAIN_TEXT


def name_problems(name: JSON, field: str, *, segments: int) -> Iterator[Problem]:
    """Yield what is wrong with a hook's name, a domain of so many segments or more."""
    if name is None or name == "":
        yield required(field)
    elif not isinstance(name, str):
        yield mistyped(field, "a string")
    elif texts := list(subdomain_problems(name)):
        yield invalid(field, name, ",".join(texts))
    elif name.count(".") < segments - 1:
        yield invalid(field, name, f"should be a domain with at least {_SEGMENTS[segments]} segments separated by dots")


def webhooks_problems(
    webhooks: JSON, check: Callable[[JSONObject, str], Iterator[Problem]], *, unique_names: bool = True
) -> Iterator[Problem]:
    """Yield the findings about the list of webhooks of a configuration, in the order of an apiserver.

    Args:
        webhooks: The list; None is an empty one.
        check: Yields the findings about one webhook, which is a JSON object, at a path.
        unique_names: Whether two webhooks of one name are a finding.
    """
    if webhooks is not None and not isinstance(webhooks, list):
        yield mistyped("webhooks", "a list")
        return
    seen: set[str] = set()
    for index, webhook in enumerate(webhooks or ()):
        field = f"webhooks[{index}]"
        if not isinstance(webhook, dict):
            yield mistyped(field, "an object")
            continue
        yield from check(webhook, field)
        name = webhook.get("name")
        if unique_names and isinstance(name, str) and name:
            if name in seen:
                yield duplicate(f"{field}.name", name)
            seen.add(name)


def choice_problems(value: JSON, field: str, supported: Sequence[str]) -> Iterator[Problem]:
    """Yield that an optional value is none of those that there are."""
    if value is None:
        return
    if not isinstance(value, str):
        yield mistyped(field, "a string")
    elif value not in supported:
        yield unsupported(field, value, supported)


def list_problems(names: JSON, field: str, what: str, *, empty_items: bool) -> Iterator[Problem]:
    """Yield what is wrong with a list of a rule: it has to name something, and ``*`` stands alone in it."""
    if names is None or names == []:
        yield required(field)
        return
    if not isinstance(names, list):
        yield mistyped(field, "a list")
        return
    if EVERY in names and len(names) > 1:
        yield invalid(field, texts_of(names), f"if '*' is present, must not specify other {what}")
    for index, name in enumerate(names):
        if not isinstance(name, str):
            yield mistyped(f"{field}[{index}]", "a string")
        elif not name and not empty_items:
            yield required(f"{field}[{index}]")


def texts_of(values: JSON) -> list[str]:
    """Return the texts of a list, none of anything else."""
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def timeout_problems(timeout: JSON, field: str) -> Iterator[Problem]:
    """Yield what is wrong with an optional number of seconds."""
    if timeout is None:
        return
    if not is_integer(timeout):
        yield mistyped(field, "an integer")
    elif not 1 <= timeout <= _LONGEST_TIMEOUT:
        yield invalid(field, timeout, "the timeout value must be between 1 and 30 seconds")


def version_problems(versions: JSON, field: str, known: Sequence[str], *, recognised: bool = True) -> Iterator[Problem]:
    """Yield what is wrong with the versions of a review that a hook takes.

    Args:
        versions: What is given.
        field: Where.
        known: The versions that are spoken here.
        recognised: Whether one of them has to be among those given.
    """
    if versions is None or versions == []:
        yield required(field, f"must specify one of {', '.join(known)}")
        return
    if not isinstance(versions, list):
        yield mistyped(field, "a list")
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        place = f"{field}[{index}]"
        if not isinstance(version, str):
            yield mistyped(place, "a string")
        elif version in seen:
            yield invalid(place, version, "duplicate version")
        else:
            seen.add(version)
            yield from (invalid(place, version, text) for text in _dns_1035_problems(version))
    if recognised and seen.isdisjoint(known):
        yield invalid(field, texts_of(versions), f"must include at least one of {', '.join(known)}")


def _dns_1035_problems(text: str) -> Iterator[str]:
    if len(text) > _LONGEST_LABEL:
        yield f"must be no more than {_LONGEST_LABEL} characters"
    if is_readable(text) and not _DNS_1035.fullmatch(text):
        yield _DNS_1035_TEXT
