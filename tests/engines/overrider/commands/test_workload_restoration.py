"""The restoration of workloads by `fleethook uninstall`, with an apiserver in memory; tests/e2e/test_uninstall.py has a real one."""

import copy
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.engines.overrider.commands import workload_restoration
from tests.builders import overrider, workload
from tests.cli.test_uninstall import CALLS_US, DEPLOYMENT, RENDERED, SUBJECT, Cluster, list_rows, uninstall


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_restoration, "_PAUSE_SECONDS", 0)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.put("yurtappsets", SUBJECT)
    made.put("deployments", RENDERED)
    return made


async def test_a_write_is_repeated_after_conflicts_and_while_the_apiserver_still_calls_us(cluster: Cluster) -> None:
    def scale() -> None:
        other = copy.deepcopy(cluster.objects[DEPLOYMENT])
        other["metadata"]["labels"]["other"] = "writer"
        cluster.store(DEPLOYMENT, other)

    cluster.meanwhile = [lambda: None, scale]
    cluster.denied = [APIError(500, "InternalError", CALLS_US)]
    done = await uninstall(cluster)
    assert (list_rows(done, "restored"), len(cluster.writes)) == (["demo-hangzhou-x"], 3)
    stored = cluster.objects[DEPLOYMENT]
    assert (stored["spec"], stored["metadata"]["labels"]["other"]) == (workload()["spec"], "writer")


async def test_a_workload_that_is_deleted_meanwhile_needs_no_write(cluster: Cluster) -> None:
    cluster.meanwhile = [lambda: cluster.remove(DEPLOYMENT)]
    done = await uninstall(cluster)
    assert ([one for one in done.rows if one.action == "left"], done.is_complete) == ([], True)


async def test_a_workload_that_a_policy_renders_again_is_written_again_and_reported_in_the_end(
    cluster: Cluster,
) -> None:
    def rendered_again(times: int) -> Cluster:
        made = Cluster()
        made.objects = copy.deepcopy(cluster.objects)

        def render(_: Any, written: Any) -> Any:
            nonlocal times
            times -= 1
            return {**RENDERED, "metadata": {**written["metadata"], **RENDERED["metadata"]}} if times >= 0 else written

        made.admit = render
        return made

    assert list_rows(await uninstall(rendered_again(2)), "restored") == ["demo-hangzhou-x"]
    done = await uninstall(rendered_again(1000))
    assert "renders it again" in next(one.detail for one in done.rows if one.action == "left")


async def test_a_refusal_by_another_webhook_is_reported_with_its_message(cluster: Cluster) -> None:
    cluster.denied = [APIError(403, "Forbidden", 'admission webhook "a.b.c" denied the request: no')]
    done = await uninstall(cluster)
    assert [one.detail for one in done.rows] == ['cannot patch: admission webhook "a.b.c" denied the request: no']
    assert (done.is_complete, done.missing, len(cluster.writes)) == (False, set(), 1)


async def test_statuses_and_nudges_are_removed(cluster: Cluster) -> None:
    nudged = {**SUBJECT["metadata"], "annotations": {"fleethook.io/nudged-at": "2026-01-01T00:00:00Z"}}
    cluster.put("yurtappsets", {**SUBJECT, "metadata": nudged})
    cluster.put("yurtappoverriders", {**overrider(), "status": {"summary": "1/1"}})
    done = await uninstall(cluster)
    assert [(one.kind, one.detail) for one in done.rows if one.action == "cleaned"] == [
        ("YurtAppSet", "annotation fleethook.io/nudged-at"), ("YurtAppOverrider", "status"),
    ]  # fmt: skip
    assert cluster.writes[-1].endswith("/yurtappoverriders/demo1/status")
