"""Likely mistakes in configurations that an apiserver accepts."""

import pytest

from fleethook.engines.dispatch.lint.configuration_warnings import (
    configuration_warnings,
)
from tests.engines.dispatch.lint.configuration_builders import (
    GROUP,
    rule,
    valid_webhook,
    webhook_configuration,
)


@pytest.mark.parametrize(
    ("resources", "texts"),
    [
        (["a", "*"], ["if '*' is present, must not specify other resources without subresources"]),
        (["a/x", "a/*"], ["if 'a/*' is present, must not specify a/x"]),
        (["x/a", "*/a"], ["if '*/a' is present, must not specify x/a"]),
        (["a/*", "a"], []),
        (["*", "a/b"], []),
        (["a/*", "a/x"], []),
    ],
)
def test_order_dependent_resources_are_warnings(resources: list[str], texts: list[str]) -> None:
    document = webhook_configuration(valid_webhook(rules=[rule(resources=resources)]))
    field = "webhooks[0].rules[0].resources"
    assert list(configuration_warnings(document)) == [f"{field}: accepted in this order only: {text}" for text in texts]


def test_rules_for_exempt_kinds_are_warnings() -> None:
    resources = ["validatingwebhookconfigurations", "mutatingadmissionpolicies/status", "*", "pods"]
    document = webhook_configuration(valid_webhook(rules=[rule(apiGroups=["", GROUP], resources=resources)]))
    exempt = "of admissionregistration.k8s.io: webhooks are never called for configurations of admission"
    field = "webhooks[0].rules[0].resources"
    assert [text for text in configuration_warnings(document) if "never called" in text] == [
        f'{field}: "{resource}" {exempt}' for resource in resources[:3]
    ]
    assert list(configuration_warnings(webhook_configuration(valid_webhook(rules=[rule()])))) == []


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"apiGroups": ["core"]}, 'apiGroups: the rule never matches: no API group is spelled like this (the group of pods is "")'),
        ({"apiGroups": ["Apps"]}, "apiGroups: the rule never matches: no API group is spelled like this"),
        ({"apiVersions": ["apps/v1"]}, "apiVersions: the rule never matches: no API version is spelled like this"),
        ({"resources": ["Pods", "Pods/status"]}, "resources: the rule never matches: resources are plurals in lower case"),
    ],
)  # fmt: skip
def test_rules_that_never_match_are_warnings(members: dict[str, list[str]], text: str) -> None:
    assert list(configuration_warnings(webhook_configuration(valid_webhook(rules=[rule(**members)])))) == [
        f"webhooks[0].rules[0].{text}"
    ]
    mixed = {member: [*values, "*"] for member, values in members.items()}
    assert [
        one
        for one in configuration_warnings(webhook_configuration(valid_webhook(rules=[rule(**mixed)])))
        if "never matches" in one
    ] == []


def test_invalid_bundles_and_reserved_names_are_warnings() -> None:
    reserved = (
        'metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based configurations and '
        "cannot be managed via the API"
    )
    unreadable = "Invalid value: unable to load root certificates: unable to parse bytes as PEM block"
    config = {"url": "https://a", "caBundle": "Zm9v"}
    assert list(
        configuration_warnings(webhook_configuration(valid_webhook(clientConfig=config), name="a.static.k8s.io"))
    ) == [reserved, f"webhooks[0].clientConfig.caBundle: every call will fail: {unreadable}"]
