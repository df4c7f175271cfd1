"""The controller with an API server of one kind in memory, for events that are rare with a real one."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.conditions_and_events import Condition
from fleethook.cluster.store import ObjectKey
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller.crds_metrics import FetchMetrics
from fleethook.engines.crds.controller.instance_conditions_and_events import status_patch
from fleethook.engines.crds.controller.instance_fetches import FetchOptions, SharedCall
from fleethook.engines.crds.controller.karmada_controller import KarmadaController
from fleethook.engines.crds.instance.source_and_secrets import select_source
from fleethook.model.crd_tarball import KARMADA
from fleethook.model.json import JSONObject
from fleethook.patch import merge_patch
from fleethook.tracing.spans_and_otel_variables import StartRoot
from tests.cluster.object_server import ObjectServer
from tests.engines.crds.origin import Asked, Connection, Origin, says, serving, tarball
from tests.engines.crds.tarballs import build, small
from tests.waiting import NET

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
READY = Condition("Ready", "True", "Completed", "done")
PREPARED = Condition("CRDsPrepared", "True", "Cached", "sha256:ab")


def condition(finding: Condition, *, since: str = "2026-11-21T12:00:00Z", generation: int = 1) -> dict[str, Any]:
    return {**finding._asdict(), "lastTransitionTime": since, "observedGeneration": generation}


def patch(status: Any, *findings: Condition, whole: bool = True, generation: int = 1) -> Any:
    return status_patch({"status": status}, findings, generation=generation, whole=whole, now=NOW)


def test_a_time_of_transition_changes_with_the_status_only() -> None:
    old = "2020-01-01T00:00:00Z"
    said = {"conditions": [condition(READY._replace(reason="Other"), since=old)], "observedGeneration": 1}
    assert patch(said, READY)["status"]["conditions"] == [condition(READY, since=old)]
    said = {"conditions": [condition(READY._replace(status="False"), since=old)], "observedGeneration": 1}
    assert patch(said, READY)["status"]["conditions"] == [condition(READY)]


def test_conditions_of_others_stay_where_they_are() -> None:
    theirs = {"type": "Theirs", "status": "Unknown"}
    said = {"conditions": [theirs, condition(PREPARED._replace(reason="Downloaded"))]}
    assert patch(said, READY, PREPARED)["status"]["conditions"] == [theirs, condition(PREPARED), condition(READY)]


def test_beside_the_operator_nothing_but_the_condition_is_written() -> None:
    theirs = {"type": "Ready", "status": "True"}
    said = {"conditions": [theirs], "observedGeneration": 7}
    assert patch(said, PREPARED, whole=False) == {"status": {"conditions": [theirs, condition(PREPARED)]}}


def test_malformed_statuses_are_replaced() -> None:
    for odd in (7, [], {"conditions": "odd"}, {"conditions": 3}):
        assert patch(odd, READY)["status"]["conditions"] == [condition(READY)]
    assert patch({"conditions": [None, 3]}, READY)["status"]["conditions"] == [None, 3, condition(READY)]


KEY = ObjectKey("", KARMADA, "ns", "demo")
PATH = "/apis/operator.karmada.io/v1alpha1/namespaces/ns/karmadas/demo"
INSTANCE = {
    "apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada", "metadata": {"name": "demo", "namespace": "ns"},
}  # fmt: skip


class Api(ObjectServer):
    """An apiserver with one instance."""

    def __init__(self, spec: JSONObject) -> None:
        super().__init__()
        self.store(PATH, {**INSTANCE, "spec": spec})

    @property
    def stored(self) -> JSONObject | None:
        return self.objects.get(PATH)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """The requests about the instance."""
        return [(method, path.removeprefix(PATH)) for method, path in self.requests if path.startswith(PATH)]

    @property
    def events(self) -> list[str]:
        return [one["reason"] for one in self.objects.values() if one["kind"] == "Event"]

    def write(self, patch: JSONObject) -> None:
        """Merge-patch the instance with its status, as other clients do."""
        self.store(PATH, merge_patch(self.objects[PATH], patch))

    def condition(self, type_: str) -> tuple[str, str]:
        found = {one["type"]: one for one in self.objects[PATH].get("status", {}).get("conditions", [])}
        return (found[type_]["status"], found[type_]["reason"]) if type_ in found else ("", "")


class Bench:
    """A controller, its apiserver, and its origin."""

    def __init__(self, api: Api, cache: Cache, options: FetchOptions, *, trace: StartRoot | None = None) -> None:
        self.api = api
        registry = CollectorRegistry()
        self.controller = KarmadaController(api, cache, options, FetchMetrics(registry), trace=trace)  # type: ignore[arg-type]
        self.see()

    def see(self) -> None:
        """Deliver the stored instance as a watch event."""
        if self.api.stored is not None:
            document = msgspec.json.decode(msgspec.json.encode(self.api.stored))
            self.controller.source.informer(KARMADA).learn(document)

    async def look(self) -> bool:
        return await self.controller.reconcile(KEY)


@contextlib.asynccontextmanager
async def working(made: Bench) -> AsyncIterator[None]:
    """Work through the queue beside the block."""
    work = asyncio.create_task(made.controller.queue.run(made.controller.reconcile))
    yield
    work.cancel()
    await asyncio.wait([work])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(NET):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def origin() -> Iterator[Origin]:
    with serving(tarball(build(small()))) as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def bench(origin: Origin, cache: Cache, *, policy: str = "IfNotPresent", **options: Any) -> Bench:
    spec = {"crdTarball": {"crdDownloadPolicy": policy, "httpSource": {"url": origin.url, "timeoutSeconds": 300}}}
    return Bench(Api(spec), cache, FetchOptions(env_proxies=False, **options))


async def test_a_conflicting_write_is_retried(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache)

    def others() -> None:
        made.api.write({"metadata": {"annotations": {"theirs": "yes"}}})

    made.api.before_write = [others, others]
    assert await made.look()
    assert made.api.stored is not None
    assert made.api.stored["metadata"]["annotations"] == {"theirs": "yes"}
    assert made.api.condition("Ready") == ("True", "Completed")
    assert [method for method, _ in made.api.asked].count("GET") == 2


async def test_an_instance_that_goes_meanwhile_is_done_with(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache)

    made.api.before_write = [lambda: made.api.remove(PATH)]
    assert await made.look()
    assert made.api.asked == [("PATCH", "")]


async def test_an_apiserver_that_does_not_answer_is_asked_again(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache)
    for failure in (UnreachableError("refused"), APIError(500, "InternalError", "etcd is away")):
        made.api.error = failure
        assert not await made.look()
    made.api.error = None
    assert await made.look()
    assert made.api.condition("Ready") == ("True", "Completed")


async def test_the_same_spec_is_reconciled_once(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache, policy="Always")
    assert await made.look()
    before = len(made.api.asked)
    assert await made.look()
    assert len(origin.asked) == 1
    assert len(made.api.asked) == before
    made.api.write({"spec": {"crdTarball": {"httpSource": {"timeoutSeconds": 301}}}})
    made.see()
    assert await made.look()
    assert len(origin.asked) == 2


async def test_another_one_of_the_same_name_is_looked_after_anew(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache)
    assert await made.look()
    before = made.api.stored
    assert before is not None
    made.api.remove(PATH)
    made.api.store(PATH, {**INSTANCE, "spec": before["spec"]})
    made.see()
    assert await made.look()
    assert made.api.stored["metadata"]["finalizers"] == ["operator.karmada.io/finalizer"]
    assert made.api.condition("CRDsPrepared") == ("True", "Cached")


async def test_warnings_about_an_instance_are_in_its_condition(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache)
    assert await made.look()
    assert made.api.stored is not None
    messages = [one["message"] for one in made.api.stored["status"]["conditions"] if one["type"] == "CRDsPrepared"]
    assert "plain http without sha256" in messages[0]


async def test_a_default_that_had_to_be_written_brings_it_back_by_its_event(origin: Origin, cache: Cache) -> None:
    made = Bench(Api({"crdTarball": {"httpSource": {"url": origin.url}}}), cache, FetchOptions(env_proxies=False))
    assert await made.look()
    assert made.api.asked == [("PATCH", "")]
    assert made.api.stored is not None
    assert made.api.stored["spec"]["crdTarball"]["crdDownloadPolicy"] == "IfNotPresent"
    assert await made.look()
    assert made.api.condition("Ready") == ("True", "Completed")


async def test_an_invalid_spec_is_not_retried(cache: Cache) -> None:
    spec = {"crdTarball": {"crdDownloadPolicy": "Always", "httpSource": {"url": ""}}}
    made = Bench(Api(spec), cache, FetchOptions())
    assert await made.look()
    assert made.api.condition("Ready") == ("False", "ValidationError")
    assert made.api.events == ["ValidationError"]


async def test_an_unknown_release_without_a_source_is_reported(cache: Cache) -> None:
    made = Bench(Api({}), cache, FetchOptions(version=""))
    assert await made.look()
    assert made.api.condition("Ready") == ("False", "ValidationError")


async def test_a_deleted_instance_without_our_finalizer_is_not_written(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache)
    made.api.write({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["others"]}})
    made.see()
    assert await made.look()
    assert made.api.asked == []


async def test_without_cascading_deletion_no_deinit_is_reported(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache)
    assert await made.look()
    labels = {"operator.karmada.io/disable-cascading-deletion": "true"}
    made.api.write({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "labels": labels}})
    made.see()
    assert await made.look()
    # With its last finalizer, the apiserver removes the instance.
    assert made.api.stored is None
    assert made.api.asked[-1] == ("PATCH", "")


# --- Beside Karmada's operator ----------------------------------------------------------------------------------------


async def test_beside_the_operator_an_end_is_the_operators(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache, beside=True)
    made.api.write({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["others"]}})
    made.see()
    assert await made.look()
    assert made.api.asked == []
    assert origin.asked == []


async def test_a_wiped_failure_causes_no_new_request(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache, beside=True)
    origin.answer = says(status="404 Not Found")
    theirs = {"type": "Ready", "status": "False", "reason": "Failed", "message": "theirs"}
    async with working(made):
        for _ in range(3):
            await until(lambda: made.api.condition("CRDsPrepared") == ("False", "DownloadFailed"))
            made.api.write({"status": {"conditions": [theirs]}})
            made.see()
        await until(lambda: made.api.condition("CRDsPrepared") == ("False", "DownloadFailed"))
    assert made.api.condition("Ready") == ("False", "Failed")
    assert len(origin.asked) == 1


async def test_a_ready_instance_stays_ready_during_the_check_for_a_newer_tarball(origin: Origin, cache: Cache) -> None:
    made = bench(origin, cache, policy="Always")
    assert await made.look()
    seen: list[tuple[str, str]] = []
    good = origin.answer

    def answer(asked: Asked, connection: Connection) -> None:
        seen.append(made.api.condition("Ready"))
        good(asked, connection)

    origin.answer = answer
    again = Bench(made.api, cache, FetchOptions(env_proxies=False))
    assert await again.look()
    assert made.api.condition("CRDsPrepared") == ("True", "Revalidated")
    # Of another spec nothing is known yet.
    made.api.write({"spec": {"crdTarball": {"httpSource": {"timeoutSeconds": 301}}}})
    again.see()
    waiting = asyncio.Event()
    loop = asyncio.get_running_loop()

    def held(asked: Asked, connection: Connection) -> None:
        loop.call_soon_threadsafe(waiting.set)
        while made.api.condition("Ready") != ("False", "Progressing"):
            connection.pause(0.01)
        answer(asked, connection)

    origin.answer = held
    assert await again.look()
    assert waiting.is_set()
    assert seen == [("True", "Completed"), ("False", "Progressing")]
    assert made.api.condition("Ready") == ("True", "Completed")


async def test_a_download_is_shared_but_not_another_namespaces_secrets(origin: Origin, cache: Cache) -> None:
    """Secrets of the same name differ between namespaces, so a shared download would use the other's credentials."""
    made = bench(origin, cache)
    release = threading.Event()

    def held(_: Asked, __: Connection) -> None:
        release.wait(NET)

    origin.answer = held
    open_to_all, flights = {"httpSource": {"url": origin.url}}, set[SharedCall[Any]]()
    for tarball_, shared in (
        (open_to_all, True),
        ({"httpSource": {"url": origin.url, "secretRef": {"name": "mirror"}}}, False),
    ):
        karmada = {"metadata": {"namespace": "a"}, "spec": {"crdTarball": tarball_}}
        chosen = select_source(karmada, version="v1.18.0")
        keys = [KEY._replace(namespace=namespace) for namespace in ("a", "b")]
        one, other = (made.controller._fetcher.join(chosen, key) for key in keys)
        flights.update((one, other))
        assert (one is other) is shared
        assert made.controller._fetcher.join(chosen, keys[0]) is one
    release.set()
    await asyncio.wait([flight.future for flight in flights])
