"""The writes that a real apiserver sends to fleethook, and so refuses while fleethook is down."""

from typing import Any

import pytest

from fleethook.engines.overrider.subject.announcements import Announcement
from fleethook.engines.overrider.subject.match_condition_texts import (
    SelectedSubjects,
    SubjectName,
    list_selected,
    select_workloads,
)
from tests.builders import entry, overrider
from tests.e2e.cluster import Api, RefusedError
from tests.e2e.fleet import OPENYURT
from tests.e2e.installation import (
    CONFIGURATION,
    Installation,
    announcements,
    expressions,
    selection,
    selects,
    without_leader,
)
from tests.e2e.subject import TO_2, Subject
from tests.e2e.workloads import images, path_of, workload_of
from tests.waiting import wait_for


@pytest.fixture
def plain(admin: Api, namespace: str) -> Subject:
    """A YurtAppSet without overrider."""
    other = f"{namespace}-plain"
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    return Subject(admin, other, ["hangzhou"])


def edit(subject: Subject, tag: str) -> None:
    """Write the workload of a pool as its owner's controller does."""
    stored = subject.workload("hangzhou")
    stored["spec"]["template"]["spec"]["containers"][0]["image"] = tag
    subject.admin.replace(subject.paths["hangzhou"], stored)


def refused(subject: Subject, tag: str) -> bool:
    with pytest.raises(RefusedError, match=r'failed calling webhook "deployments\.overrider\.fleethook\.io"'):
        edit(subject, tag)
    return True


def add_pool(subject: Subject, name: str) -> Any:
    return subject.admin.create(path_of(workload_of(subject.stored, name)), workload_of(subject.stored, name))


def test_while_it_is_down_only_workloads_of_overriders_are_refused(
    installation: Installation, admin: Api, plain: Subject, namespace: str
) -> None:
    with installation.up():
        bound = Subject(admin, namespace, ["beijing", "hangzhou"])
        bound.override(entry("hangzhou", items=TO_2))
        wait_for(lambda: bound.status().get("summary") == "1/1")
        wait_for(lambda: selects(admin, bound.namespace), what="the configuration names the subject")

    edit(plain, "nginx:7.0")
    add_pool(plain, "beijing")
    assert refused(bound, "nginx:7.0")
    with pytest.raises(RefusedError, match="failed calling webhook"):
        add_pool(bound, "shanghai")
    # No overrider can be created meanwhile: its validation is refused, too.
    with pytest.raises(RefusedError, match="failed calling webhook"):
        plain.override(entry("*", items=TO_2))

    with installation.up():
        bound.delete_override()
        wait_for(lambda: bound.images() == {"beijing": "nginx:1.0", "hangzhou": "nginx:1.0"})
        wait_for(lambda: not selects(admin, bound.namespace), what="the configuration names the subject no more")

    edit(bound, "nginx:7.0")
    assert images(bound.workload("hangzhou")) == {"nginx": "nginx:7.0"}


def test_a_workload_that_is_still_rendered_is_sent_after_its_overrider_is_gone(
    installation: Installation, admin: Api, namespace: str
) -> None:
    """The overrider was deleted while no replica could restore the workloads."""
    with installation.up():
        subject = Subject(admin, namespace, ["hangzhou"])
        subject.override(entry("*", items=TO_2))
        wait_for(lambda: subject.status().get("summary") == "1/1")
        wait_for(lambda: selects(admin, subject.namespace), what="the configuration names the subject")
    subject.delete_override()
    with installation.up(FLEETHOOK_CONTROLLER="false"):
        wait_for(lambda: not selects(admin, subject.namespace), what="the configuration names the subject no more")
        edit(subject, "nginx:1.0")
        assert "fleethook.io/rendered" not in subject.workload("hangzhou")["metadata"]["annotations"]


def test_an_overrider_is_in_the_configuration_before_it_is_stored(
    installation: Installation, admin: Api, plain: Subject
) -> None:
    """Otherwise workloads created right after it would roll out twice."""
    with installation.up() as server:
        wait_for(lambda: expressions(admin), what="the configuration has the condition")
        dry = overrider(entry("*", items=TO_2))
        dry["metadata"]["namespace"] = plain.namespace
        admin.create(f"{OPENYURT}/namespaces/{plain.namespace}/yurtappoverriders", dry, dryRun="All")
        assert not selects(admin, plain.namespace)
        plain.override(entry("*", items=TO_2))
        assert selects(admin, plain.namespace)
        # The leader can distinguish the overrider from a former one of the same subject.
        uid = admin[f"{OPENYURT}/namespaces/{plain.namespace}/yurtappoverriders/demo1"]["metadata"]["uid"]
        assert Announcement(SubjectName(plain.namespace, "YurtAppSet", "demo"), uid) in announcements(admin)
        wait_for(lambda: plain.status().get("summary") == "1/1")
        assert selects(admin, plain.namespace)
        assert "cannot announce" not in server.log.read_text()


def test_an_overrider_is_in_the_configuration_while_no_replica_leads(
    installation: Installation, admin: Api, plain: Subject
) -> None:
    with installation.up():
        wait_for(lambda: expressions(admin), what="the configuration has the condition")
    with without_leader(admin), installation.up() as server:
        plain.override(entry("*", items=TO_2))
        assert selects(admin, plain.namespace)
        assert "fleethook_leader 0.0" in server.request("GET", "/metrics")[1].decode()
        # A touch is sent even if the list does not name the subject, for example after a rollback.
        select(admin, SelectedSubjects())
        touch = {"metadata": {"annotations": {"LastOverrideTime": "2026-06-01T00:00:00Z overrider@1"}}}
        wait_for(lambda: images(admin.merge(plain.paths["hangzhou"], touch)) == {"nginx": "nginx:2.0"})


def select(admin: Api, wanted: SelectedSubjects) -> None:
    """Write the selection as the leader does."""
    webhooks = [{"name": name, **members} for name, members in select_workloads(list_selected(), wanted).items()]
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "fleethook"}, "webhooks": webhooks,
    }  # fmt: skip
    admin.apply(CONFIGURATION, body, manager="fleethook-selection")


@pytest.mark.parametrize(("count", "namespaces"), [(1_900, 40), (6_000, 40), (9_000, 2), (9_000, 9_000)])
def test_an_apiserver_takes_and_evaluates_the_longest_lists(
    installation: Installation, admin: Api, plain: Subject, count: int, namespaces: int
) -> None:
    """A subject without an overrider is never refused, however long the lists are."""
    with installation.up():
        wait_for(lambda: expressions(admin), what="the configuration has the condition")
    names = [SubjectName(f"team-{number % namespaces}", "YurtAppSet", f"app-{number}") for number in range(count)]
    select(admin, SelectedSubjects(frozenset(names)))
    listed = sorted(selection(admin).subjects)
    for name in dict.fromkeys((*listed[:1], *listed[-1:], names[0])):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name.namespace}}
        admin.apply(f"/api/v1/namespaces/{name.namespace}", space)
        metadata = {"name": name.name, "namespace": name.namespace, "uid": "u"}
        meant = workload_of({**plain.stored, "metadata": metadata}, "hangzhou")

        def is_answered(meant: dict[str, Any] = meant, *, refused: bool = name in listed) -> bool:
            status, body, _ = admin.call("POST", path_of(meant), meant)
            return (status == 500 and "failed calling webhook" in body["message"]) if refused else status == 201

        wait_for(is_answered, what=f"the apiserver has compiled the new expressions: {name}")
    edit(plain, "nginx:7.0")
    add_pool(plain, "beijing")
