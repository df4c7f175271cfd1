"""Workspaces of a kcp that misuse the URL of a rule for all workspaces, against the real server process."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.kcp_export import KcpExport, kcp_export
from tests.serving import Server, serving
from tests.waiting import wait_for

RULES = """
import time
from pathlib import Path

from fleethook.admission import Denied, validate

@validate("v1", "ConfigMap", timeout=30)
def owned(request, configmap):
    while "slow" in request.labels and not Path(request.labels["slow"]).exists():
        time.sleep(0.01)
    if "owner" not in request.labels:
        raise Denied(f"no owner in {request.workspace}")
"""
CONNECTIONS = 120


def find_path(kcp: KcpExport, cluster: str) -> str:
    found = wait_for(lambda: kcp.find(cluster), what=f"{cluster} is covered")
    assert found is not None
    return urlsplit(found["webhooks"][0]["clientConfig"]["url"]).path


def ask(server: Server, path: str, **metadata: Any) -> str:
    """Return the message of the answer about a ConfigMap, ``""`` if it is admitted."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", **metadata}}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    request = {"uid": "u", "operation": "CREATE", "kind": kind, "namespace": "n", "object": document}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response = json.loads(server.request("POST", path, json.dumps(body).encode())[1])["response"]
    return "" if response["allowed"] else str(response["status"]["message"])


def test_a_workspace_that_floods_its_url_leaves_the_others_their_verdicts(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    gate = tmp_path / "gate"
    with kcp_export(tmp_path) as (held, options):
        given = ("--rules", str(tmp_path / "rules.py"), *options, "--register", "--webhook-url", "https://localhost:1")
        for one in ("hers", "other"):
            held.bind(one)
        with serving(tmp_path, *given, manifests=None) as server, ThreadPoolExecutor(CONNECTIONS) as connections:
            hers, other = (find_path(held, one) for one in ("hers", "other"))
            forged = {"labels": {"slow": str(gate)}, "annotations": {"kcp.io/cluster": "other"}}
            flood = [connections.submit(ask, server, hers, **forged) for _ in range(CONNECTIONS)]
            wait_for(lambda: any(one.done() for one in flood), what="her calls beyond 50 are refused")
            answers = [ask(server, other, labels={"owner": "me"} if number % 2 else {}) for number in range(20)]
            gate.touch()
            found = {one.result() for one in flood}
            forging = ask(server, hers, annotations={"kcp.io/cluster": "other"})
    assert answers == ["no owner in root:other", ""] * 10
    assert [one for one in found if not one or "root:other" in one] == []
    assert forging == "no owner in root:hers"
