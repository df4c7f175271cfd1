"""The apiserver sends workloads of a new overrider even if the leader's watch is late: a real apiserver, a delayed watch."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.cluster.kubernetes.resources import MUTATING_CONFIGURATIONS
from fleethook.cluster.registration.configuration_objects import URLReference, list_selected, webhook_configurations
from fleethook.cluster.registration.match_conditions import SubjectName
from fleethook.engines.overrider.overrider_server import OverriderServer
from fleethook.engines.overrider.subject.bound_subjects import bound_subjects, make_selection_writer
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.builders import entry, overrider, owner, workload
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import OPENYURT, unregister
from tests.e2e.installation import CONFIGURATION, selects
from tests.e2e.test_read_your_writes import VALIDATE, LateWatch
from tests.e2e.test_source_faults import config, until
from tests.e2e.workloads import path_of
from tests.waiting import NET

RULE = {"group": "apps.openyurt.io", "version": "v1alpha1", "kind": "YurtAppOverrider"}


class Late:
    """A leading replica whose watch a test delays; it is registered at an address without a server."""

    def __init__(self, app: Fleethook, admin: Api, namespace: str) -> None:
        assert app.cluster is not None
        self.app, self.admin, self.namespace = app, admin, namespace
        self.watch = LateWatch(app)
        self.now = 100.0
        self.leader = make_selection_writer(
            app.find_engine(OverriderServer).context, app.cluster.connection, clock=lambda: self.now
        )

    def path(self) -> str:
        return f"{OPENYURT}/namespaces/{self.namespace}/yurtappoverriders/demo"

    async def create_overrider(self) -> None:
        """Create an overrider as an apiserver does: call the replica, then store the overrider."""
        await self.ask()
        await self.store()

    async def ask(self) -> None:
        """Send the review of the overrider to the replica."""
        rule = overrider(entry("*"), name="demo")
        rule["metadata"] |= {"namespace": self.namespace, "uid": "asked-with"}
        request = {"uid": "u", "operation": "CREATE", "namespace": self.namespace, "object": rule, "kind": RULE}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        answer = await call(self.app, VALIDATE, json.dumps(review).encode())
        assert answer.json()["response"]["allowed"]

    async def store(self) -> None:
        rule = overrider(entry("*"), name="demo")
        rule["metadata"]["namespace"] = self.namespace
        await asyncio.to_thread(self.admin.apply, self.path(), rule)

    def is_stored(self) -> bool:
        """Whether the replica's store has the overrider."""
        return self.app.store.get("", YURT_APP_OVERRIDER, self.namespace, "demo") is not None

    def is_sent(self, subject: str) -> bool:
        """Whether the apiserver sends a workload of this subject, and so refuses it."""
        made: dict[str, Any] = workload(owners=[owner(name=subject, uid="u")])
        made["metadata"]["namespace"] = self.namespace
        status, body, _ = self.admin.call("POST", path_of(made).rpartition("/")[0], made, dryRun="All")
        assert status == 201 or "failed calling webhook" in body["message"]
        return status != 201


@pytest.fixture
async def late(plane: ControlPlane, admin: Api, crds: None, namespace: str) -> AsyncIterator[Late]:
    assert admin[f"{OPENYURT}/yurtappoverriders"]  # Served, even if earlier tests changed the definitions.
    unregister(admin)
    app = create_app(Settings(kubeconfig=config(plane, "announcing", plane.port), controller=True), log=None)
    made = Late(app, admin, namespace)
    mutating, _ = webhook_configurations(URLReference("https://127.0.0.1:9"), selecting=False)
    mutating["webhooks"] = [webhook for webhook in mutating["webhooks"] if webhook["name"] in list_selected()]
    async with app.router.lifespan_context(app):
        assert app.cluster is not None
        await asyncio.wait_for(app.cluster.source.wait_synced(), NET)
        await asyncio.to_thread(admin.apply, CONFIGURATION, mutating)
        try:
            await until(lambda: made.is_sent("other"), what="everything is sent")
            yield made
        finally:
            made.watch.flowing.set()
            unregister(admin)


async def test_the_first_condition_has_an_overrider_that_the_leader_has_not_seen(late: Late) -> None:
    late.watch.flowing.clear()
    await late.create_overrider()
    assert not late.is_stored()
    await late.leader.write()
    await until(lambda: not late.is_sent("other"), what="the apiserver has the condition")
    assert late.is_sent("demo")


async def test_an_overrider_that_is_created_again_stays_in_the_condition(late: Late) -> None:
    # The replica did not admit the former one, so only the leader's own list has the subject.
    await late.store()
    await until(late.is_stored)
    await late.leader.write()
    assert selects(late.admin, late.namespace)
    await asyncio.to_thread(late.admin.delete, late.path())
    await until(lambda: not late.is_stored())
    late.watch.flowing.clear()
    await late.create_overrider()
    assert not late.is_stored()
    await late.leader.write()
    assert selects(late.admin, late.namespace)


async def test_an_overrider_is_read_before_its_subject_is_taken_out(late: Late) -> None:
    """The watch is later than the expiry of any announcement."""
    late.watch.flowing.clear()
    await late.create_overrider()
    await late.leader.write()
    late.now += 3600
    assert not late.is_stored()
    await late.leader.write()
    assert selects(late.admin, late.namespace)
    assert SubjectName(late.namespace, "YurtAppSet", "demo") in bound_subjects(late.app.store)


async def test_an_overrider_is_admitted_when_the_replicas_own_watch_has_the_announcement(
    late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleethook.cluster.registration.condition_writer._MAX_SECONDS", NET)
    monkeypatch.setattr("fleethook.engines.overrider.admission.read_your_writes.CATCH_UP_SECONDS", NET)
    await late.leader.write()
    late.watch.flowing.clear()
    asking = asyncio.create_task(late.ask())
    await until(lambda: selects(late.admin, late.namespace), what="the condition names the subject")
    for _ in range(20):  # By then, the apiserver has answered the write of the condition, too.
        await late.watch.request("GET", CONFIGURATION)
    assert not asking.done()
    late.watch.flowing.set()
    await asyncio.wait_for(asking, NET)
    stored = late.app.store.get("", MUTATING_CONFIGURATIONS.group_kind, "", "fleethook")
    assert stored is not None
    assert "fleethook.io/announced" in stored["metadata"]["annotations"]
