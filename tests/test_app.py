"""The application: paths, errors, and the checks of readiness."""

from pathlib import Path

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.serving import EXAMPLES, MUTATE, REVIEW


def create(**settings: object) -> Fleethook:
    return create_app(Settings(**settings), log=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "method", "status", "reason"),
    [("/nowhere", "GET", 404, "NotFound"), ("/healthz", "POST", 405, "MethodNotAllowed")],
)
async def test_unknown_paths_and_methods_are_answered_with_a_status(
    path: str, method: str, status: int, reason: str
) -> None:
    answer = await call(create(), path, method=method)
    assert (answer.status, answer.json()["kind"], answer.json()["reason"]) == (status, "Status", reason)


async def test_an_invalid_parameter_is_a_bad_request() -> None:
    answer = await call(create(), "/readyz", method="GET", query=b"partial=perhaps")
    assert (answer.status, answer.json()["reason"]) == (400, "BadRequest")


async def test_routes_of_disabled_engines_do_not_exist() -> None:
    assert (await call(create(engines={"dispatch"}), MUTATE, REVIEW.read_bytes())).status == 404
    assert (await call(create(engines={"overrider"}), MUTATE, REVIEW.read_bytes())).status == 200


async def test_the_openapi_document_has_the_review_routes() -> None:
    document = create().openapi()
    assert {MUTATE, "/clusters/{cluster}/mutate", "/healthz"} <= document["paths"].keys()


async def test_a_draining_server_is_not_ready_and_closes_connections() -> None:
    app = create()
    app.draining = True
    answer = await call(app, "/readyz", method="GET")
    assert (answer.status, answer.headers["connection"]) == (503, "close")
    assert answer.json()["checks"][0] == {
        "name": "draining", "ok": False, "detail": "shutting down", "degraded": False,
    }  # fmt: skip
    assert app.find_direct(MUTATE) is None


async def test_mistakes_of_manifests_are_shown_and_leave_the_server_ready(tmp_path: Path) -> None:
    story = EXAMPLES / "yurtappoverrider" / "story-2"
    (tmp_path / "set.yaml").write_text((story / "yurtappset.yaml").read_text())
    rule = (story / "overrider.yaml").read_text()
    (tmp_path / "rule.yaml").write_text(rule.replace("  - hangzhou\n", "  - hangzou\n", 1))
    app = create(manifests=tmp_path)
    async with app.router.lifespan_context(app):
        checks = {check.name: check for check in app.checks()}
    assert checks["overriders"].ok
    assert "did you mean 'hangzhou'?" in checks["overriders"].detail
