"""Makes `examples.jsonl.gz`: the requests of the tutorials, answered by a server that records."""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from fleethook.cluster.certificates.authority_and_serving_certificate import ensure_certificates
from tests.conformance.records.collect import write
from tests.serving import EXAMPLES, MUTATE, REVIEW, serving

WIDGETS = EXAMPLES / "kcp-widgets"


def make_requests() -> Iterator[tuple[str, Any]]:
    """Yield paths and reviews."""
    yield MUTATE, json.loads(REVIEW.read_text())
    for name in ("interpreter", "retention"):
        yield "/explore?explain=1", json.loads((EXAMPLES / "testdata" / f"review-{name}.json").read_text())
    widget = json.loads((EXAMPLES / "testdata" / "review-kcp-widgets.json").read_text())
    for cluster in ("ws1", "ws2", "ws3", "unknown"):
        for verb in ("mutate", "validate", "explain"):
            yield f"/clusters/{cluster}/{verb}", widget
    small = {**widget["request"], "object": {**widget["request"]["object"], "spec": {"size": 3}}}
    yield "/clusters/ws3/validate?timeout=10s", {**widget, "request": small}
    for file in sorted((EXAMPLES / "yurtappoverrider").glob("*/overrider.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            yield from make_overrider_requests(document)


def make_overrider_requests(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield the reviews of an overrider as it is, and with an unknown member of its entries."""
    group, _, version = document["apiVersion"].partition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    damaged = {**document, "entries": [{"pools": [], "item": []}]}
    for number, one in enumerate((document, damaged)):
        request = {
            "uid": f"{document['metadata']['namespace']}-{number}", "operation": "CREATE", "kind": kind,
            "namespace": document["metadata"]["namespace"], "name": document["metadata"]["name"], "object": one,
        }  # fmt: skip
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        for verb in ("mutate", "validate"):
            yield f"/{verb}-apps-openyurt-io-v1alpha1-yurtappoverrider", review


@contextlib.contextmanager
def ending(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Terminate a process at the end."""
    try:
        yield
    finally:
        process.terminate()


def record(directory: Path) -> None:
    """Record in ``directory/records``."""
    certificates = ensure_certificates(directory / "certs", names=["localhost"], now=datetime.now(UTC))
    webhook = [sys.executable, str(WIDGETS / "webhook.py"), str(certificates.certificate), str(certificates.key), "0"]
    with subprocess.Popen(webhook, stdout=subprocess.PIPE, text=True) as process, ending(process):
        assert process.stdout
        port = process.stdout.readline().strip().rpartition(":")[2]
        manifests = directory / "examples"
        shutil.copytree(EXAMPLES, manifests)
        for file in (manifests / "kcp-widgets").glob("*.yaml"):
            file.write_text(file.read_text().replace("localhost:9445", f"localhost:{port}"))
        environment = {
            "FLEETHOOK_RECORD": str(directory / "records"),
            "SSL_CERT_FILE": str(certificates.authority_certificate),
        }
        with serving(directory, manifests=manifests, **environment) as server:
            for path, review in make_requests():
                status, body = server.request("POST", path, json.dumps(review).encode())
                assert status == 200, body


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        record(Path(made))
        write(Path(made) / "records", "examples.jsonl.gz")


if __name__ == "__main__":
    main()
