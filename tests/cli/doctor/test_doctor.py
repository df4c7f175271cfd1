"""The options of ``fleethook doctor``, and clusters that it cannot read."""

from pathlib import Path
from typing import Any, cast

import pytest

from fleethook.cli.doctor.doctor import (
    Doctor,
    ServiceName,
    check_service,
    check_version,
    find_services,
    judge_consumers,
    judge_rights,
    list_rights,
)
from fleethook.cli.doctor.registered_webhooks import Diagnosis, find_registered
from fleethook.cli.inputs.cluster_reader import Right
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.registration.webhook_configurations import ServiceReference, URLReference, webhook_configurations
from tests.apiserver_rules import check_created, check_review, unserved
from tests.cli.commands import invoke
from tests.cli.fake_cluster import Cluster
from tests.e2e.fleet import RULES
from tests.kcp_export import make_binding


def doctor(*arguments: str, **environment: str) -> tuple[int, str, str]:
    result = invoke(["doctor", *arguments], env=environment)
    return result.exit_code, result.stdout, result.stderr


def test_without_a_kubeconfig_the_command_names_the_options(tmp_path: Path) -> None:
    code, out, err = doctor(HOME=str(tmp_path), KUBECONFIG="")
    where = f"$KUBECONFIG is not set, and there is no file {tmp_path}/.kube/config"
    assert (code, out) == (2, "")
    assert err == f"fleethook: there is no kubeconfig: {where}; give --kubeconfig FILE or --in-cluster\n"


def test_the_environment_names_the_kubeconfig(tmp_path: Path) -> None:
    code, _, err = doctor(HOME=str(tmp_path), KUBECONFIG=str(tmp_path / "nowhere"))
    assert code == 2
    assert str(tmp_path / "nowhere") in err


def test_an_apiserver_that_cannot_be_read_exits_2(cluster: tuple[Cluster, tuple[str, ...]]) -> None:
    code, out, err = doctor(*cluster[1])
    assert (code, out) == (2, "")
    assert err.startswith("fleethook: cannot examine the cluster, so nothing is known about an outage: ")


CORE = "/api/v1/namespaces/system"


class Apiserver:
    """Answers requests by method and path; other paths do not exist."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        mutating, validating = webhook_configurations(
            ServiceReference("system", "fleethook"), exempt_namespaces=["system"], selecting=False
        )
        base = "/apis/admissionregistration.k8s.io/v1"
        self.answers: dict[tuple[str, str], Any] = {
            ("GET", "/version"): {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
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

    async def examine(self) -> dict[str, list[Diagnosis]]:
        found: dict[str, list[Diagnosis]] = {}
        for one in await Doctor(cast("Connection", self), namespace="team").examine():
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


async def test_every_object_is_created_as_a_dry_run() -> None:
    apiserver = Apiserver()
    await apiserver.examine()
    created = [
        (path, rest)
        for method, path, rest in apiserver.requests
        if method != "GET" and not path.endswith("accessreviews")
    ]
    assert len(created) == 3
    assert [path for path, rest in created if rest["query"] != {"dryRun": "All"}] == []


async def test_a_check_without_the_right_is_unknown() -> None:
    apiserver = Apiserver()
    apiserver.answers["GET", f"{CORE}/services/fleethook"] = APIError(403, "Forbidden", "services is forbidden")
    found = await apiserver.examine()
    assert [(one.level, one.text) for one in found["service"]] == [("unknown", "not examined: services is forbidden")]
    assert "rights" not in found


async def test_another_error_of_the_apiserver_is_not_hidden() -> None:
    apiserver = Apiserver()
    apiserver.answers["GET", f"{CORE}/services/fleethook"] = APIError(500, "InternalError", "etcd is gone")
    with pytest.raises(APIError, match="etcd is gone"):
        await apiserver.examine()


REFUSED = "Rejected"
ADMINISTRATOR = "an administrator of the workspace has to accept the claims in its APIBinding"
UNINSTALL = "start the server again, or run `fleethook uninstall --kcp-export guard`"


def configuration(cluster: str, policy: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"kcp.io/cluster": cluster}}, "webhooks": [{"failurePolicy": policy}]}


@pytest.mark.parametrize(
    ("written", "stopped", "expected"),
    [
        ([], "", ["error workspaces root:a", f"error workspaces root:b {ADMINISTRATOR}", "note workspaces rules"]),
        ([configuration("a", "Ignore")], "", [f"error workspaces root:b {ADMINISTRATOR}", "ok workspaces rules"]),
        ([configuration("a", "Fail")], "", ["note outage without", "error workspaces", "ok workspaces rules"]),
        (
            [configuration("a", "Fail")],
            "it ended",
            [f"error outage the {UNINSTALL}", "error workspaces", "ok workspaces"],
        ),
        ([configuration("a", "Ignore")], "it ended", ["error outage the", "error workspaces", "ok workspaces rules"]),
    ],
)
def test_an_outage_precedes_uncovered_workspaces(written: list[Any], stopped: str, expected: list[str]) -> None:
    bindings = [make_binding("a"), make_binding("b", validatingwebhookconfigurations=REFUSED)]
    found = [*judge_consumers("guard", bindings, written, stopped=stopped)]
    lines = [f"{one.level} {one.check} {one.text.split()[0]} {one.remedy}".strip() for one in found]
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start), lines
    assert ("it ended" in found[0].text) == bool(stopped)


@pytest.mark.parametrize(
    ("major", "minor", "level"),
    [("1", "36", "ok"), ("1", "30+", "ok"), ("1", "29+", "error"), ("", "", "ok"), ("2", "0", "ok")],
)
def test_old_apiservers_are_an_error(major: str, minor: str, level: str) -> None:
    found = check_version(major, minor, "v")
    assert (found.level, bool(found.remedy)) == (level, level != "ok")


def allows(rules: list[dict[str, Any]], right: Right) -> bool:
    group, resource, verb = right
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
        for rule in rules
        if not rule.get("resourceNames")
    )


def test_the_rights_of_a_running_server_suffice() -> None:
    """The end-to-end tests run servers with these rules."""
    rights = list_rights({"overrider", "interpret", "crds"})
    assert len(rights) > 15
    assert [one for one in rights if not allows(RULES, one)] == []


def test_only_the_rights_of_the_engines_are_listed() -> None:
    assert list_rights({"crds"}) == []
    groups = {group for group, _, _ in list_rights({"interpret"})}
    assert "config.karmada.io" in groups
    assert "apps.openyurt.io" not in groups


def test_missing_rights_are_an_error_with_the_rules_to_add() -> None:
    found = judge_rights("s/n", [("g", "a", "list"), ("g", "a", "watch")], 9)
    assert (found.level, found.text) == (
        "error",
        "the service account s/n lacks 2 of the 9 rights that the server needs",
    )
    rule = '{apiGroups: ["g"], resources: [a], verbs: [list, watch]}'
    assert found.remedy == f"add to a ClusterRole that is bound to the service account: {rule}"
    assert judge_rights("s/n", [], 9).level == "ok"


NAME = ServiceName("system", "fleethook", 443)
STORED_SERVICE: dict[str, Any] = {"spec": {"ports": [{"port": 443}]}}
READY = {"endpoints": [{"addresses": ["a", "b"], "conditions": {"ready": True}}, {"addresses": ["c"]}]}
UNREADY = {"endpoints": [{"addresses": ["a"], "conditions": {"ready": False}}]}


def test_the_services_of_all_webhooks_are_found_once() -> None:
    assert find_services(find_registered(webhook_configurations(ServiceReference("system", "fleethook")))) == [NAME]
    assert find_services(find_registered(webhook_configurations(URLReference("https://a")))) == []


@pytest.mark.parametrize(
    ("service", "slices", "level", "text"),
    [
        (STORED_SERVICE, [READY, UNREADY], "ok", "the Service system/fleethook has 3 ready endpoints"),
        (STORED_SERVICE, [UNREADY], "error", "the Service system/fleethook has no ready endpoint"),
        (STORED_SERVICE, [], "error", "the Service system/fleethook has no ready endpoint"),
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
