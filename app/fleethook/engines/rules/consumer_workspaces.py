"""The workspaces of kcp that consume the APIExport of a server: their calls, objects and configurations."""

import asyncio
import base64
import contextlib
import hmac
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.registry import Collector
from starlette.types import Scope

from fleethook.admission.store_parameter import EVERY, Lookup
from fleethook.cluster.api_errors import CONFLICT, APIError, UnreachableError, get_object
from fleethook.cluster.followed_objects import Cluster
from fleethook.cluster.kubernetes.watched_resources import CONSUMERS, WatchedResource, decode_object
from fleethook.cluster.registration.consumer_bindings_and_webhooks import (
    CONFIGURATIONS,
    CONSUMERS_SECRET,
    Consumer,
    build_token,
    describe_state,
    list_writes,
    name_configuration,
    read_consumer,
)
from fleethook.cluster.registration.paths import split_consumer_path
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.model.admission import AdmissionRequest, Response, read_cluster
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.server.health import Check
from fleethook.server.metrics import Gauges
from fleethook.server.protocol.bodies import RequestError
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint, ReviewRoute
from fleethook.work.queue import Again, Outcome, WorkQueue

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection

_log: Final = logging.getLogger("fleethook.rules")

_WRITE_SECONDS: Final = 5.0
"""A consumer whose workspace does not answer delays the others by no more than one of the workers."""
_PACE_SECONDS: Final = 1.0
"""Between two writes to one workspace, so that somebody who edits in a loop costs little."""
_BACKOFF_SECONDS: Final = (1.0, 60.0)
_CHECK_SECONDS: Final = 10.0
_SHOWN: Final = 5

Build = Callable[[str], list[JSONObject]]
"""Returns the configurations that call this server by a suffix of its URLs, with ``caBundle``."""


def list_resources(export: str) -> list[WatchedResource]:
    """Return the resources that a server of an export reads in the workspaces of its consumers."""
    name = name_configuration(export)

    def decode(text: Any) -> JSONObject:
        """Decode a configuration; of others, the webhooks are not kept."""
        document = decode_object(text)
        return document if document["metadata"]["name"] == name else {**document, "webhooks": []}

    return [CONSUMERS, *(one._replace(decode=decode) for one in CONFIGURATIONS)]


class Consumers:
    """The consumers of an export.

    Attributes:
        problem: Why the key of the tokens is unknown; ``""`` if it is known.
    """

    def __init__(self, cluster: Cluster, store: Store, *, export: str, namespace: str) -> None:
        """Prepare.

        Args:
            cluster: The apiserver, with an `ExportConnection`.
            store: The objects of all consumers.
            export: The name of the APIExport.
            namespace: The namespace of the Secret, in the workspace of the export.
        """
        # Imported here because a server of manifests does not need the client.
        from fleethook.cluster.kubernetes.export_connection import ExportConnection  # noqa: PLC0415

        assert isinstance(cluster.connection, ExportConnection)
        self._connection: Final = cluster.connection
        self._cluster: Final = cluster
        self._store: Final = store
        self._export: Final = export
        self._name: Final = name_configuration(export)
        self._secrets: Final = f"/api/v1/namespaces/{namespace}/secrets"
        self._key = b""
        self._key_known: Final = asyncio.Event()
        self.problem = "the key of the tokens of consumers is not read yet"
        self._failures: Final[dict[str, str]] = {}
        self._written: Final[dict[str, float]] = {}

    async def read_key(self) -> None:
        """Read the key of the tokens, or create it, until that succeeds."""
        while not self._key:
            try:
                self._key = await _read_key(self._connection, self._secrets)
                self.problem = ""
                self._key_known.set()
            except (APIError, UnreachableError) as error:
                self.problem = f"the Secret {CONSUMERS_SECRET} with the key of the tokens of consumers: {error}"
                _log.warning(self.problem)
                await asyncio.sleep(_BACKOFF_SECONDS[0])

    def check_caller(self, path: str) -> None:
        """Raise RequestError if a path does not have the token of its workspace."""
        _, cluster, token = split_consumer_path(path)
        if not self._key:
            raise RequestError(503, "ServiceUnavailable", self.problem)
        if not hmac.compare_digest(token.encode(), build_token(self._key, cluster).encode()):
            raise RequestError(403, "Forbidden", "the path of this review has no valid token of a workspace")

    def find(self, cluster: str) -> Consumer | None:
        """Return the consumer in a logical cluster, None without a binding."""
        bindings = list_stable(self._store, cluster, CONSUMERS.group_kind)
        return read_consumer(bindings) if bindings else None

    def _list(self) -> list[Consumer]:
        clusters = sorted({key.cluster for key in self._store.keys(CONSUMERS.group_kind)})
        return [one for one in map(self.find, clusters) if one is not None]

    def make_lookup(self, caller: str, request: AdmissionRequest) -> Lookup:
        """Return the objects that the rule for a review may see.

        Args:
            caller: The workspace whose configuration kcp has followed. kcp follows those of the provider for objects
                of consumers, too, so there the annotation counts.
            request: The review.
        """
        cluster = caller if caller != self._connection.provider else read_cluster(request) or caller
        consumer = self.find(cluster)

        def find(kind: GroupKind, where: str) -> list[Any]:
            resource = self._cluster.resources[kind]
            claim = resource.group, resource.plural
            if where == EVERY:
                clusters = [one.cluster for one in self._list() if claim in one.complete]
                return [each for one in clusters for each in list_stable(self._store, one, kind)]
            problem = (
                "it has no APIBinding" if consumer is None else describe_state(consumer, [claim], complete=True)[1]
            )
            if problem:
                raise LookupError(f"the {kind.kind}s of workspace {where} cannot be read: {problem}")
            return list_stable(self._store, where, kind)

        return Lookup(find, cluster, consumer.path if consumer else "")

    def _present(self, cluster: str) -> Mapping[str, JSONObject]:
        """Return the configurations of this server in a logical cluster, by kind."""
        found = {one.kind: self._store.get(cluster, one.group_kind, "", self._name) for one in CONFIGURATIONS}
        return {kind: one for kind, one in found.items() if isinstance(one, dict)}

    def _judge(self) -> Iterator[tuple[Consumer, str, str]]:
        """Yield each consumer with its state, and the reason if no configuration covers it."""
        for one in self._list():
            state, problem = describe_state(one, ())
            failure = self._failures.get(one.cluster, "")
            if not problem and not self._present(one.cluster):
                state, problem = "unwritten", failure or "the leader has not written its configuration yet"
            yield one, state, problem or failure

    def count_states(self) -> Iterator[tuple[dict[str, str], float]]:
        """Yield the number of workspaces in each state."""
        counts = Counter({"covered": 0, "unbound": 0, "unaccepted": 0, "unwritten": 0})
        counts.update(state for _, state, _ in self._judge())
        return (({"state": state}, float(count)) for state, count in counts.items())

    def check(self) -> Check:
        """Return the check of the workspaces. A workspace that is not covered leaves the server ready."""
        if self.problem:
            return Check("workspaces", ok=False, detail=self.problem)
        judged = list(self._judge())
        bad = [f"{one.name}: {problem}" for one, _, problem in judged if problem]
        detail = f"{len(bad)} of {len(judged)} not covered: {'; '.join(bad[:_SHOWN])}" if bad else ""
        if not judged:
            detail = f"no workspace binds the APIExport {self._export}: `fleethook rules export` prints what to apply"
        return Check("workspaces", ok=True, detail=detail, degraded=bool(bad))

    async def maintain(self, build: Build, *, changed: asyncio.Event, bundle: Callable[[], bytes]) -> None:
        """Write the configurations of all consumers, and restore them, until cancelled.

        Args:
            build: Returns the configurations of a consumer.
            changed: Set when their rules change.
            bundle: Returns the CAs of this server's certificate, as PEM.
        """
        await self._key_known.wait()
        await self._cluster.source.wait_synced()
        queue = WorkQueue[str](backoff=_BACKOFF_SECONDS)
        kinds = {CONSUMERS.group_kind, *(one.group_kind for one in CONFIGURATIONS)}

        def note(key: ObjectKey, _before: Stored | None, _after: JSONObject | None) -> None:
            if key.group_kind in kinds:
                queue.add(key.cluster)

        async def cover(cluster: str) -> Outcome:
            return await self._cover(cluster, build, bundle())

        unsubscribe = self._store.subscribe(note)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(queue.run(cover))
                while True:
                    changed.clear()
                    authorities = bundle()
                    for one in {key.cluster for key in self._store.keys(CONSUMERS.group_kind)}:
                        queue.add(one)
                    while not changed.is_set() and bundle() == authorities:
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(changed.wait(), _CHECK_SECONDS)
        finally:
            unsubscribe()

    async def _cover(self, cluster: str, build: Build, bundle: bytes) -> Outcome:
        """Write the configurations of one consumer if they differ."""
        consumer = self.find(cluster)
        self._failures.pop(cluster, None)
        if consumer is None:
            self._written.pop(cluster, None)
            return True
        wanted = build(f"/{cluster}/{build_token(self._key, cluster)}")
        for webhook in (each for one in wanted for each in one["webhooks"]):
            webhook["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        if describe_state(consumer, ())[1]:
            return True  # The binding changes when its workspace accepts the claims.
        writes = list_writes(consumer, wanted, self._present(cluster))
        if writes and (rest := self._written.get(cluster, 0.0) + _PACE_SECONDS - time.monotonic()) > 0:
            return Again(rest, retry=False)
        for write in writes:
            self._written[cluster] = time.monotonic()
            try:
                await self._connection.request(
                    write.method, f"/clusters/{cluster}{write.path}", body=write.body, timeout=_WRITE_SECONDS
                )
            except (APIError, UnreachableError) as error:
                if isinstance(error, APIError) and error.code == CONFLICT:
                    return Again(_PACE_SECONDS, retry=False)  # The watch is behind.
                self._failures[cluster] = str(error)
                _log.warning("the configuration of workspace %s is not written: %s", consumer.name, error)
                return False
            _log.info("%s %s in workspace %s", write.method, self._name, consumer.name)
        return True


def make_gauge(consumers: Consumers | None) -> Collector:
    """Return the gauge of the workspaces."""
    text = (
        "Workspaces of kcp with an APIBinding to the export of the rules, by state: covered, unbound (kcp has not bound"
        " the export), unaccepted (its permission claims), unwritten (the webhook configuration)."
    )
    read = (lambda: ()) if consumers is None else consumers.count_states
    return Gauges("fleethook_rule_workspaces", text, read, "state")


Answer = Callable[..., Response | Awaitable[Response]]
"""Answers a review of a workspace, which it gets as the second argument."""


class ConsumerEndpoint(AdmissionEndpoint):
    """The route of a rule, which only the configurations of consumers may call."""

    def __init__(self, path: str, *, consumers: Consumers, answer: Answer, **rest: Any) -> None:
        """Prepare; ``rest`` as in `AdmissionEndpoint`."""
        super().__init__(path, answer, restored=True, **rest)
        self._consumers: Final = consumers
        self._answer_consumer: Final = answer

    def _check_caller(self, scope: Scope) -> None:
        super()._check_caller(scope)
        self._consumers.check_caller(scope["path"])

    def _inspect(self, scope: Scope) -> str:
        return split_consumer_path(scope["path"])[1]

    def _find_consumer(self, scope: Scope) -> str:
        return self._inspect(scope)

    def _answer_request(self, request: AdmissionRequest, cluster: str) -> Response | Awaitable[Response]:
        return self._answer_consumer(request, cluster)


def make_consumer_route(path: str, summary: str, *, consumers: Consumers, answer: Answer) -> ReviewRoute:
    """Return the route of a rule for the consumers of an export."""
    return ReviewRoute(path, summary, partial(ConsumerEndpoint, consumers=consumers, answer=answer))


async def _read_key(connection: "Connection", path: str) -> bytes:
    """Return the key of the tokens, which all replicas share; raises APIError, UnreachableError."""
    present = await get_object(connection, f"{path}/{CONSUMERS_SECRET}")
    if present is None:
        body: JSONObject = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": CONSUMERS_SECRET, "labels": {"app.kubernetes.io/name": "fleethook"}},
            "data": {"key": base64.b64encode(secrets.token_bytes(32)).decode()},
        }
        # Another replica may have created it meanwhile: this is an error, and the caller asks again.
        present = await connection.json("POST", path, body=body)
    key: bytes = base64.b64decode(present["data"]["key"])
    return key


def list_stable(store: Store, cluster: str, kind: GroupKind) -> list[Any]:
    """Return the objects of a kind, which another thread may change meanwhile."""
    while True:
        try:
            return list(store.each(cluster, kind))
        except RuntimeError:  # The event loop has added or removed an object meanwhile.
            continue
