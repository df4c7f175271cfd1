"""Commands that read a cluster work with exactly the rights that docs/what-if.md names, and only list."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.builders import entry, image, overrider, owner, workload, yurt_app_set
from tests.cli.commands import run_command
from tests.e2e.cluster import Api, ControlPlane, control_plane
from tests.e2e.conftest import install_crds, manifest
from tests.e2e.dispatch_callers import Caller
from tests.e2e.fleet import OPENYURT, grant
from tests.engines.dispatch.builders import configuration, webhook
from tests.recordings.recordings import MUTATE
from tests.recordings.replay.test_review_replay import admission
from tests.recordings.replaying import recording
from tests.serving import ROOT

_KARMADA = "karmada-system"
_RULE = {
    "apiGroups": ["apps.openyurt.io"],
    "apiVersions": ["v1alpha1"],
    "resources": ["yurtappsets"],
    "operations": ["CREATE"],
}
_HOOK = configuration("", "validating", webhook("sets.example.org", rules=[_RULE]), name="what-if")


def read_roles() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the roles of the documentation by kind and name."""
    blocks = (ROOT / "docs" / "what-if.md").read_text().split("```yaml\n")[1:]
    documents = [one for block in blocks for one in yaml.safe_load_all(block.partition("```")[0])]
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


class User(NamedTuple):
    """A service account with the roles of one command."""

    name: str
    kubeconfig: Path
    rights: set[tuple[str, str]]
    plane: ControlPlane

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Run a command with the credentials of the user; return standard output and standard error."""
        result = run_command(*arguments, "--kubeconfig", str(self.kubeconfig), stdin=stdin)
        assert result.returncode == 0, result.stderr
        return result.stdout + result.stderr

    def requests(self) -> set[tuple[str, str, str]]:
        """Return group, resource and verb of all requests so far, without dry runs that the apiserver refused."""
        log = self.plane.read_audit_log(self.name)
        return {(group, resource, verb) for group, resource, verb, code in log if (verb, code) != ("create", 403)}

    def assert_lists_only(self) -> None:
        """Check that exactly the documented resources were listed, and nothing else was requested."""
        assert self.requests() == {(group, resource, "list") for group, resource in self.rights}


def bind(admin: Api, caller: Caller, name: str, role: dict[str, Any]) -> None:
    """Create a role of the documentation, and bind it to a caller."""
    *_, namespace, account = caller.user.split(":")
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    grant(admin, name, role["rules"], subject, namespace=_KARMADA if role["kind"] == "Role" else "")


@pytest.fixture(scope="module")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module: the commands read all namespaces, and other tests leave invalid objects."""
    with control_plane(binaries, tmp_path_factory.mktemp("live-commands")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Api:
    return plane.api()


@pytest.fixture(scope="module")
def crds(admin: Api) -> None:
    install_crds(admin)


@pytest.fixture
def user(request: pytest.FixtureRequest, plane: ControlPlane, admin: Api, namespace: str, crds: None) -> User:
    """A service account with the roles of the command that the test names."""
    status, _, _ = admin.call("GET", f"/api/v1/namespaces/{_KARMADA}")
    if status == 404:
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _KARMADA}}
        admin.create("/api/v1/namespaces", made)
    caller = Caller(admin, namespace, "reader")
    rights: set[tuple[str, str]] = set()
    wanted = ["lint", "interpret-run"] if request.param == "replay" else [request.param]
    for (_, name), role in read_roles().items():
        if name.removeprefix("fleethook-") in wanted:
            bind(admin, caller, f"{namespace}-{role['kind'].lower()}-{name}", role)
            for rule in role["rules"]:
                assert rule["verbs"] == ["list"]
                rights |= {(group, resource) for group in rule["apiGroups"] for resource in rule["resources"]}
    assert rights, "the documentation has a role of that name"
    kubeconfig = plane.kubeconfig(f"reader-{namespace}", {"token": caller.token()})
    return User(caller.user, kubeconfig, rights, plane)


@pytest.fixture
def subject(admin: Api, namespace: str) -> Iterator[dict[str, Any]]:
    """A YurtAppSet in the cluster, with an overrider."""
    made = yurt_app_set()
    made["metadata"] = {"name": "demo", "namespace": namespace}
    path = f"{OPENYURT}/namespaces/{namespace}"
    admin.create(f"{path}/yurtappsets", made)
    admin.create(f"{path}/yurtappoverriders", override("nginx:2", namespace))
    yield made
    admin.delete(f"{path}/yurtappoverriders/demo")
    admin.delete(f"{path}/yurtappsets/demo")


def override(tag: str, namespace: str) -> dict[str, Any]:
    made = overrider(entry("beijing", items=[image("nginx", tag)]))
    made["metadata"] = {"name": "demo", "namespace": namespace}
    return made


@pytest.mark.parametrize("user", ["render"], indirect=True)
def test_render_shows_the_pools_that_an_edit_affects(user: User, subject: dict[str, Any]) -> None:
    namespace = subject["metadata"]["namespace"]
    edited = manifest(override("nginx:3", namespace))
    printed = user.run("render", "--change", "-", "-o", "diff", stdin=edited)
    assert f"YurtAppSet {namespace}/demo, node pool beijing, Deployment by demo\n" in printed
    assert "    - nginx:2\n    + nginx:3\n" in printed
    assert "hangzhou" not in printed
    user.assert_lists_only()


@pytest.mark.parametrize("user", ["lint"], indirect=True)
def test_lint_reports_the_findings_of_an_edit(user: User, subject: dict[str, Any]) -> None:
    edited = override("nginx:3", subject["metadata"]["namespace"])
    edited["entries"][0]["pools"] = ["beijng"]
    result = run_command("lint", "--new", "--change", "-", "--kubeconfig", str(user.kubeconfig), stdin=manifest(edited))
    assert result.returncode == 1, result.stderr
    assert "has no node pool 'beijng'; did you mean 'beijing'?" in result.stdout
    user.assert_lists_only()


@pytest.mark.parametrize("user", ["explain"], indirect=True)
def test_explain_shows_the_webhooks_of_an_edit(user: User, subject: dict[str, Any]) -> None:
    printed = user.run("explain", "--change", "-", "--request", str(_write(user, subject)), stdin=manifest(_HOOK))
    assert "+ validating:\n+   call   what-if/sets.example.org/0  all filters match\n" in printed
    user.assert_lists_only()


@pytest.mark.parametrize("user", ["diff"], indirect=True)
def test_diff_reads_the_subjects_and_workloads(user: User, subject: dict[str, Any]) -> None:
    namespace = subject["metadata"]["namespace"]
    printed = user.run("diff", "-f", "-", stdin=manifest(override("nginx:3", namespace)))
    assert printed.startswith("Total: changes none of 0 workloads\n")
    user.assert_lists_only()


@pytest.mark.parametrize("user", ["replay"], indirect=True)
def test_replay_finds_the_reviews_that_an_edit_decides_differently(
    user: User, subject: dict[str, Any], records: str
) -> None:
    namespace = subject["metadata"]["namespace"]
    arguments = ("replay", records, "--kubeconfig", str(user.kubeconfig))
    same = run_command(*arguments)
    assert (same.returncode, same.stdout) == (0, "1 review: 1 with the same outcome, 0 changed\n"), same.stderr
    user.assert_lists_only()
    edited = run_command(*arguments, "--change", "-", stdin=manifest(override("nginx:3", namespace)))
    assert edited.returncode == 1, edited.stderr
    assert f"object: YurtAppSet {namespace}/demo, {MUTATE}: 1 review\n" in edited.stdout
    assert "      - nginx:2\n      + nginx:3\n" in edited.stdout
    user.assert_lists_only()


async def _record_workload(*documents: dict[str, Any]) -> bytes:
    """Return a recording of a new workload, which a server with these objects has answered."""
    subject = documents[0]["metadata"]
    made = workload(pool="beijing", owners=[owner(uid=subject["uid"])])
    made["metadata"]["namespace"] = subject["namespace"]
    async with recording(*documents) as server:
        await server.ask(MUTATE, admission(made, namespace=subject["namespace"]))
        return server.text()


@pytest.fixture
def records(admin: Api, subject: dict[str, Any], tmp_path: Path) -> str:
    """The recording of a server with the objects of the cluster."""
    path = f"{OPENYURT}/namespaces/{subject['metadata']['namespace']}"
    documents = [admin.call("GET", f"{path}/{plural}/demo")[1] for plural in ("yurtappsets", "yurtappoverriders")]
    file = tmp_path / "reviews.jsonl"
    file.write_bytes(asyncio.run(_record_workload(*documents)))
    return str(file)


@pytest.mark.parametrize("user", ["interpret-run"], indirect=True)
def test_interpret_run_reads_the_customizations(user: User, subject: dict[str, Any]) -> None:
    replicas = manifest(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 3}}
    )
    printed = user.run("interpret", "run", "--operation", "InterpretReplica", "-f", "-", stdin=replicas)
    assert "replica" in printed
    user.assert_lists_only()


def _write(user: User, document: dict[str, Any]) -> Path:
    path = user.kubeconfig.with_suffix(".yaml")
    path.write_text(manifest(document))
    return path
