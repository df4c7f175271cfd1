"""``fleethook crds render`` with kubectl and a real apiserver."""

import base64
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.manifests.yaml_scalars import NoAliasDumper, yaml_text
from tests.cli.commands import Result, invoke
from tests.e2e.cluster import CRDS, Api, ControlPlane, is_established, kubectl
from tests.engines.crds.tarballs import build, crd, patch
from tests.waiting import wait_for

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


@pytest.fixture
def release() -> Release:
    return Release(uuid.uuid4().hex[:6] + "s")


@pytest.fixture
def administrator(plane: ControlPlane) -> Path:
    return plane.kubeconfig("crds-render")


@pytest.fixture
def run(plane: ControlPlane, tmp_path: Path) -> Callable[..., Result]:
    ca = plane.authority.certificate

    def run(command: str, files: dict[str, bytes | None], *arguments: object, code: int | None = 0) -> Result:
        tarball = tmp_path / "crds.tar.gz"
        tarball.write_bytes(build(files))
        instance = ["--name", "demo", "--namespace", "test", "--ca-file", ca]
        every = ["crds", command, "--tarball", tarball, *instance, *arguments]
        result = invoke(list(map(str, every)))
        assert code is None or result.exit_code == code, result.output
        return result

    return run


def conversion(plane: ControlPlane) -> dict[str, Any]:
    ca_bundle = base64.b64encode(plane.authority.certificate.read_bytes()).decode()
    config = {"url": "https://demo-karmada-webhook.test.svc:443/convert", "caBundle": ca_bundle}
    return {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}


def test_kubectl_applies_and_compares_the_rendered_crds(
    run: Any, admin: Api, plane: ControlPlane, binaries: Path, administrator: Path, release: Release
) -> None:
    def pipe(command: str, files: dict[str, bytes | None], *, code: int = 0) -> str:
        given = [kubectl(binaries), "--kubeconfig", administrator, command, "--server-side", "--force-conflicts"]
        found = subprocess.run(
            [*given, "-f", "-"], input=run("render", files).stdout, capture_output=True, text=True, check=False
        )
        assert found.returncode == code, found.stderr
        return found.stdout

    assert len(pipe("apply", release.members()).splitlines()) == len(release.names)
    for name in release.names:
        wait_for(lambda name=name: is_established(admin, name), what=f"{name} is established")
        wanted = conversion(plane) if name in release.patched else {"strategy": "None"}
        assert admin[f"{CRDS}/{name}"]["spec"]["conversion"] == wanted
    assert pipe("diff", release.members()) == ""
    upgraded = release.members("v1alpha1", "v1alpha2", "v1beta1")
    assert "v1beta1" in pipe("diff", upgraded, code=1)
    pipe("apply", upgraded)
    spec = admin[f"{CRDS}/{release.bindings}"]["spec"]
    assert [version["name"] for version in spec["versions"]] == ["v1alpha1", "v1alpha2", "v1beta1"]
    assert spec["conversion"] == conversion(plane)
    # Karmada's operator applies the CRDs without the patches, and leaves the conversion to its other owner.
    base = yaml.safe_load(upgraded["crds/bases/work/resourcebindings.yaml"] or b"")
    stored = admin.apply(f"{CRDS}/{release.bindings}", base, manager="karmada-operator")
    assert stored["spec"]["conversion"] == conversion(plane)
