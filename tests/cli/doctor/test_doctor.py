"""The options of ``fleethook doctor``, and clusters that it cannot read."""

from pathlib import Path
from typing import Any, cast

import pytest

from fleethook.cli.doctor.doctor import Doctor, judge_consumers
from fleethook.cli.doctor.registration_and_rights import Diagnosis
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.registration.webhook_configurations import ServiceReference, webhook_configurations
from tests.apiserver_rules import check_created, check_review, unserved
from tests.cli.commands import invoke
from tests.cli.fake_cluster import Cluster
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
