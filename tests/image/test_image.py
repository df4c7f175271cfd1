"""The built image: its user, labels and packages, and a server in it with the environment of the chart."""

import base64
import contextlib
import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook import __version__
from tests.e2e.chart import environment_of, pod_of, template
from tests.e2e.cluster import free_port
from tests.e2e.controlplane import build
from tests.image.container import USER, VOLUME, Image, end
from tests.pki import Authority
from tests.programs import require_program
from tests.serving import EXAMPLES, MUTATE, REVIEW, Server
from tests.waiting import NET, wait_for

CALLER = "image-test"
ENGINES: dict[str, Any] = {engine: {"enabled": True} for engine in ("overrider", "dispatch", "interpret", "crds")}
# Only callers with a client certificate may dispatch if the server listens on all addresses, as in the chart.
VALUES = {"engines": {**ENGINES, "dispatch": {"enabled": True, "callers": [CALLER]}}, "clientCAConfigMap": "client-ca"}
# These need an apiserver. The tests of the chart in tests/e2e run a server with them.
NEED_A_CLUSTER = (
    "FLEETHOOK_IN_CLUSTER", "FLEETHOOK_SERVICE", "FLEETHOOK_REGISTRATION", "FLEETHOOK_CONTROLLER", "FLEETHOOK_CERT_SECRET",
)  # fmt: skip
KARMADA = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "5b3c0a7e-5e0f-4d1f-8f38-0d8f5a1c2b10",
        "kind": {"group": "operator.karmada.io", "version": "v1alpha1", "kind": "Karmada"},
        "resource": {"group": "operator.karmada.io", "version": "v1alpha1", "resource": "karmadas"},
        "name": "a",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin"},
        "object": {
            "apiVersion": "operator.karmada.io/v1alpha1",
            "kind": "Karmada",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"crdTarball": {"httpSource": {"url": "ftp://example.org/crds.tar.gz"}}},
        },
    },
}
# Prints the distributions of an interpreter, a line for each.
LIST = "import importlib.metadata as m\nfor d in m.distributions(): print(d.name.lower(), d.version)"


def chart_environment(port: int) -> dict[str, str]:
    helm = require_program(build.find_helm(), "no Helm: run `make controlplane`")
    (container,) = pod_of(template(helm, VALUES))["containers"]
    found = {name: value for name, value in environment_of(container).items() if name not in NEED_A_CLUSTER}
    assert len(found) >= 10
    local = {
        "PORT": str(port),
        "DRAIN_DELAY": "0",
        "MANIFESTS": "/examples",
        "CLIENT_CA_FILE": "/examples/client-ca.crt",
    }
    return {**found, **{f"FLEETHOOK_{name}": value for name, value in local.items()}}


class PinnedServer(Server):
    """A server whose certificate is the authority of requests: its CA stays inside the container."""

    def context(self) -> ssl.SSLContext:
        context = super().context()
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        pair = self.authority.parent / "examples" / CALLER
        context.load_cert_chain(pair.with_suffix(".crt"), pair.with_suffix(".key"))
        return context

    def review(self, path: str, body: bytes) -> Any:
        status, text = self.request("POST", path, body)
        assert status == 200, text
        return json.loads(text)


@contextlib.contextmanager
def serving(image: Image, examples: Path, tmp_path: Path) -> Iterator[PinnedServer]:
    """Run the image's default command until the server is ready."""
    Authority(examples, "client-ca").issue(CALLER)
    port = free_port()
    command = image.command(["serve"], examples, chart_environment(port), port=port)
    log = tmp_path / "image.log"
    with log.open("w") as written:
        process = subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    authority = tmp_path / "ca.crt"
    try:
        wait_for(lambda: is_serving(process, port, authority, log), what="the server in the image is ready")
        yield PinnedServer(process, port, authority, log)
    finally:
        end(process)


def is_serving(process: "subprocess.Popen[str]", port: int, authority: Path, log: Path) -> bool:
    """Return whether the server is ready; its certificate becomes the authority of later requests."""
    if process.poll() is not None:
        pytest.fail(f"the container ended with {process.returncode}: {log.read_text()}")
    if not authority.exists():
        authority.write_text(ssl.get_server_certificate(("127.0.0.1", port)))
    return PinnedServer(process, port, authority, log).request("GET", "/readyz")[0] == 200


def test_the_image_names_its_user_version_and_commit(image: Image) -> None:
    config = image.config
    labels = {name.rpartition(".")[2]: value for name, value in config["Labels"].items() if "opencontainers" in name}
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == (f"{USER}:{USER}", ["fleethook"], ["serve"])
    assert (labels["title"], labels["version"], labels["licenses"]) == ("fleethook", __version__, "Apache-2.0")
    assert re.fullmatch(r"[0-9a-f]{40}", labels["revision"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]+[+-]\d\d:\d\d", labels["created"])


def test_the_bill_of_materials_lists_exactly_the_installed_packages(image: Image, examples: Path) -> None:
    bill = json.loads(image.output("cat", "/opt/fleethook/share/sbom/fleethook.cdx.json", examples=examples))
    assert bill["bomFormat"] == "CycloneDX"
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["type"]) == (
        "fleethook",
        "application",
    )
    listed = {f"{one['name'].lower()} {one['version']}" for one in bill["components"]} | {f"fleethook {__version__}"}
    installed = image.output("/opt/fleethook/bin/python3", "-c", LIST, examples=examples).splitlines()
    assert len(installed) > 30
    assert listed == set(installed)
    assert [one["name"] for one in bill["components"] if not one.get("purl", "").startswith("pkg:pypi/")] == []


@pytest.mark.parametrize("python", ["/opt/fleethook/bin/python3", "/usr/bin/env python3"])
def test_no_interpreter_of_the_image_has_pip(image: Image, examples: Path, python: str) -> None:
    script = "import importlib.util; print(importlib.util.find_spec('pip'))"
    assert image.output(*python.split(), "-c", script, examples=examples) == "None\n"


def test_the_restrictions_hold(image: Image, examples: Path) -> None:
    script = (
        f"id -u; grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status; touch {VOLUME}/a /a /opt/fleethook/a 2>&1 || true"
    )
    user, *lines = image.output("sh", "-c", script, examples=examples).splitlines()
    assert user == str(USER)
    assert [line.split()[1] for line in lines[:3]] == ["0" * 16, "0" * 16, "1"]
    assert [line for line in lines[3:] if "Read-only file system" not in line] == []
    assert len(lines[3:]) == 2


def test_every_engine_answers_and_sigterm_ends_the_server_with_0(image: Image, examples: Path, tmp_path: Path) -> None:
    with serving(image, examples, tmp_path) as server:
        overridden = server.review(MUTATE, REVIEW.read_bytes())["response"]
        assert overridden["allowed"]
        assert any(one["path"].endswith("/image") for one in json.loads(base64.b64decode(overridden["patch"])))
        retained = server.review("/explore?explain=1", (EXAMPLES / "testdata" / "review-retention.json").read_bytes())
        assert retained["response"]["successful"]
        explained = server.review(
            "/clusters/ws3/explain", (EXAMPLES / "testdata" / "review-kcp-widgets.json").read_bytes()
        )
        assert "size.widgets.example.org" in json.dumps(explained)
        refused = server.review("/validate-operator-karmada-io-v1alpha1-karmada", json.dumps(KARMADA).encode())[
            "response"
        ]
        assert not refused["allowed"]
        assert "spec.crdTarball" in refused["status"]["message"]
        image.terminate(server.process)
        assert server.process.wait(timeout=NET) == 0, server.log.read_text()
