"""``fleethook crds apply`` and ``render`` with a real apiserver."""

import base64
import json
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.manifests.kubectl_values import NoAliasDumper, yaml_text
from fleethook.cluster.manifests.manifest_reader import read_documents
from tests.cli.commands import Result, invoke
from tests.e2e.cluster import CRDS, Api, ControlPlane, is_established
from tests.engines.crds.tarballs import build, crd, patch

GROUP = "work.karmada.io"


def build_crd(plural: str, *versions: str, kind: str = "") -> bytes:
    """Return a CRD that stores its last version."""
    document = yaml.safe_load(crd(plural, GROUP))
    (version,) = document["spec"]["versions"]
    document["spec"]["versions"] = [
        {**version, "name": name, "storage": name == versions[-1]} for name in versions
    ]  # fmt: skip
    if kind:
        document["spec"]["names"].update(kind=kind, listKind=f"{kind}List")
    return yaml_text(document, dumper=NoAliasDumper).encode()


class Release:
    """Two plain CRDs, and one with conversion; each test has its own names, because CRDs are deleted slowly."""

    def __init__(self, suffix: str = "") -> None:
        self.plurals = [
            f"{plural}{suffix}"
            for plural in ("federatedhpas", "remedies", "clusterresourcebindings", "resourcebindings", "works")
        ]
        groups = ("autoscaling.karmada.io", "remedy.karmada.io", GROUP, GROUP, GROUP)
        self.names = [f"{plural}.{group}" for plural, group in zip(self.plurals, groups, strict=True)]
        self.bindings, self.cluster_bindings = self.names[3], self.names[2]
        self.patched = {self.bindings, self.cluster_bindings}

    def members(self, *versions: str) -> dict[str, bytes | None]:
        autoscalers, remedies, cluster_bindings, bindings, works = self.plurals
        return {
            "crds/": None, "crds/bases/": None, "crds/bases/autoscaling/": None, "crds/bases/remedy/": None,
            "crds/bases/work/": None, "crds/patches/": None,
            "crds/bases/remedy/remedies.yaml": crd(remedies, "remedy.karmada.io", properties=3),
            "crds/bases/autoscaling/autoscalers.yaml": crd(autoscalers, "autoscaling.karmada.io", properties=3),
            "crds/bases/work/resourcebindings.yaml": build_crd(bindings, *(versions or ("v1alpha1", "v1alpha2"))),
            "crds/bases/work/clusterresourcebindings.yaml": build_crd(cluster_bindings, "v1alpha1", "v1alpha2"),
            "crds/bases/work/works.yaml": crd(works, GROUP),
            f"crds/patches/webhook_in_{bindings}.yaml": patch(bindings),
            # No code checks the name in the patch.
            f"crds/patches/webhook_in_{cluster_bindings}.yaml": patch("somethingelse"),
        }  # fmt: skip

    def outcome(self, result: str, **others: str) -> dict[str, str]:
        return {**dict.fromkeys(self.names, result), **others}


@pytest.fixture
def release() -> Release:
    return Release(uuid.uuid4().hex[:6] + "s")


@pytest.fixture
def administrator(plane: ControlPlane) -> Path:
    user = {"client-certificate": str(plane.admin.certificate), "client-key": str(plane.admin.key)}
    return plane.kubeconfig("crds-apply", user)


@pytest.fixture
def run(plane: ControlPlane, administrator: Path, tmp_path: Path) -> Callable[..., Result]:
    ca = plane.authority.certificate

    def run(command: str, files: dict[str, bytes | None], *arguments: object, code: int | None = 0) -> Result:
        tarball = tmp_path / "crds.tar.gz"
        tarball.write_bytes(build(files))
        to = ["--kubeconfig", administrator] if command in ("apply", "diff") else []
        instance = ["--name", "demo", "--namespace", "test", "--ca-file", ca]
        every = ["crds", command, "--tarball", tarball, *instance, *to, *arguments]
        result = invoke(list(map(str, every)))
        assert code is None or result.exit_code == code, result.output
        return result

    return run


def results(result: Result) -> dict[str, str]:
    return {one["name"]: one["result"] for one in json.loads(result.stdout)}


def conversion(plane: ControlPlane) -> dict[str, Any]:
    ca_bundle = base64.b64encode(plane.authority.certificate.read_bytes()).decode()
    config = {"url": "https://demo-karmada-webhook.test.svc:443/convert", "caBundle": ca_bundle}
    return {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}


def managers(stored: dict[str, Any]) -> set[tuple[str, str]]:
    found = stored["metadata"]["managedFields"]
    return {(one["manager"], one["operation"]) for one in found if one.get("subresource") != "status"}


def without_defaults(stored: Any, sent: Any) -> Any:
    """Return the members of a stored document that the sent document has."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return {name: without_defaults(stored[name], sent[name]) for name in stored if name in sent}
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        return [without_defaults(one, other) for one, other in zip(stored, sent, strict=True)]
    return stored


def test_crds_are_applied_patched_and_served_and_once_more_nothing_changes(
    run: Any, admin: Api, plane: ControlPlane
) -> None:
    karmada = Release()
    assert {"resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io"} == karmada.patched
    shown = run("apply", karmada.members()).stdout
    lines = [f"created    {name}" + ("  patched" if name in karmada.patched else "") for name in karmada.names]
    assert shown.splitlines() == lines
    for name in karmada.names:
        stored = admin[f"{CRDS}/{name}"]
        assert is_established(admin, name)
        assert ("karmada-operator", "Apply") in managers(stored)
        wanted = conversion(plane) if name in karmada.patched else {"strategy": "None"}
        assert stored["spec"]["conversion"] == wanted
    before = [admin[f"{CRDS}/{name}"]["metadata"]["resourceVersion"] for name in karmada.names]
    again = run("apply", karmada.members(), "--output", "json")
    told = [
        {"name": name, "result": "unchanged", "patched": name in karmada.patched, "warning": ""}
        for name in karmada.names
    ]
    assert json.loads(again.stdout) == told
    assert [admin[f"{CRDS}/{name}"]["metadata"]["resourceVersion"] for name in karmada.names] == before


def test_an_upgrade_keeps_the_conversion(run: Any, admin: Api, plane: ControlPlane, release: Release) -> None:
    run("apply", release.members())
    told = results(run("apply", release.members("v1alpha1", "v1alpha2", "v1beta1"), "-o", "json"))
    assert told == release.outcome("unchanged", **{release.bindings: "configured"})
    spec = admin[f"{CRDS}/{release.bindings}"]["spec"]
    assert [version["name"] for version in spec["versions"]] == ["v1alpha1", "v1alpha2", "v1beta1"]
    assert spec["conversion"] == conversion(plane)


def test_karmadas_own_operator_leaves_the_conversion_alone(
    run: Any, admin: Api, plane: ControlPlane, release: Release
) -> None:
    run("apply", release.members())
    base = yaml.safe_load(release.members()["crds/bases/work/resourcebindings.yaml"] or b"")
    stored = admin.apply(f"{CRDS}/{release.bindings}", base, manager="karmada-operator")
    assert stored["spec"]["conversion"] == conversion(plane)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_rendered_crds_equal_the_applied_ones(run: Any, admin: Api, release: Release, form: str) -> None:
    run("apply", release.members())
    printed = run("render", release.members(), "--output", form).stdout
    found = [one.object for one in read_documents(printed, source="rendered")]
    assert [one["metadata"]["name"] for one in found] == release.names
    for one in found:
        stored = admin[f"{CRDS}/{one['metadata']['name']}"]
        assert without_defaults(stored["spec"], one["spec"]) == one["spec"]
        assert without_defaults(stored["metadata"], one["metadata"]) == one["metadata"]


def test_a_server_accepts_the_rendered_crds(run: Any, admin: Api, release: Release) -> None:
    for one in yaml.safe_load_all(run("render", release.members()).stdout):
        admin.create(CRDS, one, dryRun="All", fieldValidation="Strict")


def test_a_dry_run_tells_and_changes_nothing(run: Any, admin: Api, release: Release) -> None:
    def tried(files: Any, *arguments: str) -> dict[str, str]:
        return results(run("apply", files, "--dry-run", "-o", "json", *arguments))

    assert tried(release.members()) == release.outcome("created")
    assert [admin.call("GET", f"{CRDS}/{name}")[0] for name in release.names] == [404] * len(release.names)
    run("apply", release.members())
    before = [admin[f"{CRDS}/{name}"] for name in release.names]
    assert tried(release.members()) == release.outcome("unchanged")
    upgraded = release.members("v1alpha1", "v1alpha2", "v1beta1")
    assert tried(upgraded) == release.outcome("unchanged", **{release.bindings: "configured"})
    elsewhere = tried(release.members(), "--namespace", "other")
    assert elsewhere == release.outcome("unchanged", **dict.fromkeys(release.patched, "configured"))
    assert [admin[f"{CRDS}/{name}"] for name in release.names] == before


def test_names_of_another_crd_are_reported(run: Any, release: Release) -> None:
    files = {name: body for name, body in release.members().items() if body is None}
    works, bindings = release.plurals[4], release.plurals[3]
    run("apply", {**files, "crds/bases/work/works.yaml": crd(works, GROUP)})
    kind = works.capitalize()
    taken = build_crd(bindings, "v1", kind=kind)
    shown = run("apply", {**files, "crds/bases/work/bindings.yaml": taken}, code=21)
    words = f'ListKindConflict: "{kind}List" is already in use'
    assert f"fleethook: {release.bindings}: the server does not accept its names: {words}\n" in shown.stderr
    assert shown.stdout == f"created    {release.bindings}\n"


def test_a_refusal_is_reported_with_the_servers_message_and_the_finished_steps(run: Any, release: Release) -> None:
    files, path = release.members(), "crds/bases/work/resourcebindings.yaml"
    wrong = (files[path] or b"").replace(b"scope: Namespaced", b"scope: Galactic")
    shown = run("apply", {**files, path: wrong}, code=21)
    assert f"fleethook: failed to apply karmada crds, err: {release.bindings}: 422 Invalid: " in shown.stderr
    assert 'spec.scope: Unsupported value: "Galactic": supported values: "Cluster", "Namespaced"' in shown.stderr
    done = ", ".join(release.names[:3])
    assert shown.stderr.endswith(f"(3 of 5 CRDs had been applied: {done}; running it again is safe)\n")
    again = results(run("apply", files, "-o", "json"))
    assert again == dict(zip(release.names, ["unchanged"] * 2 + ["configured"] + ["created"] * 2, strict=True))


def test_a_patch_that_the_server_refuses_is_reported(run: Any, release: Release) -> None:
    files, path = release.members(), f"crds/patches/webhook_in_{release.plurals[3]}.yaml"
    shown = run("apply", {**files, path: patch(release.plurals[3]).replace(b"https://", b"http://")}, code=21)
    assert f"fleethook: failed to patch karmada crds, err: {release.bindings}: 422 Invalid: " in shown.stderr
    assert shown.stderr.endswith(f"; patched: {release.cluster_bindings}; running it again is safe)\n")


def test_a_server_that_does_not_answer_has_the_code_of_the_network(
    run: Any, plane: ControlPlane, release: Release
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = plane.kubeconfig("nobody", {}, server=f"https://127.0.0.1:{taken.getsockname()[1]}")
        shown = run("apply", release.members(), "--kubeconfig", nobody, code=20)
    assert shown.stderr.startswith("fleethook: customresourcedefinitions: https://127.0.0.1:")


def test_an_apiserver_refuses_a_patch_with_another_name_which_is_why_names_are_left_out(
    run: Any, admin: Api, release: Release
) -> None:
    run("apply", release.members())
    path, kind = f"{CRDS}/{release.bindings}", "application/strategic-merge-patch+json"
    status, answer, _ = admin.call("PATCH", path, {"metadata": {"name": f"other.{GROUP}"}}, content_type=kind)
    assert (status, answer["reason"]) == (400, "BadRequest")
