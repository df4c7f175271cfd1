"""``fleethook crds controller``: its options, and start, health, leadership and end of the process."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleethook.cli.inputs.kubeconfig import KubeconfigContext
from fleethook.engines.crds.commands import crds_controller
from fleethook.engines.crds.controller.instance_fetches import FetchOptions, Reach
from tests.cli.fake_cluster import Cluster
from tests.serving import started
from tests.waiting import NET, wait_for


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of each process that was started."""
    seen: list[Any] = []
    monkeypatch.setattr(crds_controller, "run_controller", lambda *given: seen.append(given))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return seen


def test_without_a_cluster_it_does_not_start(run: Any, processes: list[Any]) -> None:
    assert "give one of --kubeconfig and --context, or run it in a pod" in run("controller", code=2).stderr
    assert processes == []


def test_in_a_pod_it_uses_the_service_account(run: Any, processes: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    run("controller")
    ((_, _, place),) = processes
    assert place.cluster == KubeconfigContext(None)


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    file = tmp_path / "k"
    file.touch()
    return file


def test_the_defaults_are_those_of_the_operator(
    run: Any, processes: list[Any], tmp_path: Path, credentials: Path
) -> None:
    run("controller", "--kubeconfig", credentials)
    ((cache, options, place),) = processes
    assert cache.directory == tmp_path / "data" / "cache"
    assert options == FetchOptions(
        version="", beside=False, follow_instance=False, stale_if_error=False, strict=False, env_proxies=True,
        reach=Reach(True, (), None),
    )  # fmt: skip
    assert place == (KubeconfigContext(credentials), "karmada-system", 15.0, "127.0.0.1", 8080, None)


def test_each_option_reaches_the_process(run: Any, processes: list[Any], credentials: Path) -> None:
    run(
        "controller", "--kubeconfig", credentials, "--context", "c", "--beside-operator", "--version", "v1.18.0", "--follow-instance", "--stale-if-error", "--strict",
        "--no-env-proxy", "--allow-host", "a.org", "--allow-host", ".b.org", "--no-private", "--local-root", "/srv",
        "--namespace", "n", "--lease-duration", "30", "--host", "::1", "--port", "0", "--otlp-endpoint", "http://c:4318",
    )  # fmt: skip
    ((_, options, place),) = processes
    assert options == FetchOptions(
        version="v1.18.0", beside=True, follow_instance=True, stale_if_error=True, strict=True, env_proxies=False,
        reach=Reach(False, ("a.org", ".b.org"), Path("/srv")),
    )  # fmt: skip
    assert place == (KubeconfigContext(credentials, "c"), "n", 30.0, "::1", 0, "http://c:4318")


@pytest.mark.parametrize(("option", "value"), [("--version", "latest"), ("--lease-duration", "0"), ("--port", "65536")])
def test_invalid_values_are_usage_errors(
    run: Any, processes: list[Any], credentials: Path, option: str, value: str
) -> None:
    assert option.strip("-") in run("controller", "--kubeconfig", credentials, option, value, code=2).stderr
    assert processes == []


def run_process(directory: Path, *arguments: str) -> Any:
    """Start the controller; yields its process and the port of its health endpoints."""
    command = [
        sys.executable, "-m", "fleethook", "crds", "--data-dir", str(directory / "data"), "controller", "--port", "0", *arguments,
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
    tmp_path: Path, cluster: tuple[Cluster, tuple[str, ...]], number: signal.Signals
) -> None:
    # This apiserver has no Leases, so no process becomes the leader.
    with run_process(tmp_path, *cluster[1]) as (process, port):
        assert get(port, "/healthz")[0] == 200
        status, body = get(port, "/readyz")
        (check,) = [one for one in json.loads(body)["checks"] if one["name"] == "lease"]
        assert (status, check["detail"]) == (200, "another process holds karmada-system/karmada-operator")
        text = get(port, "/metrics")[1]
        assert "fleethook_leader 0.0" in text
        assert "fleethook_crds_fetches_total" in text
        process.send_signal(number)
        assert process.wait(timeout=NET) == 0


def test_beside_the_operator_it_has_a_lease_of_its_own(
    tmp_path: Path, cluster: tuple[Cluster, tuple[str, ...]]
) -> None:
    api, arguments = cluster
    with run_process(tmp_path, *arguments, "--beside-operator", "--namespace", "n") as (_, port):
        assert "another process holds n/fleethook-crds" in get(port, "/readyz")[1]
        wait_for(
            lambda: any(path.endswith("/fleethook-crds") for _, path in api.requests),
            what="it asks for its Lease",
        )


def test_traces_without_their_library_are_a_usage_error(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleethook.tracing.spans_and_otel_variables._is_installed", lambda _: False)
    (tmp_path / "k").touch()
    shown = run("controller", "--kubeconfig", tmp_path / "k", "--otlp-endpoint", "http://localhost:4318", code=2)
    assert "install fleethook[otel]" in shown.stderr


def test_credentials_that_cannot_be_read_are_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("a: [")
    command = [sys.executable, "-m", "fleethook", "crds", "controller", "--port", "0", "--kubeconfig", tmp_path / "k"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=NET)
    assert (done.returncode, done.stderr.decode()) == (
        2,
        f"fleethook: credentials cannot be read from {tmp_path}/k: it is no kubeconfig\n",
    )


def test_a_port_in_use_names_the_option(run: Any, credentials: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shown = run("controller", "--kubeconfig", credentials, "--port", str(port), code=2)
    assert f"cannot listen on 127.0.0.1:{port}: address already in use; give another --port" in shown.stderr
