"""Tests of the namespaces that the webhook configurations exclude."""

import pytest

from fleethook.cluster.registration.exempt_namespaces import find_exempt_namespaces
from fleethook.cluster.registration.webhooks import service_of, webhook_configurations


@pytest.mark.parametrize("service", ["fleet/hook", "fleet/hook:8443"])
def test_the_namespace_of_the_service_is_exempt(service: str) -> None:
    assert find_exempt_namespaces(service) == ["fleet"]


@pytest.mark.parametrize("service", [None, ""])
def test_no_namespace_is_exempt_without_a_service(service: str | None) -> None:
    assert find_exempt_namespaces(service) == []


def test_each_webhook_excludes_the_namespace_of_its_server() -> None:
    exempt = find_exempt_namespaces("fleet/hook")
    configurations = webhook_configurations(service_of("fleet/hook"), exempt_namespaces=exempt)
    selectors = [one["namespaceSelector"] for each in configurations for one in each["webhooks"]]
    label = "kubernetes.io/metadata.name"
    assert selectors
    assert all(
        one == {"matchExpressions": [{"key": label, "operator": "NotIn", "values": ["fleet"]}]} for one in selectors
    )
