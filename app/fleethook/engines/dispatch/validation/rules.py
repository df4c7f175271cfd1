"""Validates the rules of webhooks (upstream: kubernetes v1.36, pkg/apis/admissionregistration/validation)."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from fleethook.model.formats.field_errors import (
    EVERY,
    SCOPES,
    Problem,
    choice_problems,
    invalid,
    list_problems,
    mistyped,
    required,
    texts_of,
)
from fleethook.model.json import JSON

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_EVERYTHING: Final = "*/*"


def rules_problems(rules: JSON, field: str) -> Iterator[Problem]:
    """Yield the errors of a webhook's rules, None for no rules."""
    if rules is not None and not isinstance(rules, list):
        yield mistyped(field, "a list")
        return
    for index, rule in enumerate(rules or ()):
        place = f"{field}[{index}]"
        if isinstance(rule, dict):
            yield from _rule_problems(rule, place)
        else:
            yield mistyped(place, "an object")


def _rule_problems(rule: dict[str, JSON], field: str) -> Iterator[Problem]:
    operations, resources = rule.get("operations"), rule.get("resources")
    yield from list_problems(operations, f"{field}.operations", "operations", empty_items=True)
    for index, operation in enumerate(operations if isinstance(operations, list) else ()):
        if isinstance(operation, str):
            yield from choice_problems(operation, f"{field}.operations[{index}]", _OPERATIONS)
    yield from list_problems(rule.get("apiGroups"), f"{field}.apiGroups", "API groups", empty_items=True)
    yield from list_problems(rule.get("apiVersions"), f"{field}.apiVersions", "API versions", empty_items=False)
    if resources is not None and not isinstance(resources, list):
        yield mistyped(f"{field}.resources", "a list")
    else:
        yield from resource_problems(resources or (), f"{field}.resources")
    yield from choice_problems(rule.get("scope"), f"{field}.scope", SCOPES)


def resource_problems(resources: Sequence[JSON], field: str) -> Iterator[Problem]:
    """Yield the errors of a rule's resources.

    As upstream, the order counts: a wildcard conflicts with later resources, not with earlier ones.
    """
    if not resources:
        yield required(field)
    before: set[str] = set()
    for index, resource in enumerate(resources):
        if not isinstance(resource, str):
            yield mistyped(f"{field}[{index}]", "a string")
        elif not resource:
            yield required(f"{field}[{index}]")
        else:
            yield from _overlap_problems(resource, before, f"{field}[{index}]")
            before.add(resource)
    named = texts_of(resources)
    if len(resources) > 1 and _EVERYTHING in named:
        yield invalid(field, named, "if '*/*' is present, must not specify other resources")
    plurals = [resource for resource in named if resource and "/" not in resource]
    # Upstream only checks whether the last of them is the wildcard.
    if EVERY in plurals and plurals[-1] != EVERY:
        yield invalid(field, named, "if '*' is present, must not specify other resources without subresources")


def _overlap_problems(resource: str, before: Collection[str], field: str) -> Iterator[Problem]:
    main, slash, sub = resource.partition("/")
    if not slash:
        return
    for wildcard in (f"{main}/*", f"*/{sub}"):
        if wildcard in before:
            yield invalid(field, resource, f"if '{wildcard}' is present, must not specify {resource}")
