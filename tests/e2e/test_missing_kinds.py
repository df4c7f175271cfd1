"""If a kind cannot be listed, only requests that need it are refused, at once; a kind is watched once it is defined."""

import asyncio
import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import DEFINITIONS, WatchedResource, decode_object
from fleethook.cluster.store import Store
from schemas.definitions import RESOURCES, custom_resource_definition
from tests.builders import entry, node_pool, overrider, yurt_app_daemon
from tests.e2e.chart import define
from tests.e2e.cluster import CRDS, Api, ControlPlane, RefusedError, control_plane, is_established
from tests.e2e.conftest import install_crds
from tests.e2e.fleet import OPENYURT
from tests.e2e.installation import Installation, checks, selects
from tests.e2e.subject import TO_2, TO_3, Subject
from tests.e2e.test_source_faults import config, gadget
from tests.e2e.workloads import images, path_of, workload_of
from tests.engines.overrider.controller.test_openyurt_renderer_and_definition import upstream
from tests.other_constants import constants
from tests.waiting import NET, until, wait_for

SETS = f"{CRDS}/yurtappsets.apps.openyurt.io"
GROUP = "missing.example.com"


@contextlib.contextmanager
def unlistable_sets(admin: Api, namespace: str) -> Iterator[None]:
    """YurtAppSets as after an upgrade of OpenYurt, with its conversion webhook down."""
    kept = admin[SETS]["spec"]
    first = kept["versions"][0]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    second = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    admin.merge(SETS, {"spec": {"versions": [{**first, "storage": False}, second]}})
    later = f"/apis/apps.openyurt.io/v1beta1/namespaces/{namespace}/yurtappsets"
    made = {"apiVersion": "apps.openyurt.io/v1beta1", "kind": "YurtAppSet", "metadata": {"name": "later"}}
    wait_for(lambda: admin.call("POST", later, made)[0] == 201, what="v1beta1 is stored")
    webhook = {"clientConfig": {"url": "https://127.0.0.1:9/convert"}, "conversionReviewVersions": ["v1"]}
    try:
        admin.merge(SETS, {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
        wait_for(lambda: admin.call("GET", f"{OPENYURT}/yurtappsets")[0] >= 429, what="the kind cannot be listed")
        yield
    finally:
        admin.merge(SETS, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
        wait_for(lambda: admin.call("DELETE", f"{later}/later")[0] in (200, 404), what="v1beta1 can be deleted")
        admin.merge(SETS, {"spec": {"versions": [first, {**second, "storage": False}]}})
        admin.merge(f"{SETS}/status", {"status": {"storedVersions": ["v1alpha1"]}})
        admin.merge(SETS, {"spec": {"versions": [first]}})
        wait_for(lambda: admin.call("GET", f"{OPENYURT}/yurtappsets")[0] == 200, what="the kind can be listed again")


class Daemon:
    """A YurtAppDaemon with an overrider."""

    def __init__(self, admin: Api, namespace: str) -> None:
        self.admin, self.namespace = admin, namespace
        made = yurt_app_daemon()
        made["metadata"] = {"name": "agent", "namespace": namespace}
        self.stored = admin.create(f"{OPENYURT}/namespaces/{namespace}/yurtappdaemons", made)
        admin.apply(f"{OPENYURT}/nodepools/hangzhou", node_pool("hangzhou"))

    def override(self, *entries: dict[str, Any]) -> None:
        rule = overrider(*entries, name="agent", subject={"kind": "YurtAppDaemon", "name": "agent"})
        rule["metadata"]["namespace"] = self.namespace
        self.admin.apply(f"{OPENYURT}/namespaces/{self.namespace}/yurtappoverriders/agent", rule)

    def create_workload(self) -> dict[str, Any]:
        made = workload_of(self.stored, "hangzhou")
        return dict(self.admin.create(path_of(made), made))


def edit_image(subject: Subject, tag: str) -> dict[str, Any]:
    stored = subject.workload("hangzhou")
    stored["spec"]["template"]["spec"]["containers"][0]["image"] = tag
    return stored


def test_only_requests_that_need_the_missing_kind_are_refused(
    installation: Installation, admin: Api, namespace: str
) -> None:
    with installation.up():
        daemon, subject = Daemon(admin, namespace), Subject(admin, namespace, ["hangzhou"])
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: subject.status().get("summary") == "1/1")
    with unlistable_sets(admin, namespace), installation.started() as server:
        wait_for(
            lambda: checks(server, query="?partial=true")[0] == 200,
            what="it is ready for the requests that it can answer",
        )
        status, details = checks(server)
        assert status == 503
        assert "conversion webhook for apps.openyurt.io" in details["yurtappsets.apps.openyurt.io"]

        daemon.override(entry("*", items=TO_2))
        wait_for(lambda: selects(admin, namespace, "YurtAppDaemon/agent"), what="the subject's workloads are sent")
        made = daemon.create_workload()
        assert images(made) == {"nginx": "nginx:2.0"}
        daemon.override(entry("*", items=TO_3))
        wait_for(
            lambda: images(admin[path_of(made)]) == {"nginx": "nginx:3.0"}, what="the leader renders the other kind"
        )
        path = subject.paths["hangzhou"]
        # An apiserver that retried would report its own timeout instead of our message.
        reason = "failed to call webhook: yurtappsets.apps.openyurt.io cannot be read: 500: conversion webhook"
        with pytest.raises(RefusedError, match=reason):
            admin.replace(path, edit_image(subject, "nginx:7.0"))
        with pytest.raises(RefusedError, match=reason):
            admin.create(path_of(workload_of(subject.stored, "beijing")), workload_of(subject.stored, "beijing"))
        with pytest.raises(RefusedError, match=reason):
            subject.override(entry("*", items=TO_3))
        admin.merge(path, {"metadata": {"labels": {"team": "edge"}}})
        status, body = server.request("POST", "/explore-foo", b"{}")
        assert (status, json.loads(body)["reason"]) == (400, "BadRequest")
    with installation.up():
        assert images(admin.replace(path, edit_image(subject, "nginx:7.0"))) == {"nginx": "nginx:2.0"}


async def test_a_kind_is_followed_as_soon_as_it_is_defined(plane: ControlPlane, admin: Api, namespace: str) -> None:
    late = WatchedResource(GROUP, "v1", "laggards", "Laggard", decode_object)
    store = Store()
    async with Connection(config(plane, "late-kinds", plane.port)) as connection:
        source = KubernetesSource([DEFINITIONS, late], connection, store, absent_seconds=3600)
        async with run_in_background(source.run(), name="source", ended=pytest.fail):
            await asyncio.wait_for(source.wait_synced(), NET)

            def install() -> None:
                define(admin, GROUP, "v1", "Laggard", scope="Namespaced")
                first = {**gadget(namespace, "first"), "apiVersion": f"{GROUP}/v1", "kind": "Laggard"}
                wait_for(lambda: admin.call("POST", late.in_namespace(namespace), first)[0] == 201)

            await asyncio.to_thread(install)
            await until(lambda: list(store.each("", late.group_kind)), what="the object is there")


@pytest.fixture
def fresh(binaries: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """A cluster without any of our kinds."""
    with control_plane(binaries, tmp_path) as running_plane:
        yield running_plane


def test_on_a_fresh_cluster_overriders_are_followed_as_soon_as_they_are_defined(
    fresh: ControlPlane, tmp_path: Path
) -> None:
    admin = fresh.api()
    directory = tmp_path / "server"
    directory.mkdir()
    with Installation(fresh, directory).up(**constants(absent=3600)):
        for resource in RESOURCES:
            wait_for(lambda name=f"{resource.plural}.{resource.group}": is_established(admin, name))
        subject = Subject(admin, "default", ["hangzhou"])
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: subject.status().get("summary") == "1/1", what="the overrider is followed")


def test_a_definition_without_a_status_is_reported_and_the_status_follows_a_replacement_within_seconds(
    fresh: ControlPlane, tmp_path: Path
) -> None:
    admin = fresh.api()
    directory = tmp_path / "server"
    directory.mkdir()
    theirs = copy.deepcopy(upstream())
    admin.apply(f"{CRDS}/{theirs['metadata']['name']}", theirs, manager="openyurt")
    with Installation(fresh, directory).up() as server:
        wait_for(lambda: is_established(admin, "yurtappsets.apps.openyurt.io"))
        subject = Subject(admin, "default", ["hangzhou"])
        subject.override(entry("*", items=TO_2))
        rendered = ("YurtAppOverrider", "AllRendered", "1 of 1 workloads")
        wait_for(lambda: rendered in subject.events(), what="an event reports what the status cannot")
        told = "drops status (so kubectl get yao shows no state), entries[].items[].replicas"
        wait_for(lambda: told in checks(server)[1].get("openyurt", ""), what=f"/readyz says: {told}")
        install_crds(admin)
        wait_for(lambda: "openyurt" not in checks(server)[1])
        wait_for(lambda: subject.status().get("summary") == "1/1", what="the status is written")
    ours = custom_resource_definition(RESOURCES[0])["metadata"]["name"]
    assert f"keeping a CustomResourceDefinition that another installer owns: {CRDS}/{ours}" in server.log.read_text()
