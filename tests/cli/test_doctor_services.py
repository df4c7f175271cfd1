from typing import Any

import pytest

from app.cli.doctor_findings import find_registered
from app.cli.doctor_services import ServiceName, check_service, find_accounts, find_services
from app.registration.webhooks import ServiceReference, URLReference, webhook_configurations

NAME = ServiceName("system", "fleethook", 443)
SERVICE: dict[str, Any] = {"spec": {"ports": [{"port": 443}]}}
READY = {"endpoints": [{"addresses": ["a", "b"], "conditions": {"ready": True}}, {"addresses": ["c"]}]}
UNREADY = {"endpoints": [{"addresses": ["a"], "conditions": {"ready": False}}]}


def test_the_services_of_all_webhooks_are_found_once() -> None:
    assert find_services(find_registered(webhook_configurations(ServiceReference("system", "fleethook")))) == [NAME]
    assert find_services(find_registered(webhook_configurations(URLReference("https://a")))) == []


@pytest.mark.parametrize(
    ("service", "slices", "level", "text"),
    [
        (SERVICE, [READY, UNREADY], "ok", "the Service system/fleethook has 3 ready endpoints"),
        (SERVICE, [UNREADY], "error", "the Service system/fleethook has no ready endpoint"),
        (SERVICE, [], "error", "the Service system/fleethook has no ready endpoint"),
        (
            {"spec": {"ports": [{"port": 8443}]}},
            [READY],
            "error",
            "the webhooks name port 443 of the Service system/fleethook, which has 8443",
        ),
        (None, [], "error", "the Service system/fleethook of the webhooks does not exist"),
    ],
)
def test_a_service_needs_the_port_and_a_ready_endpoint(
    service: dict[str, Any] | None, slices: list[dict[str, Any]], level: str, text: str
) -> None:
    found = check_service(NAME, service, slices)
    assert (found.level, found.text, bool(found.remedy)) == (level, text, level != "ok")


def test_the_accounts_of_pods_are_found() -> None:
    pods: list[dict[str, Any]] = [
        {"metadata": {"namespace": "s"}, "spec": {"serviceAccountName": "fleethook"}},
        {"metadata": {"namespace": "s"}, "spec": {"serviceAccountName": "fleethook"}},
        {"metadata": {"namespace": "s"}, "spec": {}},
    ]
    assert find_accounts(pods) == {"s/fleethook", "s/default"}
