"""A controller against an apiserver in memory, with a clock that the test advances."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import RESOURCES
from fleethook.cluster.store import Store
from fleethook.engines.overrider.controller.overrider_controller import OverriderController
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.work.queue import sleep
from tests.builders import UID, overrider, pool, workload, yurt_app_set
from tests.engines.overrider.apiserver import Apiserver, path_of
from tests.work.clock import FakeClock

STEP_SECONDS = 0.25
START = datetime(2026, 6, 1, tzinfo=UTC)


def pod_spec(document: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = document["spec"]["template"]["spec"]
    return spec


def prune_misspelled(document: dict[str, Any]) -> dict[str, Any]:
    pod_spec(document).pop("hostNetwrok", None)
    return document


class Fleet:
    """Subjects with workloads and overriders, an apiserver, and the controller that reconciles them."""

    def __init__(self, server: Apiserver | None = None) -> None:
        """Start with an empty apiserver, or with the apiserver of another fleet, like a restarted process."""
        self.clock = FakeClock(0.0)
        self.objects = Store([OVERRIDERS_BY_SUBJECT])
        self.plans = PlanCache()
        self.server = server or Apiserver(self.objects, self.plans)
        self.conflict = ""
        self.registered: asyncio.Event | None = None
        self.controller: OverriderController | None = None
        self.source = KubernetesSource(RESOURCES, self.server, self.objects, absent_seconds=600.0, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        await sleep(self.clock, seconds)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.clock.now)

    @contextlib.asynccontextmanager
    async def leader(self, **limits: Any) -> AsyncIterator[OverriderController]:
        """Run a leader until the end of the context."""
        controller = OverriderController(
            cast("Connection", self.server),
            self.objects,
            self.source,
            self.plans,
            **limits,
            now=self.now,
            registered=None if self.registered is None else self.registered.wait,
            openyurt_conflict=lambda: self.conflict,
            scheduler=self.clock,
        )
        tasks = [asyncio.create_task(self.source.run()), asyncio.create_task(controller.run())]
        try:
            await self.settle()
            yield controller
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def settle(self) -> None:
        """Run all tasks that do not wait for the clock."""
        ready = vars(asyncio.get_running_loop())["_ready"]
        for _ in range(300):
            await asyncio.sleep(0)
            if not ready:
                break

    async def wait(self, seconds: float) -> None:
        """Advance the clock by that many seconds, from timer to timer."""
        end = self.clock.now + seconds
        await self.settle()
        while self.clock.now < end:
            self.clock.advance(max(0.0, min(self.clock.next(), end) - self.clock.now))
            await self.settle()

    async def wait_for(self, condition: Callable[[], object], *, seconds: float = 60) -> None:
        end = self.clock.now + seconds
        while not condition():
            assert self.clock.now < end, f"not within {seconds} s"
            await self.wait(STEP_SECONDS)

    # Actions of users and of OpenYurt's controller.

    def subject(self, name: str = "demo", pools: tuple[str, ...] = ("hangzhou",), **template: Any) -> str:
        """Add a YurtAppSet with the workloads that OpenYurt's controller created."""
        made = yurt_app_set(name, pools=[pool(one) for one in pools])
        made["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"].update(template)
        path = self.server.put(made)
        for one in pools:
            self.server.put(self.workload(name, one, **template), review=False)
        return path

    def workload(self, subject: str, pool_name: str, **template: Any) -> dict[str, Any]:
        made = workload(pool=pool_name)
        made["metadata"]["name"] = f"{subject}-{pool_name}-x"
        made["metadata"]["ownerReferences"][0].update(name=subject, uid=UID)
        made["spec"]["template"]["spec"].update(template)
        return made

    def path(self, subject: str = "demo", pool_name: str = "hangzhou") -> str:
        return path_of(self.workload(subject, pool_name))

    def override(self, *entries: dict[str, Any], subject: str = "demo", kind: str = "YurtAppSet") -> str:
        target = {"apiVersion": "apps.openyurt.io/v1alpha1", "kind": kind, "name": subject}
        return self.server.put(overrider(*entries, name=subject, subject=target, uid=f"rule-{subject}"))

    def edit_template(self, path: str, *, tag: str) -> None:
        """Set another image in the subject's template, as a new generation."""
        self.server.edit(path, {"spec": {"workloadTemplate": {"deploymentTemplate": {"spec": {"template": {"spec": {
            "containers": [{"name": "nginx", "image": f"nginx:{tag}"}]
        }}}}}}})  # fmt: skip

    def owner_writes(self, *pools: str, tag: str, review: bool = True) -> None:
        """Write the template into workloads of pools, with a new revision label, like OpenYurt's controller."""
        for one in pools:
            template = {
                "metadata": {"labels": {"revision": tag}},
                "spec": {"containers": [{"name": "nginx", "image": f"nginx:{tag}"}]},
            }
            self.server.edit(self.path(pool_name=one), {"spec": {"template": template}}, review=review)

    def observed(self, path: str, **status: Any) -> None:
        """Report the generation of the subject as observed, like OpenYurt's controller."""
        generation = self.server[path]["metadata"]["generation"]
        self.server.edit(path, {"status": {"observedGeneration": generation, **status}})

    # State that tests compare.

    def nudges(self, path: str) -> str | None:
        """Return the time of the last nudge of the subject's controller."""
        annotations: dict[str, str] = self.server[path]["metadata"].get("annotations", {})
        return annotations.get("fleethook.io/nudged-at")

    def rule(self, subject: str = "demo") -> str:
        """Return the path of the overrider of a subject."""
        return f"/apis/apps.openyurt.io/v1alpha1/namespaces/default/yurtappoverriders/{subject}"

    def status(self, subject: str = "demo") -> dict[str, Any]:
        return dict(self.server[self.rule(subject)].get("status", {}))

    def condition(self, kind: str = "Rendered", subject: str = "demo") -> tuple[str, str, str]:
        for one in self.status(subject).get("conditions", []):
            if one["type"] == kind:
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def image(self, subject: str = "demo", pool_name: str = "hangzhou") -> str:
        return str(self.server[self.path(subject, pool_name)]["spec"]["template"]["spec"]["containers"][0]["image"])
