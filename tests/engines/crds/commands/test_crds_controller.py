"""``fleethook crds controller``: its options, as the process gets them."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.cli.inputs.kubeconfig import Target
from fleethook.engines.crds.commands import crds_process
from fleethook.engines.crds.controller.controller_options import Options, Reach


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of each process that was started."""
    seen: list[Any] = []
    monkeypatch.setattr(crds_process, "run_controller", lambda *given: seen.append(given))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return seen


def test_without_a_cluster_it_does_not_start(run: Any, started: list[Any]) -> None:
    assert "give one of --kubeconfig and --context, or run it in a pod" in run("controller", code=2).stderr
    assert started == []


def test_in_a_pod_it_uses_the_service_account(run: Any, started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    run("controller")
    ((_, _, place),) = started
    assert place.cluster == Target(None)


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    file = tmp_path / "k"
    file.touch()
    return file


def test_the_defaults_are_those_of_the_operator(
    run: Any, started: list[Any], tmp_path: Path, credentials: Path
) -> None:
    run("controller", "--kubeconfig", credentials)
    ((cache, options, place),) = started
    assert cache.directory == tmp_path / "data" / "cache"
    assert options == Options(
        version="", beside=False, follow_instance=False, stale_if_error=False, strict=False, env_proxies=True,
        faithful_backoff=False, apply=False, reach=Reach(True, (), None),
    )  # fmt: skip
    assert place == (Target(credentials), "karmada-system", 15.0, "127.0.0.1", 8080, None)


def test_each_option_reaches_the_process(run: Any, started: list[Any], credentials: Path) -> None:
    run(
        "controller", "--kubeconfig", credentials, "--context", "c", "--beside-operator", "--version", "v1.18.0", "--follow-instance", "--stale-if-error", "--strict",
        "--no-env-proxy", "--allow-host", "a.org", "--allow-host", ".b.org", "--no-private", "--local-root", "/srv", "--faithful-backoff",
        "--apply", "--namespace", "n", "--lease-duration", "30", "--host", "::1", "--port", "0", "--otlp-endpoint", "http://c:4318",
    )  # fmt: skip
    ((_, options, place),) = started
    assert options == Options(
        version="v1.18.0", beside=True, follow_instance=True, stale_if_error=True, strict=True, env_proxies=False,
        faithful_backoff=True, apply=True, reach=Reach(False, ("a.org", ".b.org"), Path("/srv")),
    )  # fmt: skip
    assert place == (Target(credentials, "c"), "n", 30.0, "::1", 0, "http://c:4318")


@pytest.mark.parametrize(("option", "value"), [("--version", "latest"), ("--lease-duration", "0"), ("--port", "65536")])
def test_invalid_values_are_usage_errors(
    run: Any, started: list[Any], credentials: Path, option: str, value: str
) -> None:
    assert option.strip("-") in run("controller", "--kubeconfig", credentials, option, value, code=2).stderr
    assert started == []
