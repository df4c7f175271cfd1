"""The requests of docs/tutorials/dispatch.md with examples/kcp-widgets: a real server, with the example's webhook beside it."""

import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple

import pytest

from fleethook.cluster.certificates.certificate_files import ensure_certificates
from fleethook.patch import apply
from tests.serving import EXAMPLES, Server, serving
from tests.waiting import NET

EXAMPLE = EXAMPLES / "kcp-widgets"
REVIEW = EXAMPLES / "testdata" / "review-kcp-widgets.json"


class Running(NamedTuple):
    server: Server
    printed: IO[str]
    """Standard output of the webhook, with one line for each review."""

    def ask(self, cluster: str, verb: str, **changes: Any) -> Any:
        review = json.loads(REVIEW.read_text())
        review["request"].update(changes)
        status, answer = self.server.request("POST", f"/clusters/{cluster}/{verb}", json.dumps(review).encode())
        assert status == 200, answer
        return json.loads(answer)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("kcp-widgets")
    certificates = ensure_certificates(directory / "certs", names=["localhost", "127.0.0.1"], now=datetime.now(UTC))
    command = [sys.executable, str(EXAMPLE / "webhook.py"), str(certificates.certificate), str(certificates.key), "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        port = re.search(r":(\d+)$", process.stdout.readline().strip())[1]
        manifests = directory / "manifests"
        shutil.copytree(EXAMPLE, manifests)
        for file in manifests.glob("*.yaml"):
            file.write_text(file.read_text().replace("localhost:9445", f"localhost:{port}"))
        with serving(directory, manifests=manifests, SSL_CERT_FILE=str(certificates.authority_certificate)) as server:
            yield Running(server, process.stdout)
    finally:
        process.terminate()
        process.wait(timeout=NET)
        process.stdout.close()


def test_the_webhook_of_ws1_validates_a_widget_of_ws3_and_gets_its_cluster(running: Running) -> None:
    response = running.ask("ws3", "validate")["response"]
    assert running.printed.readline() == "/validate: CREATE b, kcp.io/cluster: ws3\n"
    assert (response["allowed"], response["status"]["code"]) == (False, 403)
    message = "a Widget in workspace ws3 may have size 10 at most, not 42"
    assert (
        response["status"]["message"] == f'admission webhook "size.widgets.example.org" denied the request: {message}'
    )


def test_the_webhook_only_labels_a_widget_of_ws2(running: Running) -> None:
    response = running.ask("ws2", "mutate")["response"]
    sent = json.loads(REVIEW.read_text())["request"]["object"]
    made = apply(sent, json.loads(base64.b64decode(response["patch"])))
    labelled = {**sent["metadata"], "labels": {"example.org/workspace": "ws2"}}
    assert made == {**sent, "metadata": labelled}
