"""The requests of `fleethook doctor`, to an apiserver in memory; tests/e2e/test_doctor.py asks a real one."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from fleethook.cli.doctor.doctor_checks import Diagnosis, find_registered
from fleethook.cli.doctor.doctor_cluster import Doctor, ServiceName, check_service, find_services
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import Connection
from fleethook.cluster.registration.configuration_objects import ServiceReference, URLReference, webhook_configurations
from tests.apiserver_rules import check_created, check_review, unserved

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


CORE = "/api/v1/namespaces/system"


class Apiserver:
    """Answers requests by method and path; other paths do not exist."""

    def __init__(self, *, ahead: timedelta = timedelta()) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        mutating, validating = webhook_configurations(
            ServiceReference("system", "fleethook"), exempt_namespaces=["system"], selecting=False
        )
        base = "/apis/admissionregistration.k8s.io/v1"
        stamp = (datetime.now(UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.answers: dict[tuple[str, str], Any] = {
            ("GET", "/version"): {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
            ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"): {"metadata": {"creationTimestamp": stamp}},
            ("GET", f"{base}/mutatingwebhookconfigurations"): {"items": [mutating]},
            ("GET", f"{base}/validatingwebhookconfigurations"): {"items": [validating]},
            ("GET", f"{CORE}/services/fleethook"): {"spec": {"ports": [{"port": 443}], "selector": {"app": "a", "b": "c"}}},
            ("GET", "/apis/discovery.k8s.io/v1/namespaces/system/endpointslices"): {"items": []},
            ("GET", f"{CORE}/pods"): {"items": [{"metadata": {"namespace": "system"}, "spec": {"serviceAccountName": "sa"}}]},
            ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"): {"status": {"allowed": True}},
        }  # fmt: skip

    async def json(self, method: str, path: str, **rest: Any) -> Any:
        self.requests.append((method, path, rest))
        if path.endswith("reviews"):
            check_review(path, rest["body"])
        if method == "POST" and not path.endswith("reviews"):
            check_created(path, rest["body"])
        answer = self.answers.get((method, path), unserved(path))
        if isinstance(answer, APIError):
            raise answer
        return answer

    request = json

    async def examine(self, *, account: str | None = None) -> dict[str, list[Diagnosis]]:
        found: dict[str, list[Diagnosis]] = {}
        async for one in Doctor(cast("Connection", self), namespace="team", account=account).examine():
            found.setdefault(one.check, []).append(one)
        return found


async def test_the_rights_of_the_accounts_behind_the_service_are_asked_for() -> None:
    apiserver = Apiserver()
    found = await apiserver.examine()
    assert [one.text.partition(" has ")[0] for one in found["rights"]] == ["the service account system/sa"]
    asked = [rest["body"]["spec"] for _, path, rest in apiserver.requests if path.endswith("subjectaccessreviews")]
    assert {one["user"] for one in asked} == {"system:serviceaccount:system:sa"}
    (pods,) = [rest for _, path, rest in apiserver.requests if path.endswith("/pods")]
    assert pods == {"query": {"labelSelector": "app=a,b=c"}}


async def test_a_given_account_replaces_those_of_the_pods() -> None:
    apiserver = Apiserver()
    found = await apiserver.examine(account="other/name")
    assert [one.text.partition(" has ")[0] for one in found["rights"]] == ["the service account other/name"]
    assert [path for _, path, _ in apiserver.requests if path.endswith("/pods")] == []


async def test_every_object_is_created_as_a_dry_run() -> None:
    apiserver = Apiserver()
    await apiserver.examine()
    reviews = ("selfsubjectreviews", "subjectaccessreviews")
    created = [
        (path, rest) for method, path, rest in apiserver.requests if method != "GET" and not path.endswith(reviews)
    ]
    assert len(created) == 3
    assert [path for path, rest in created if rest["query"] != {"dryRun": "All"}] == []


async def test_a_check_without_the_right_is_unknown() -> None:
    apiserver = Apiserver()
    apiserver.answers["GET", f"{CORE}/services/fleethook"] = APIError(403, "Forbidden", "services is forbidden")
    found = await apiserver.examine()
    assert [(one.level, one.text) for one in found["service"]] == [("unknown", "not examined: services is forbidden")]
    assert [one.level for one in found["rights"]] == ["note"]


async def test_another_error_of_the_apiserver_is_not_hidden() -> None:
    apiserver = Apiserver()
    apiserver.answers["GET", f"{CORE}/services/fleethook"] = APIError(500, "InternalError", "etcd is gone")
    with pytest.raises(APIError, match="etcd is gone"):
        await apiserver.examine()


@pytest.mark.parametrize(("hours", "level"), [(0, "ok"), (2, "warning"), (-2, "warning")])
async def test_the_clock_of_the_apiserver_is_compared(hours: int, level: str) -> None:
    found = await Apiserver(ahead=timedelta(hours=hours)).examine()
    assert [one.level for one in found["clock"]] == [level]
