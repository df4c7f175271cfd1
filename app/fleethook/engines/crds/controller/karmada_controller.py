"""The controller for ``Karmada`` objects.

It does the part of Karmada's operator that is about tarballs: it fetches the tarball of each instance into the cache,
and reports the result in conditions and events.

Without Karmada's operator it owns the instances: finalizer, defaults and ``Ready``. Beside the operator, with a shared
cache, it writes only the condition ``CRDsPrepared``.
Upstream: operator/pkg/controller/karmada/controller.go (v1.17.1).
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple, NoReturn

import msgspec

from fleethook.cluster.api_errors import CONFLICT, NOT_FOUND, APIError, UnreachableError
from fleethook.cluster.apiserver_connection import MERGE_PATCH, Connection
from fleethook.cluster.conditions_and_events import (
    Condition,
    EventRecorder,
    ObjectReference,
    find_condition,
    read_condition,
)
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import KARMADAS
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller.crds_metrics import FetchMetrics
from fleethook.engines.crds.controller.instance_conditions_and_events import (
    COMPONENT,
    PREPARED,
    READY,
    Event,
    FetchOutcome,
    needs_event,
    report_deletion,
    report_download,
    report_failed,
    report_invalid,
    report_prepared,
    status_patch,
)
from fleethook.engines.crds.controller.instance_fetches import Fetcher, FetchOptions
from fleethook.engines.crds.instance.defaults_and_lifecycle import (
    build_ownership_patch,
    build_release_patch,
    cascades_deletion,
    is_being_deleted,
    is_same_instance,
    is_suspended,
    needs_reconcile,
)
from fleethook.engines.crds.instance.source_and_secrets import select_source
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, redact
from fleethook.model.crd_tarball import API_VERSION, KARMADA
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.tracing.spans_and_otel_variables import StartRoot
from fleethook.work.queue import WorkQueue
from fleethook.work.threads_and_gc import DaemonThreads

_log: Final = logging.getLogger(__name__)

WORKERS: Final = 256
"""A single namespace has half of them, so instances that wait for a slow origin do not delay other namespaces."""
_CONFLICTS: Final = 5
_BACKOFF_SECONDS: Final = (1.0, 300.0)
_SLOWLY_SECONDS: Final = 300.0
"""The pause after an error that does not go away by itself."""


class _Reconciled(NamedTuple):
    generation: int
    outcome: FetchOutcome


class KarmadaController:
    """Reconciles instances. Run one at a time in a cluster, by leader election.

    Attributes:
        queue: The instances to reconcile.
        source: The informer of the instances.
    """

    def __init__(
        self,
        connection: Connection,
        cache: Cache,
        options: FetchOptions,
        metrics: FetchMetrics,
        *,
        trace: StartRoot | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Create the controller.

        Args:
            connection: Connection to the API server that has the instances.
            cache: Cache of the tarballs.
            options: Options of the controller.
            metrics: Metrics of fetches.
            trace: Starts the span of a fetch; None to trace nothing.
            now: Returns the time for conditions and events.
        """
        self.queue: Final[WorkQueue[ObjectKey]] = WorkQueue(
            backoff=_BACKOFF_SECONDS, consumer=lambda key: key.namespace, workers=WORKERS
        )
        self._store: Final = Store()
        self.source: Final = KubernetesSource((KARMADAS,), connection, self._store)
        self._connection: Final = connection
        self._cache: Final = cache
        self._options: Final = options
        self._metrics: Final = metrics
        self._now: Final = now
        self._recorder: Final = EventRecorder(connection, component=COMPONENT, now=now)
        self._fetcher: Final = Fetcher(connection, cache, options, metrics, trace=trace)
        self._fetched: Final = asyncio.Event()
        self._reconciled: Final[dict[ObjectKey, _Reconciled]] = {}
        self._wiped: Final[set[ObjectKey]] = set()
        self._store.subscribe(self._enqueue)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.source.run(), name="karmadas")
            tasks.create_task(self.queue.run(self.reconcile), name="karmada workers")
            tasks.create_task(self._measure(), name="cache metrics")

    async def _measure(self) -> NoReturn:
        """Measure the cache after fetches, one measurement at a time: each one reads the size of every file."""
        threads = DaemonThreads(1, "cache-metrics")
        while True:
            await self._fetched.wait()
            self._fetched.clear()
            try:
                await threads.run(self._metrics.measure, self._cache)
            except (CRDsError, OSError) as error:
                _log.warning("cannot measure the cache: %s", error)

    def _enqueue(self, key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        if after is None:
            self._reconciled.pop(key, None)
            self._wiped.discard(key)
        elif needs_reconcile(before, after):
            if not is_same_instance(before, after):
                # The instance was deleted and created again while the watch was down.
                self._reconciled.pop(key, None)
            self.queue.add(key)
        elif self._was_wiped(key, after):
            self._wiped.add(key)
            self.queue.add(key)

    def _was_wiped(self, key: ObjectKey, karmada: JSONObject) -> bool:
        """Return whether a reconciled instance lost our condition: Karmada's operator writes a list without it."""
        if not self._options.beside or key not in self._reconciled:
            return False
        return read_condition(_get_conditions(karmada), PREPARED)[0] is None

    # --- One instance -------------------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> bool:
        """Fetch the tarball of an instance, or release a deleted instance; returns False to retry with backoff."""
        karmada = self._store.get(*key)
        if karmada is None or is_suspended(karmada):
            return True
        try:
            if self._options.beside:
                return is_being_deleted(karmada) or await self._prepare(key, karmada)
            return await (
                self._release(key, karmada) if is_being_deleted(karmada) else self._reconcile_owned(key, karmada)
            )
        except (APIError, UnreachableError, msgspec.DecodeError) as error:
            if isinstance(error, APIError) and error.code == NOT_FOUND:
                return True  # deleted meanwhile
            _log.warning("%s %s: %s", KARMADA.kind, _format_name(key), error)
            return False

    async def _release(self, key: ObjectKey, karmada: JSONObject) -> bool:
        """Remove the finalizer of a deleted instance. As upstream, its CRDs and its cache entry stay."""
        if build_release_patch(karmada) is None:
            return True
        if cascades_deletion(karmada):
            await self._write_conditions(key, (report_deletion(),), generation=_get_generation(karmada))
        await self._patch_instance(key, build_release_patch)
        return True

    async def _reconcile_owned(self, key: ObjectKey, karmada: JSONObject) -> bool:
        ours = await self._patch_instance(key, build_ownership_patch)
        if ours.get("spec") != karmada.get("spec"):
            return True  # the watch event of that change queues it again
        return await self._prepare(key, ours)

    async def _prepare(self, key: ObjectKey, karmada: JSONObject) -> bool:
        generation = _get_generation(karmada)
        done = self._reconciled.get(key)
        # If only our condition was removed, nothing is fetched: the operator may remove it many times a second.
        wiped = key in self._wiped
        known = done is not None and done.generation == generation and (done.outcome.succeeded or wiped)
        self._wiped.discard(key)
        if done is None or not known:
            done = _Reconciled(generation, await self._fetch(key, karmada))
            self._reconciled[key] = done
            if needs_event(karmada, done.outcome):
                await self._record_event(key, karmada, done.outcome.event)
        outcome = done.outcome
        found = (outcome.prepared,) if self._options.beside else (outcome.ready, outcome.prepared)
        await self._write_conditions(key, found, generation=generation)
        retry = outcome.retry
        if retry == "slowly":
            self.queue.add_after(key, _SLOWLY_SECONDS)
        return retry != "soon"

    async def _fetch(self, key: ObjectKey, karmada: JSONObject) -> FetchOutcome:
        options = self._options
        try:
            chosen = select_source(
                karmada, version=options.version, follow_instance=options.follow_instance, strict=options.strict
            )
        except CRDsError as error:
            return report_invalid(error)
        generation = _get_generation(karmada)

        async def on_download() -> None:
            # A ready instance stays ready during the check for a newer tarball.
            if not _is_true(karmada, PREPARED if options.beside else READY):
                found = report_download(redact(chosen.source.url))
                await self._write_conditions(key, found[1:] if options.beside else found, generation=generation)

        try:
            fetched = await self._fetcher.join(chosen, key).wait(on_download)
        except CRDsError as error:
            return report_failed(error)
        self._fetched.set()
        # The warnings of the instance; other instances may share the fetch.
        return report_prepared(fetched._replace(warnings=(*chosen.warnings, *fetched.warnings)))

    # --- Conditions and events ----------------------------------------------------------------------------------------

    async def _record_event(self, key: ObjectKey, karmada: JSONObject, event: Event) -> None:
        about = ObjectReference(
            API_VERSION, KARMADA.kind, key.namespace, key.name, karmada["metadata"].get("uid") or ""
        )
        await self._recorder.record(about, *event)

    async def _write_conditions(self, key: ObjectKey, findings: tuple[Condition, ...], *, generation: int) -> None:
        patch = functools.partial(
            status_patch, findings=findings, generation=generation, whole=not self._options.beside, now=self._now()
        )
        await self._patch_instance(key, patch, subresource="/status")

    async def _patch_instance(
        self, key: ObjectKey, patch: Callable[[JSONObject], JSONObject | None], *, subresource: str = ""
    ) -> JSONObject:
        """Patch an instance and return it; raises APIError 404 if it was deleted, 409 after several conflicts."""
        for _ in range(_CONFLICTS):
            karmada: JSONObject | None = self._store.get(*key)
            if karmada is None:
                break
            body = patch(karmada)
            if body is None:
                return karmada
            body.setdefault("metadata", {})["resourceVersion"] = karmada["metadata"]["resourceVersion"]
            try:
                text = await self._connection.request(
                    "PATCH",
                    KARMADAS.in_namespace(key.namespace, key.name) + subresource,
                    body=body,
                    content_type=MERGE_PATCH,
                )
            except APIError as error:
                if error.code != CONFLICT:
                    raise
                await self.source.read_one(KARMADA, cluster="", namespace=key.namespace, name=key.name)
                continue
            changed = KARMADAS.decode(text)
            self.source.informer(KARMADA).learn(changed)
            return changed
        if self._store.get(*key) is None:
            raise APIError(NOT_FOUND, "NotFound", f"{_format_name(key)} was deleted meanwhile")
        raise APIError(CONFLICT, "Conflict", f"{_format_name(key)} was changed by others {_CONFLICTS} times in a row")


def _format_name(key: ObjectKey) -> str:
    return f"{key.namespace}/{key.name}"


def _get_generation(karmada: JSONObject) -> int:
    generation = karmada["metadata"].get("generation")
    return generation if isinstance(generation, int) else 0


def _get_conditions(karmada: JSONObject) -> JSON:
    return as_object(karmada.get("status")).get("conditions")


def _is_true(karmada: JSONObject, type_: str) -> bool:
    """Return whether a condition is True for the current generation."""
    stored = find_condition(_get_conditions(karmada), type_)
    return stored.get("status") == "True" and stored.get("observedGeneration") == _get_generation(karmada)
