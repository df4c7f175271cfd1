import base64
import json
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.cluster.kubernetes.watched_resources import DISPATCHING, INTERPRETING
from fleethook.cluster.partial_and_stale_objects import PartState, StaleError
from fleethook.model.admission import AdmissionRequest, errored
from fleethook.server.metrics import Metrics
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint
from fleethook.server.reviews.http_checks import SWITCH_OFF_HINT
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.builders import entry, image, overrider, workload, yurt_app_set
from tests.engines.overrider.controller.test_openyurt_renderer_and_definition import render_configuration, upstream

MUTATE = "/mutate-apps-v1-deployment"
VALIDATE = "/validate-apps-openyurt-io-v1alpha1-yurtappoverrider"
VALIDATE_SET = "/validate-apps-openyurt-io-v1alpha1-yurtappset"
RULE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def app(lines: list[dict[str, Any]]) -> Fleethook:
    made = create_app(Settings(body_limit=20_000), log=lambda line: lines.append(json.loads(line)))
    for document in (yurt_app_set(), RULE):
        made.store.put(document)
    return made


def review(document: Any = None, version: str = "v1", **request: Any) -> bytes:
    body = {
        "uid": "u-1", "operation": "CREATE", "namespace": "default",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "object": document or workload(), **request,
    }  # fmt: skip
    return json.dumps(
        {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "request": body}
    ).encode()


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_review_is_answered_in_the_version_that_asked(app: Fleethook, version: str) -> None:
    answer = (await call(app, MUTATE, review(version=version))).json()
    assert answer["apiVersion"] == f"admission.k8s.io/{version}"
    assert answer["kind"] == "AdmissionReview"
    response = answer["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u-1", True, "JSONPatch")
    patch = json.loads(base64.b64decode(response["patch"]))
    assert {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:2.0"} in patch
    assert "status" not in response


async def test_an_answer_without_patch_has_neither_patch_nor_patch_type(app: Fleethook) -> None:
    response = (await call(app, MUTATE, review(workload(owners=[])))).json()["response"]
    assert response == {"uid": "u-1", "allowed": True}


async def test_a_denial_carries_code_reason_message_and_causes(app: Fleethook) -> None:
    broken = {**RULE, "entries": [{"items": []}], "metadata": {"name": "n", "namespace": "default"}}
    kind = {"group": "apps.openyurt.io", "version": "v1alpha1", "kind": "YurtAppOverrider"}
    response = (await call(app, VALIDATE, review(broken, kind=kind))).json()["response"]
    status = response["status"]
    assert (response["allowed"], status["code"], status["reason"], status["status"]) == (
        False,
        422,
        "Invalid",
        "Failure",
    )
    assert SWITCH_OFF_HINT not in status["message"]
    assert status["details"]["causes"][0] == {
        "field": "entries[0].pools", "message": "names no node pool; write '*' for all of them, or poolSelector for some labels", "reason": "FieldValueRequired",
    }  # fmt: skip


@pytest.mark.parametrize(
    "request_fields",
    [{"operation": "EXPLODE"}, {"kind": "Deployment"}, {"object": "text"}, {"object": [1]}, {"object": {}},
     {"object": {"metadata": 1}}, {"name": 5}],
)  # fmt: skip
async def test_a_review_with_a_uid_is_always_answered_to_that_uid(app: Fleethook, request_fields: Any) -> None:
    answer = await call(app, MUTATE, review(**request_fields))
    response = answer.json()["response"]
    assert (answer.status, response["uid"], response["allowed"]) == (200, "u-1", False)
    assert (response["status"]["code"], bool(response["status"]["message"])) == (400, True)


@pytest.mark.parametrize(("old", "new"), [("ws2", "ws3"), ("", "ws3"), ("ws2", "")])
@pytest.mark.parametrize("kind", ["Deployment", "YurtAppOverrider"])
async def test_an_update_does_not_claim_another_cluster(app: Fleethook, old: str, new: str, kind: str) -> None:
    """Only overriders of ws2 render a workload of ws2."""

    def document(cluster: str) -> dict[str, Any]:
        made = workload() if kind == "Deployment" else overrider(entry("*"))
        annotations = {"kcp.io/cluster": cluster} if cluster else {}
        return {**made, "metadata": {**made["metadata"], "annotations": annotations}}

    path, group = (MUTATE, "apps") if kind == "Deployment" else (VALIDATE, "apps.openyurt.io")
    for cluster in ("ws2", "ws3"):
        for one in (yurt_app_set(), RULE):
            metadata = {**one["metadata"], "annotations": {"kcp.io/cluster": cluster}}
            app.store.put({**one, "metadata": metadata})
    update = {"operation": "UPDATE", "kind": {"group": group, "version": "v1", "kind": kind}}
    answer = (await call(app, path, review(document(new), oldObject=document(old), **update))).json()["response"]
    assert (answer["allowed"], answer["status"]["code"]) == (False, 400)
    assert f"in logical cluster {new!r} and request.oldObject in {old!r}" in answer["status"]["message"]
    same = (await call(app, path, review(document(old), oldObject=document(old), **update))).json()["response"]
    assert same["allowed"]


async def test_a_failing_handler_is_answered_and_logged(app: Fleethook, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Any) -> Any:
        raise ZeroDivisionError("secret detail")

    app.reviews[MUTATE]._handler = fail  # type: ignore[attr-defined]
    response = (await call(app, MUTATE, review())).json()["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", False, 500)
    assert "secret detail" not in response["status"]["message"]
    assert response["status"]["message"].endswith(f"; {SWITCH_OFF_HINT}")
    assert "secret detail" in caplog.text


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/nope", "GET", 404), ("/nope", "POST", 404), ("/healthz", "POST", 405)]
)
async def test_other_paths_and_methods_are_answered_with_a_status(
    app: Fleethook, path: str, method: str, status: int
) -> None:
    answer = await call(app, path, method=method)
    assert (answer.status, answer.json()["kind"], answer.json()["code"]) == (status, "Status", status)


async def test_metrics_count_by_route_operation_and_outcome(app: Fleethook) -> None:
    await call(app, MUTATE, review())
    await call(app, MUTATE, review(workload(owners=[])))
    await call(app, MUTATE, b"{")
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    text = (await call(app, "/metrics", method="GET", headers=accept)).body.decode()
    for operation, outcome in (("CREATE", "patched"), ("CREATE", "allowed"), ("", "malformed")):
        assert f'fleethook_reviews_total{{operation="{operation}",outcome="{outcome}",route="{MUTATE}"}} 1.0' in text
    assert f'fleethook_review_duration_seconds_count{{route="{MUTATE}"}} 3.0' in text
    assert "fleethook_reviews_in_flight 0.0" in text


async def test_openapi_documents_every_review_route(app: Fleethook) -> None:
    document = (await call(app, "/openapi.json", method="GET")).json()
    assert set(app.reviews) <= set(document["paths"])
    schema = document["paths"][MUTATE]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["$ref"] == "#/components/schemas/AdmissionReview"
    assert "AdmissionReview" in document["components"]["schemas"]


async def test_a_draining_server_is_not_ready(app: Fleethook) -> None:
    assert (await call(app, "/readyz", method="GET")).status == 200
    app.draining = True
    answer = await call(app, "/readyz", method="GET")
    assert (answer.status, answer.json()["ready"]) == (503, False)
    assert (await call(app, "/healthz", method="GET")).status == 200


async def test_healthz_fails_after_a_task_has_ended(app: Fleethook) -> None:
    assert (await call(app, "/healthz", method="GET")).json() == {"status": "ok"}
    app.ended.append("source: ValueError: defect")
    answer = await call(app, "/healthz", method="GET")
    assert (answer.status, answer.json()) == (500, {"status": "failed", "ended": ["source: ValueError: defect"]})
    assert (await call(app, MUTATE, review())).status == 200


@pytest.mark.parametrize("path", [MUTATE, VALIDATE, VALIDATE_SET, "/interpret"])
async def test_a_review_is_refused_until_its_objects_are_read(tmp_path: Path, path: str) -> None:
    unread = create_app(Settings(kubeconfig=tmp_path / "none"), log=None)
    answer = await call(unread, path, review(RULE if path == VALIDATE else None))
    assert answer.status == 503
    # With the header, an apiserver's client would repeat the request until its timeout.
    assert "retry-after" not in answer.headers
    assert "cannot be read: not listed yet" in answer.json()["message"]
    readiness = await call(unread, "/readyz", method="GET")
    assert readiness.status == 503
    checks = {check["name"]: check for check in readiness.json()["checks"]}
    assert checks["yurtappsets.apps.openyurt.io"] == {
        "name": "yurtappsets.apps.openyurt.io", "ok": False, "detail": "not listed yet", "degraded": False,
    }  # fmt: skip


async def test_a_review_without_need_for_objects_is_answered_before_they_are_read(tmp_path: Path) -> None:
    unread = create_app(Settings(kubeconfig=tmp_path / "none"), log=None)
    free = review(workload(owners=[]))
    assert (await call(unread, MUTATE, free)).json()["response"] == {"uid": "u-1", "allowed": True}
    defaults = "/mutate-apps-openyurt-io-v1alpha1-yurtappoverrider"
    assert (await call(unread, defaults, review(RULE))).status == 200
    assert (await call(unread, "/explore-foo", b"{}")).status == 400


async def test_a_server_that_lacks_a_kind_is_ready_for_other_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(kubeconfig=tmp_path / "none"), log=None)
    assert app.cluster is not None
    states = [
        PartState("a", True, "", 1.0, failing=False),
        PartState("b", False, "500", None, failing=True, refused=True),
    ]
    monkeypatch.setattr(app.cluster.source, "parts", lambda: iter(states))
    whole, partial = [await call(app, "/readyz", method="GET", query=query) for query in (b"", b"partial=true")]
    assert (whole.status, partial.status) == (503, 200)
    assert whole.json()["checks"] == partial.json()["checks"]
    assert whole.json()["checks"][-1] == {"name": "b", "ok": False, "detail": "500", "degraded": True}
    states[1] = states[1]._replace(refused=False)
    assert (await call(app, "/readyz", method="GET", query=b"partial=true")).status == 503


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [
        ("overrider", {"yurtappoverriders.apps.openyurt.io", "yurtappsets.apps.openyurt.io",
                       "yurtappdaemons.apps.openyurt.io", "nodepools.apps.openyurt.io"}),
        ("dispatch", {one.name for one in DISPATCHING} - {"workspaces.tenancy.kcp.io"}),
        ("interpret", {one.name for one in INTERPRETING} | {"configmaps"}),
        ("crds", set()),
    ],
)  # fmt: skip
async def test_readiness_lists_only_the_kinds_that_an_enabled_engine_needs(
    tmp_path: Path, engine: str, kinds: set[str]
) -> None:
    app = create_app(Settings(kubeconfig=tmp_path / "none", engines={engine}), log=None)
    checks = (await call(app, "/readyz", method="GET")).json()["checks"]
    assert {one["name"] for one in checks} - {"draining"} == kinds


async def test_a_server_whose_apiserver_serves_no_needed_kind_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL outside the API answers 404 to every request, as if there were no webhooks."""
    app = create_app(Settings(kubeconfig=tmp_path / "none", dispatch_as_kcp=True, dispatch_open="loopback"), log=None)
    assert app.cluster is not None
    monkeypatch.setattr(type(app.cluster.source), "finds_nothing", True)
    app.engines["dispatch"].synced.set()
    answer = await call(app, "/readyz", method="GET", query=b"partial=true")
    (found,) = (check for check in answer.json()["checks"] if check["name"] == "apiserver")
    assert (answer.status, found["ok"]) == (503, False)
    assert "serves none of the resources that the engines read" in found["detail"]
    response = (await call(app, "/clusters/ws3/validate", review())).json()["response"]
    assert (response["allowed"], "serves none of the resources" in response["status"]["message"]) == (False, True)


async def test_readyz_reports_openyurts_own_renderer_and_stays_ready(tmp_path: Path) -> None:
    app = create_app(Settings(kubeconfig=tmp_path / "none"), log=None)
    app.store.put(render_configuration())
    checks = (await call(app, "/readyz", method="GET")).json()["checks"]
    (found,) = (check for check in checks if check["name"] == "openyurt")
    assert found["ok"]
    assert "OpenYurt's own renderer is on" in found["detail"]


async def test_writing_an_overrider_warns_about_openyurts_own_renderer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(kubeconfig=tmp_path / "none"), log=None)
    assert app.cluster is not None

    async def read(*_: Any, **__: Any) -> None:
        """The store is up to date."""

    for method, replacement in (("missing", lambda _: ""), ("read_one", read), ("read_selected", read)):
        monkeypatch.setattr(app.cluster.source, method, replacement)
    for document in (yurt_app_set(), upstream()):
        app.store.put(document)
    kind = {"group": "apps.openyurt.io", "version": "v1alpha1", "kind": "YurtAppOverrider"}
    response = (await call(app, VALIDATE, review(RULE, kind=kind, dryRun=True))).json()["response"]
    assert response["allowed"], response
    text = "yurtappoverriders.apps.openyurt.io silently drops "
    assert [one for one in response["warnings"] if text in one and "entries[].items[]" in one]


@pytest.mark.parametrize("waits", [False, True])
async def test_a_review_gets_503_if_its_objects_are_stale(waits: bool) -> None:
    async def read() -> None:
        raise StaleError("overriders changed and cannot be read just now: refused")

    def prepare(_: AdmissionRequest) -> Any:
        if waits:
            return read()
        raise StaleError("overriders changed and cannot be read just now: refused")

    endpoint = AdmissionEndpoint(
        MUTATE, lambda _: errored("never"), metrics=Metrics(), body_limit=9999, log=None, prepare=prepare, hint="hint"
    )
    answer = await call(endpoint, MUTATE, review())
    assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable")
    assert answer.json()["message"] == "overriders changed and cannot be read just now: refused; hint"
