"""The process of the controller: start, health, leadership and end. tests/e2e run it on a real kube-apiserver."""

import http.client
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines.crds.apply.apiserver import kubeconfig, serving
from tests.serving import started
from tests.waiting import NET, wait_for


def run_process(directory: Path, kubeconfig: Path | str, *arguments: str) -> Any:
    """Start the controller; yields its process and the port of its health endpoints."""
    command = [
        sys.executable, "-m", "fleethook", "crds", "--data-dir", str(directory / "data"), "controller", "--kubeconfig", str(kubeconfig), "--port", "0",
        *arguments,
    ]  # fmt: skip
    return started(command, directory / "log", r"health: http://127\.0\.0\.1:(\d+)/readyz")


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=NET)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_health_checks_while_it_waits_for_the_lease_and_ends_at_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    # This apiserver has no Leases, so no process becomes the leader.
    with serving() as (_, address), run_process(tmp_path, kubeconfig(tmp_path, address)) as (process, port):
        assert get(port, "/healthz")[0] == 200
        status, body = get(port, "/readyz")
        (check,) = [one for one in json.loads(body)["checks"] if one["name"] == "lease"]
        assert (status, check["detail"]) == (200, "another process holds karmada-system/karmada-operator")
        text = get(port, "/metrics")[1]
        assert "fleethook_leader 0.0" in text
        assert "fleethook_crds_fetches_total" in text
        process.send_signal(number)
        assert process.wait(timeout=NET) == 0


def test_beside_the_operator_it_has_a_lease_of_its_own(tmp_path: Path) -> None:
    arguments = ("--beside-operator", "--namespace", "n")
    with serving() as (api, address), run_process(tmp_path, kubeconfig(tmp_path, address), *arguments) as (_, port):
        assert "another process holds n/fleethook-crds" in get(port, "/readyz")[1]
        wait_for(
            lambda: any(asked.name == "fleethook-crds" for asked in api.asked),
            what="it asks for its Lease",
        )


def test_traces_without_their_library_are_a_usage_error(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleethook.tracing.spans._is_installed", lambda _: False)
    (tmp_path / "k").touch()
    shown = run("controller", "--kubeconfig", tmp_path / "k", "--otlp-endpoint", "http://localhost:4318", code=2)
    assert "install fleethook[otel]" in shown.stderr
