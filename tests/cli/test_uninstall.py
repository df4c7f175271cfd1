"""The arguments and the output of `fleethook uninstall`; tests/e2e/test_uninstall.py has a real apiserver."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from fleethook.cli.uninstall import (
    LeaderError,
    Removal,
    Uninstaller,
    _format_row,
    _summarize,
    is_our_configuration,
    is_ours,
)
from fleethook.cluster.api_errors import APIError
from fleethook.cluster.apiserver_connection import Connection
from tests.apiserver_rules import parse_path
from tests.builders import entry, image, overrider, rendered, workload, yurt_app_set
from tests.cli.commands import invoke
from tests.cli.fake_cluster import serve_cluster
from tests.cluster.object_server import ObjectServer

DELETED = Removal("deleted", "ClusterRole", "", "fleethook")
RESTORED = Removal("restored", "Deployment", "n", "web")
LEFT = Removal("left", "Deployment", "n", "old", "it has no owner")


def test_rows_name_the_change_in_the_past_or_as_a_plan() -> None:
    assert [_format_row(one, dry_run=False) for one in (DELETED, RESTORED, LEFT)] == [
        "deleted   ClusterRole fleethook", "restored  Deployment n/web", "left      Deployment n/old: it has no owner",
    ]  # fmt: skip
    assert _format_row(DELETED, dry_run=True) == "would delete   ClusterRole fleethook"
    assert _summarize([DELETED, RESTORED, LEFT], dry_run=True) == (
        "1 would be deleted, 1 would be restored, 0 would be cleaned, 1 left"
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give one of --kubeconfig, --context and --in-cluster"),
        (["--in-cluster", "--kubeconfig", "x"], "give only one of --kubeconfig and --in-cluster"),
        (["--in-cluster"], "not finished, correct this and repeat the command: credentials cannot be read"),
    ],
)
def test_invalid_arguments_are_named(arguments: list[str], problem: str) -> None:
    result = invoke(["uninstall", *arguments])
    assert (result.exit_code, problem in result.stderr) == (2, True)


def test_a_cluster_without_fleethook_is_complete_and_a_missing_right_is_said_once(tmp_path: Path) -> None:
    with serve_cluster(tmp_path) as (cluster, options):
        done = invoke(["uninstall", *options])
        assert done == (0, "nothing of fleethook is registered\n", "")
        cluster.lists["/api/v1/secrets"] = []
        answer = cluster.answer
        refusal = {"kind": "Status", "reason": "Forbidden", "message": 'User "u" cannot list resource "secrets"'}
        cluster.answer = lambda url: (403, refusal) if "/secrets" in url else answer(url)  # type: ignore[method-assign]
        partly = invoke(["uninstall", *options, "--output", "json"])
    assert partly.exit_code == 1
    assert json.loads(partly.stdout) == {
        "dryRun": False,
        "complete": False,
        "objects": [
            {"action": "left", "kind": "secrets", "namespace": "", "name": "", "detail": "no right to list"},
        ],
    }  # fmt: skip
    assert partly.stderr == (
        "fleethook: the user lacks rights: add to a ClusterRole that is bound to the user: "
        '{apiGroups: [""], resources: [secrets], verbs: [list]}\n'
    )


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WEBHOOKS = f"{ADMISSION}/mutatingwebhookconfigurations"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/demo-hangzhou-x"
SUBJECT = yurt_app_set()
RENDERED = rendered(workload(), SUBJECT, overrider(entry("*", items=[image("nginx", "nginx:2.0")])))
KINDS = {
    "mutatingwebhookconfigurations": ADMISSION,
    "validatingwebhookconfigurations": ADMISSION,
    "yurtappsets": "/apis/apps.openyurt.io/v1alpha1",
    "yurtappoverriders": "/apis/apps.openyurt.io/v1alpha1",
    "deployments": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "secrets": "/api/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
}
CALLS_US = 'admission webhook is away: failed calling webhook "deployments.overrider.fleethook.io"'


class Cluster(ObjectServer):
    """An apiserver without some rights. ``denied`` are raised by the next patches; ``meanwhile`` runs before the next ones."""

    host = "https://apiserver"

    def __init__(self) -> None:
        super().__init__()
        self.is_served = lambda path: path.startswith(f"{KINDS.get(parse_path(path).plural)}/")
        self.denied: list[Exception] = []
        self.meanwhile: list[Callable[[], None]] = []
        self.forbidden: set[tuple[str, str]] = set()
        self.writes: list[str] = []

    def put(self, plural: str, document: dict[str, Any]) -> str:
        namespace = document["metadata"].get("namespace")
        place = f"{KINDS[plural]}/namespaces/{namespace}/{plural}" if namespace else f"{KINDS[plural]}/{plural}"
        path = f"{place}/{document['metadata']['name']}"
        self.store(path, {**document, "apiVersion": parse_path(path).api_version})
        return path

    def answer(self, method: str, path: str, *, query: Any, body: Any, content_type: str) -> Any:
        plural = parse_path(path).plural
        verb = {"GET": "get" if path in self.objects else "list"}.get(method, method.lower())
        if (verb, plural) in self.forbidden:
            raise APIError(403, "Forbidden", f'{plural} is forbidden: User "u" cannot {verb} resource "{plural}"')
        if method != "GET":
            self.writes.append(f"{method} {path}")
        if method == "PATCH" and self.meanwhile:
            self.meanwhile.pop(0)()
        if method == "PATCH" and self.denied:
            raise self.denied.pop(0)
        return super().answer(method, path, query=query, body=body, content_type=content_type)


def document(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


async def uninstall(cluster: Cluster, **options: Any) -> Uninstaller:
    made = Uninstaller(cast("Connection", cluster), **{"dry_run": False, **options})
    await made.run()
    return made


def list_rows(done: Uninstaller, action: str) -> list[str]:
    return [one.name for one in done.rows if one.action == action]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.put("yurtappsets", SUBJECT)
    made.put("deployments", RENDERED)
    return made


async def test_webhooks_are_deleted_before_workloads_are_written(cluster: Cluster) -> None:
    cluster.put("mutatingwebhookconfigurations", document("MutatingWebhookConfiguration", "fleethook"))
    planned = await uninstall(cluster, dry_run=True)
    assert cluster.writes == []
    done = await uninstall(cluster)
    assert [one.rpartition("/")[0].rpartition("/")[2] for one in cluster.writes] == [
        "mutatingwebhookconfigurations", "deployments",
    ]  # fmt: skip
    assert done.rows == planned.rows
    assert done.is_complete
    assert (await uninstall(cluster)).rows == []


@pytest.mark.parametrize(
    ("verb", "plural", "writes"),
    [("patch", "deployments", 1), ("list", "yurtappsets", 1), ("list", "leases", 1), ("list", "secrets", 2)],
)
async def test_a_missing_right_ends_only_the_work_that_needs_it(
    cluster: Cluster, verb: str, plural: str, writes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put("mutatingwebhookconfigurations", document("MutatingWebhookConfiguration", "fleethook"))
    cluster.forbidden = {(verb, plural)}
    done = await uninstall(cluster)
    assert ({one[1:] for one in done.missing}, done.is_complete, len(cluster.writes)) == (
        {(plural, verb)},
        False,
        writes,
    )
    assert ("note: workloads are not restored" in capsys.readouterr().err) == (plural in ("yurtappsets", "leases"))
    cluster.forbidden = set()
    assert (await uninstall(cluster)).is_complete
    assert cluster.objects[DEPLOYMENT]["spec"] == workload()["spec"]


async def test_a_held_lease_ends_the_command_and_a_released_one_is_deleted(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"holderIdentity": "pod-a", "leaseDurationSeconds": 1, "renewTime": "1"}
    lease = document("Lease", "fleethook", metadata={"namespace": "fleet"}, spec=spec)
    path = cluster.put("leases", lease)
    dry = await uninstall(cluster, dry_run=True)
    assert list_rows(dry, "deleted") == ["fleethook"]
    assert "held by pod-a" in capsys.readouterr().err
    with pytest.raises(LeaderError, match=r"by pod-a, .* kubectl scale --replicas=0 -n fleet deployment/fleethook"):
        await uninstall(cluster)
    assert cluster.writes == []
    cluster.objects.pop(path)
    cluster.put("leases", {**lease, "spec": {**spec, "holderIdentity": ""}})
    assert list_rows(await uninstall(cluster), "deleted") == ["fleethook"]


async def test_secrets_are_found_by_label_and_keys() -> None:
    cluster = Cluster()
    keys = {"ca.key": "", "tls.key": "", "tls.crt": ""}
    label = {"labels": {"app.kubernetes.io/name": "fleethook"}}
    for namespace, data, more in (("a", keys, label), ("b", keys, {}), ("c", {"tls.key": ""}, label)):
        cluster.put("secrets", document("Secret", "certs", data=data, metadata={"namespace": namespace, **more}))
    await uninstall(cluster)
    assert sorted(path.split("/")[4] for path in cluster.objects) == ["b", "c"]


@pytest.mark.parametrize("definitions", [False, True])
async def test_definitions_stay_unless_they_are_asked_for_and_nothing_is_left(
    cluster: Cluster, definitions: bool
) -> None:
    label = {"labels": {"app.kubernetes.io/name": "fleethook"}}
    for name in ("yurtappoverriders.apps.openyurt.io", "yurtappsets.apps.openyurt.io", "foos.example.org"):
        cluster.put("customresourcedefinitions", document("CustomResourceDefinition", name, metadata=label))
    cluster.forbidden = {("patch", "deployments")}
    partly = await uninstall(cluster, definitions=definitions)
    assert list_rows(partly, "kept") == [
        "yurtappoverriders.apps.openyurt.io",
        "yurtappsets.apps.openyurt.io",
    ]
    cluster.forbidden = set()
    done = await uninstall(cluster, definitions=definitions)
    assert ("yurtappoverriders.apps.openyurt.io" in list_rows(done, "deleted")) is definitions
    assert "yurtappsets.apps.openyurt.io" in list_rows(done, "kept")


def make_object(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **fields.pop("metadata", {})}, **fields}


@pytest.mark.parametrize(
    ("name", "fields", "ours"),
    [
        ("fleethook", {}, True),
        ("other", {"metadata": {"labels": {"app.kubernetes.io/name": "fleethook"}}}, True),
        (
            "renamed",
            {"metadata": {"labels": {"app.kubernetes.io/name": "x", "helm.sh/chart": "fleethook-0.3.0"}}},
            True,
        ),
        ("fleethook-dispatch", {"webhooks": [{"name": "mutate.dispatch.fleethook.io"}]}, True),
        ("mixed", {"webhooks": [{"name": "a.fleethook.io"}, {"name": "a.example.org"}]}, False),
        (
            "other",
            {"metadata": {"labels": {"helm.sh/chart": "fleethookish-1"}}, "webhooks": [{"name": "a.b.c"}]},
            False,
        ),
        ("empty", {"webhooks": []}, False),
    ],
)
def test_only_configurations_that_call_fleethook_are_ours(name: str, fields: Any, ours: bool) -> None:
    assert is_our_configuration(make_object(name, **fields)) is ours


@pytest.mark.parametrize(("name", "ours"), [("fleethook-crds", True), ("fleethook-x", False)])
def test_objects_of_the_charts_components_are_ours(name: str, ours: bool) -> None:
    assert is_ours(make_object("role", metadata={"labels": {"app.kubernetes.io/name": name}})) is ours
