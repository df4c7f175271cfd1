"""Warns of likely mistakes in webhook configurations that an apiserver accepts."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from fleethook.engines.dispatch.hooks.hooks import GROUP
from fleethook.engines.dispatch.lint.configuration_validation import (
    resource_problems,
    static_name_warning,
)
from fleethook.model.formats.field_errors import (
    EVERY,
    subdomain_problems,
)
from fleethook.model.json import JSON, JSONObject, as_object, list_texts
from fleethook.outbound.tls.trust import bundle_problems, list_skipped

_EXEMPT: Final = frozenset(
    {
        "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
        "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
    }
)  # fmt: skip
_VERSION: Final = re.compile(r"\*|[a-z]([-a-z0-9]*[a-z0-9])?")
_RESOURCE: Final = re.compile(r"\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def configuration_warnings(configuration: JSONObject) -> Iterator[str]:
    """Yield warnings about a configuration, each with its field; members may have any type."""
    yield from static_name_warning(configuration.get("metadata"))
    webhooks = configuration.get("webhooks")
    for index, webhook in enumerate(webhooks if isinstance(webhooks, list) else ()):
        members, field = as_object(webhook), f"webhooks[{index}]"
        bundle = as_object(members.get("clientConfig")).get("caBundle")
        for problem in bundle_problems(bundle, f"{field}.clientConfig.caBundle"):
            yield f"{problem.field}: every call will fail: {problem.text}"
        for text in list_skipped(bundle):
            yield f"{field}.clientConfig.caBundle: {text}; it is not used, and the others are"
        rules = members.get("rules")
        for position, rule in enumerate(rules if isinstance(rules, list) else ()):
            yield from _rule_warnings(as_object(rule), f"{field}.rules[{position}]")


def _rule_warnings(rule: JSON, field: str) -> Iterator[str]:
    groups, versions = list_texts(rule.get("apiGroups")), list_texts(rule.get("apiVersions"))
    resources = list_texts(rule.get("resources"))
    yield from _order_warnings(resources, f"{field}.resources")
    yield from _exempt_warnings(groups, resources, f"{field}.resources")
    if groups and not any(_is_group(group) for group in groups):
        hint = ' (the group of pods is "")' if "core" in groups else ""
        yield f"{field}.apiGroups: the rule never matches: no API group is spelled like this{hint}"
    if versions and not any(_VERSION.fullmatch(version) for version in versions):
        yield f"{field}.apiVersions: the rule never matches: no API version is spelled like this"
    if resources and not any(_RESOURCE.fullmatch(resource.partition("/")[0]) for resource in resources):
        yield f"{field}.resources: the rule never matches: resources are plurals in lower case"


def _is_group(group: str) -> bool:
    # A group of "core" would be a name without a dot, which only an aggregated API could have.
    return group in ("", EVERY) or (group != "core" and not list(subdomain_problems(group)))


def _order_warnings(resources: Sequence[str], field: str) -> Iterator[str]:
    """Yield the errors that the resources would have with the wildcards first."""
    if any(resource_problems(resources, field)):
        return
    for problem in resource_problems(sorted(resources, key=lambda resource: EVERY not in resource), field):
        yield f"{field}: accepted in this order only: {problem.text.rpartition(': ')[2]}"


def _exempt_warnings(groups: Sequence[str], resources: Sequence[str], field: str) -> Iterator[str]:
    if GROUP not in groups:
        return
    for resource in resources:
        if resource.partition("/")[0] in _EXEMPT | {EVERY}:
            yield f'{field}: "{resource}" of {GROUP}: webhooks are never called for configurations of admission'
