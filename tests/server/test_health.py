"""The routes of kubelets and Prometheus: the checks, and requests beyond the limit of connections."""

from fleethook.app import create_app
from fleethook.server.health import HealthOnly, join_findings
from fleethook.settings import Settings
from tests.asgi_client import call


async def test_connections_beyond_the_limit_get_health_checks_and_are_closed() -> None:
    app = HealthOnly(create_app(Settings(), log=None))
    for path in ("/healthz", "/readyz", "/metrics"):
        answer = await call(app, path, method="GET")
        assert (answer.status, answer.headers["connection"]) == (200, "close")


async def test_connections_beyond_the_limit_get_nothing_else() -> None:
    answer = await call(HealthOnly(create_app(Settings(), log=None)), "/mutate-apps-v1-deployment", b"{}")
    assert (answer.status, answer.headers["connection"], answer.headers["retry-after"]) == (503, "close", "1")
    assert "max_connections" in answer.json()["message"]


def test_of_many_findings_the_first_are_shown() -> None:
    assert join_findings(["a", "b"]) == "a; b"
    assert join_findings(["a"] * 22) == f"{'; '.join(['a'] * 20)}; and 2 more"


def test_a_server_without_objects_is_ready_and_names_the_lack() -> None:
    checks = {check.name: check for check in create_app(Settings(), log=None).checks()}
    assert checks["manifests"].ok
    assert "no source of objects" in checks["manifests"].detail
