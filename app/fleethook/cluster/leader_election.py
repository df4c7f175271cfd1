"""Elects one of several replicas as leader by a Lease (coordination.k8s.io/v1).

The rules are those of client-go's tools/leaderelection. A candidate takes over a Lease that has not changed for its
duration *by the candidate's own clock*, so clock skew between machines is harmless. A leader that cannot renew within a
shorter deadline stops before another candidate may start. At shutdown, the leader releases the Lease so that the next
leader need not wait until it expires.
"""

import asyncio
import contextlib
import logging
import random
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from fleethook.cluster.api_errors import CONFLICT, APIError, UnreachableError, get_object
from fleethook.cluster.conditions_and_events import parse_time
from fleethook.model.json import JSONObject, as_object
from fleethook.settings import Settings

if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection

_log: Final = logging.getLogger(__name__)

_API_VERSION: Final = "coordination.k8s.io/v1"


def create_identity() -> str:
    """Return a unique name for this process that contains the host name (in a pod: the pod's name)."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


class LeaseName(NamedTuple):
    """The namespace and name of a Lease."""

    namespace: str
    name: str

    @property
    def collection(self) -> str:
        """The API path of the namespace's Leases."""
        return f"/apis/{_API_VERSION}/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        """The API path of the Lease."""
        return f"{self.collection}/{self.name}"


class LeaseTiming(NamedTuple):
    """client-go's intervals in seconds, with its defaults: duration > deadline > retry period."""

    lease_duration: float = 15.0
    """Other candidates take over after this time without a renewal."""
    renew_deadline: float = 10.0
    """The leader stops after this time without a renewal."""
    retry_period: float = 2.0
    """The time between attempts to acquire or renew."""

    @classmethod
    def from_duration(cls, duration: float) -> "LeaseTiming":
        """Return the intervals for a Lease of ``duration`` seconds, in client-go's proportions."""
        return cls(duration, duration * 2 / 3, duration * 2 / 15)


def get_holder(lease: JSONObject) -> str:
    """Return the identity of the candidate that holds a Lease, ``""`` if none does."""
    return str(as_object(lease.get("spec")).get("holderIdentity") or "")


class LeaderElector:
    """One candidate of an election.

    Attributes:
        leading: Whether this candidate holds the Lease.
    """

    def __init__(
        self,
        connection: "Connection",
        lease: LeaseName,
        identity: str,
        *,
        timing: LeaseTiming = LeaseTiming(),  # noqa: B008 - immutable
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the arguments; `run` starts the election. ``identity`` must be unique among the candidates."""
        self.leading = False
        self._connection: Final = connection
        self._lease: Final = lease
        self._identity: Final = identity
        self._timing: Final = timing
        self._clock: Final = clock
        self._observed: Mapping[str, Any] | None = None
        self._observed_at = 0.0
        self._problem = ""

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Take part in the election until cancelled.

        The candidate runs ``lead`` while it holds the Lease and cancels it when it loses the Lease.

        Raises:
            Exception: ``lead`` raised it. The candidate releases the Lease and stops.
        """
        try:
            while True:
                while not await self._acquire_or_renew():
                    await self._sleep_with_jitter()
                _log.info("became leader", extra={"fields": {"lease": self._lease.path, "identity": self._identity}})
                await self._run_while_leading(lead)
        finally:
            await self._release()

    async def _sleep_with_jitter(self) -> None:
        await asyncio.sleep(self._timing.retry_period * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load

    async def _run_while_leading(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        work = asyncio.create_task(lead(), name="leader's work")
        self.leading = True
        try:
            renewed = self._clock()
            while True:
                await asyncio.wait([work], timeout=self._timing.retry_period)
                if work.done():
                    work.result()
                    return
                if await self._acquire_or_renew():
                    renewed = self._clock()
                elif (
                    self._get_observed_holder() != self._identity
                    or self._clock() - renewed > self._timing.renew_deadline
                ):
                    _log.warning("lost the leader election", extra={"fields": {"lease": self._lease.path}})
                    return
        finally:
            self.leading = False
            work.cancel()
            await asyncio.wait([work])

    async def _acquire_or_renew(self) -> bool:
        """Acquire or renew the Lease; return whether this candidate holds it now. Logs each new error once."""
        try:
            held = await self._try_acquire_or_renew()
        except (APIError, UnreachableError) as error:
            if self._problem != str(error):
                _log.warning("cannot acquire or renew lease %s: %s", self._lease.path, error)
            self._problem = str(error)
            return False
        self._problem = ""
        return held

    async def _try_acquire_or_renew(self) -> bool:
        present = await self._read()
        if present is None:
            body = {
                "apiVersion": _API_VERSION,
                "kind": "Lease",
                "metadata": {"name": self._lease.name, "namespace": self._lease.namespace},
                "spec": self._build_spec({}),
            }
            return await self._write("POST", self._lease.collection, body)
        self._observe(present)
        if not self._can_acquire():
            return False
        spec = self._build_spec(as_object(present.get("spec")))
        return await self._write("PUT", self._lease.path, {**present, "spec": spec})

    async def _read(self) -> JSONObject | None:
        return await get_object(self._connection, self._lease.path, timeout=self._request_timeout)

    async def _write(self, method: str, path: str, body: JSONObject) -> bool:
        try:
            written = await self._connection.json(method, path, body=body, timeout=self._request_timeout)
        except APIError as error:
            if error.code == CONFLICT:
                return False  # Another candidate was faster; the next attempt reads its record.
            raise
        self._observe(written)
        return True

    @property
    def _request_timeout(self) -> float:
        """Seconds for one request: two requests fit between the renew deadline and the end of the Lease."""
        return (self._timing.lease_duration - self._timing.renew_deadline) / 2

    def _observe(self, lease: JSONObject) -> None:
        spec = as_object(lease.get("spec"))
        if spec != self._observed:
            self._observed, self._observed_at = spec, self._clock()

    def _get_observed_holder(self) -> str:
        return str((self._observed or {}).get("holderIdentity") or "")

    def _can_acquire(self) -> bool:
        if self._get_observed_holder() in ("", self._identity):
            return True
        seconds = float((self._observed or {}).get("leaseDurationSeconds") or self._timing.lease_duration)
        return self._clock() - self._observed_at > seconds

    def _build_spec(self, former: Mapping[str, Any]) -> JSONObject:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = former.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            # The API accepts whole seconds only, and at least one.
            "leaseDurationSeconds": max(1, round(self._timing.lease_duration)),
            "acquireTime": former.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": int(former.get("leaseTransitions") or 0) + (0 if mine else 1),
        }

    async def _release(self) -> None:
        """Release the Lease if this candidate holds it, so that the next leader need not wait."""
        if self._get_observed_holder() != self._identity:
            return
        with contextlib.suppress(APIError, UnreachableError):
            present = await self._read()
            if present is None or get_holder(present) != self._identity:
                return
            spec = {**present["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._write("PUT", self._lease.path, {**present, "spec": spec})


NAME: Final = "fleethook"
"""The name of the Lease."""
_POD_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def find_namespace(settings: Settings, *, pod_file: Path = _POD_NAMESPACE_FILE) -> str:
    """Return the namespace of the Lease: from the settings, else that of the pod, the Service or the Secret.

    Args:
        settings: The settings of the server, or of the console.
        pod_file: The file with the pod's namespace, which is read only with in-cluster credentials.
    """
    if settings.namespace is not None:
        return settings.namespace
    if settings.in_cluster and pod_file.exists():
        return pod_file.read_text().strip()
    for namespaced_name in (settings.service, settings.cert_secret):
        if namespaced_name is not None:
            return namespaced_name.partition("/")[0]
    return "kube-system"


State = Literal["leads", "not renewed", "released", "absent"]


class Leader(NamedTuple):
    """The leader.

    Attributes:
        state: ``leads``; ``not renewed`` for longer than the Lease lasts, so another replica may take over;
            ``released`` by a leader that ended; ``absent`` if there is no Lease.
        holder: The identity of the replica: its host name and a random part, ``""`` without a holder.
        since: When it took the Lease, in UTC; ``""`` if unknown.
        renewed: Seconds since the last renewal by the local clock, None if unknown.
        transitions: How often the leader has changed.
    """

    state: State
    holder: str = ""
    since: str = ""
    renewed: float | None = None
    transitions: int = 0

    def explain_end(self, namespace: str) -> str:
        """Return why no leader holds the Lease in a namespace."""
        reasons = {
            "released": "it has stopped",
            "not renewed": f"{self.holder or 'its leader'} does not renew the Lease",
        }
        return reasons.get(self.state, f"there is no Lease {NAME} in the namespace {namespace}")


def describe_lease(lease: JSONObject | None, *, now: datetime) -> Leader:
    """Return the leader that a Lease names.

    Args:
        lease: The Lease, None if there is none.
        now: The time by the local clock.
    """
    if lease is None:
        return Leader("absent")
    spec = as_object(lease.get("spec"))
    holder = str(spec.get("holderIdentity") or "")
    acquired, renewed = parse_time(spec.get("acquireTime")), parse_time(spec.get("renewTime"))
    age = None if renewed is None else max(0.0, (now - renewed).total_seconds())
    duration, transitions = _read_number(spec.get("leaseDurationSeconds")), _read_number(spec.get("leaseTransitions"))
    state: State = "released" if not holder else "leads" if age is not None and age <= duration else "not renewed"
    return Leader(state, holder, "" if acquired is None else f"{acquired:%Y-%m-%d %H:%M:%S}", age, transitions)


def _read_number(value: Any) -> int:
    return value if isinstance(value, int) else 0
