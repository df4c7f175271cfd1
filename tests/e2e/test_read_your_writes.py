"""A review sees writes made just before it, even if the watch is late: a real apiserver and a delayed watch."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.cluster.api_errors import UnreachableError
from fleethook.engines.overrider.controller.workload_writes_and_retries import RequiredVersions
from fleethook.engines.overrider.subject.workload_owner import find_owner
from fleethook.model.openyurt import REVISION_LABEL
from fleethook.patch import apply
from fleethook.settings import Settings
from tests.asgi_client import Answer, call
from tests.builders import entry, image, overrider, owner, workload, yurt_app_set
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import OPENYURT
from tests.e2e.test_source_faults import config
from tests.waiting import NET, until

MUTATE = "/mutate-apps-v1-deployment"
VALIDATE = "/validate-apps-openyurt-io-v1alpha1-yurtappoverrider"


class LateWatch:
    """Wraps the connection of the app; on request, it delays watch events and refuses reads."""

    def __init__(self, app: Fleethook) -> None:
        assert app.cluster is not None
        connection = app.cluster.connection
        self._lines, self._request = connection.lines, connection.request
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.readable = True
        self.reads: list[str] = []
        connection.lines = self.lines  # type: ignore[method-assign]
        connection.request = self.request  # type: ignore[method-assign]

    @contextlib.asynccontextmanager
    async def lines(self, path: str, **rest: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._lines(path, **rest) as lines:
            yield self._late(lines)

    async def _late(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            await self.flowing.wait()
            yield line

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        if not self.readable:
            raise UnreachableError("the test lets nothing be read")
        self.reads.append(path)
        return await self._request(method, path, **rest)


class Cluster:
    """The app that watches the apiserver, and objects of one namespace there."""

    def __init__(self, app: Fleethook, watch: LateWatch, admin: Api, namespace: str) -> None:
        self.app, self.watch, self.admin, self.namespace = app, watch, admin, namespace
        self.owner = ""

    async def write(self, plural: str, document: dict[str, Any]) -> dict[str, Any]:
        document["metadata"]["namespace"] = self.namespace
        document["metadata"].pop("uid", None)
        path = f"{OPENYURT}/namespaces/{self.namespace}/{plural}/{document['metadata']['name']}"
        stored = dict(await asyncio.to_thread(self.admin.apply, path, document))
        if plural == "yurtappsets":
            self.owner = stored["metadata"]["uid"]
        return stored

    async def delete(self, plural: str, name: str) -> dict[str, Any]:
        path = f"{OPENYURT}/namespaces/{self.namespace}/{plural}/{name}"
        return dict(await asyncio.to_thread(self.admin.delete, path))

    async def review(self, operation: str, *, seen: str = "", route: str = MUTATE, **given: Any) -> Answer:
        document = given.get("document") or workload(owners=[owner(uid=self.owner)])
        document["metadata"]["namespace"] = self.namespace
        if seen:
            annotations = document["metadata"].setdefault("annotations", {})
            annotations["LastOverrideTime"] = RequiredVersions(seen).write_trigger("2026-06-01T00:00:00Z")
        request = {
            "uid": "u", "operation": operation, "namespace": self.namespace, "object": document,
            "kind": given.get("kind") or {"group": "apps", "version": "v1", "kind": "Deployment"},
        }  # fmt: skip
        if operation == "UPDATE":
            request["oldObject"] = given.get("old") or document
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        return await call(self.app, route, json.dumps(review).encode())

    async def image(self, operation: str, *, seen: str = "") -> str:
        response = (await self.review(operation, seen=seen)).json()["response"]
        assert response["allowed"], response
        patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
        rendered: Any = apply(workload(), [step for step in patch if step["path"].startswith("/spec")])
        return str(rendered["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.fixture
async def cluster(
    plane: ControlPlane, admin: Api, crds: None, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cluster]:
    monkeypatch.setattr("fleethook.engines.overrider.admission.fresh_read_requests_and_waits.CATCH_UP_SECONDS", 0.3)
    assert admin[f"{OPENYURT}/yurtappoverriders"]  # Served, even if earlier tests changed the definitions.
    app = create_app(Settings(kubeconfig=config(plane, "late", plane.port)), log=None)
    watch = LateWatch(app)
    found = Cluster(app, watch, admin, namespace)
    async with app.router.lifespan_context(app):
        assert app.cluster is not None
        await asyncio.wait_for(app.cluster.source.wait_synced(), NET)
        await until(lambda: all(check.ok for check in app.checks()))
        await found.write("yurtappsets", yurt_app_set())
        await found.write("yurtappoverriders", rule("nginx:2.0"))
        await until(lambda: app.store.get("", overriders(), namespace, "demo1") is not None)
        assert await found.image("CREATE") == "nginx:2.0"
        watch.reads.clear()
        watch.flowing.clear()
        yield found
        watch.flowing.set()


def overriders() -> Any:
    from fleethook.model.openyurt import YURT_APP_OVERRIDER  # noqa: PLC0415 - used here only

    return YURT_APP_OVERRIDER


def rule(tag: str, name: str = "demo1") -> dict[str, Any]:
    return overrider(entry("*", items=[image("nginx", tag)]), name=name)


def of_template(cluster: Cluster, image: str, revision: str = "demo-1") -> dict[str, Any]:
    """The workload that OpenYurt's controller writes from a template with this image."""
    made = workload(owners=[owner(uid=cluster.owner)])
    made["metadata"]["labels"][REVISION_LABEL] = revision
    made["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return made


async def write_template(cluster: Cluster, image: str) -> dict[str, Any]:
    made = yurt_app_set()
    made["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return await cluster.write("yurtappsets", made)


async def review(cluster: Cluster, document: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the workload that the apiserver stores."""
    response = (await cluster.review("UPDATE" if old else "CREATE", document=document, old=old)).json()["response"]
    assert response["allowed"], response
    return dict(apply(document, json.loads(base64.b64decode(response["patch"])) if "patch" in response else []))


def image_of(stored: dict[str, Any]) -> str:
    return str(stored["spec"]["template"]["spec"]["containers"][0]["image"])


async def test_nothing_is_read_while_the_store_is_up_to_date(cluster: Cluster) -> None:
    cluster.watch.flowing.set()
    stored = await review(cluster, of_template(cluster, "nginx:1.0"))
    by_hand = {**stored, "spec": {**stored["spec"], "template": of_template(cluster, "nginx:9.9")["spec"]["template"]}}
    assert image_of(await review(cluster, by_hand, stored)) == "nginx:2.0"
    seen = await write_template(cluster, "nginx:1.1")
    assert cluster.app.cluster is not None
    kind = find_owner(stored["metadata"]).group_kind  # type: ignore[union-attr]
    assert await cluster.app.cluster.source.catch_up(kind, int(seen["metadata"]["resourceVersion"]), seconds=NET)
    written = of_template(cluster, "nginx:1.1", "demo-2")
    written["metadata"]["annotations"] = stored["metadata"]["annotations"]
    assert image_of(await review(cluster, written, stored)) == "nginx:2.0"
    assert cluster.watch.reads == []


def version(cluster: Cluster) -> str:
    stored = cluster.app.store.get("", overriders(), cluster.namespace, "demo1")
    return str(stored["entries"][0]["items"][0]["image"]["imageClaim"])


async def test_an_update_by_trigger_waits_for_the_watch_and_reads_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleethook.engines.overrider.admission.fresh_read_requests_and_waits.CATCH_UP_SECONDS", NET)
    seen = (await cluster.write("yurtappoverriders", rule("nginx:3.0")))["metadata"]["resourceVersion"]
    answer = asyncio.create_task(cluster.image("UPDATE", seen=seen))
    done, _ = await asyncio.wait([answer], timeout=0.2)
    assert not done
    cluster.watch.flowing.set()
    assert await asyncio.wait_for(answer, NET) == "nginx:3.0"
    assert cluster.watch.reads == []


async def test_an_update_by_trigger_reads_live_where_the_watch_does_not_come(cluster: Cluster) -> None:
    seen = (await cluster.write("yurtappoverriders", rule("nginx:3.0")))["metadata"]["resourceVersion"]
    assert await cluster.image("UPDATE", seen=seen) == "nginx:3.0"
    assert [path.rpartition("/")[2] for path in cluster.watch.reads] == ["demo1"]


async def test_a_rival_that_was_made_just_now_is_found_by_validation(cluster: Cluster) -> None:
    await cluster.delete("yurtappoverriders", "demo1")
    await cluster.write("yurtappoverriders", rule("nginx:3.0", name="first"))
    kind = {"group": "apps.openyurt.io", "version": "v1alpha1", "kind": "YurtAppOverrider"}
    second = rule("nginx:4.0", name="second")
    response = (await cluster.review("CREATE", route=VALIDATE, document=second, kind=kind)).json()["response"]
    assert not response["allowed"]
    assert "first" in response["status"]["message"]


async def test_the_watch_catching_up_takes_nothing_back(cluster: Cluster) -> None:
    """Events older than a live read arrive afterwards; in the end the store equals the server."""
    for tag in ("nginx:3.0", "nginx:4.0", "nginx:5.0"):
        last = await cluster.write("yurtappoverriders", rule(tag))
    assert await cluster.image("UPDATE", seen=last["metadata"]["resourceVersion"]) == "nginx:5.0"
    await cluster.delete("yurtappoverriders", "demo1")
    gone = cluster.admin[f"{OPENYURT}/yurtappoverriders"]["metadata"]["resourceVersion"]
    assert await cluster.image("UPDATE", seen=gone) == "nginx:1.0"
    last = await cluster.write("yurtappoverriders", rule("nginx:6.0"))
    cluster.watch.flowing.set()
    assert cluster.app.cluster is not None
    caught_up = cluster.app.cluster.source.catch_up(overriders(), int(last["metadata"]["resourceVersion"]), seconds=NET)
    assert await caught_up
    assert version(cluster) == "nginx:6.0"
    assert await cluster.image("UPDATE") == "nginx:6.0"
