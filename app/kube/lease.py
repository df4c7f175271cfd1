"""Electing one of several replicas by a Lease (coordination.k8s.io/v1).

The rules are client-go's (tools/leaderelection): a Lease counts as abandoned when its record has not changed for its
duration *by the watcher's own clock*, so clocks that differ between machines do no harm; a holder that could not renew
within a shorter deadline stops before anybody else may start. Added to them: the Lease is given back at shutdown, so
that the next one does not wait for it to run out.
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
from typing import Any, Final, NamedTuple

from app.kube.connection import Connection
from app.kube.errors import APIError, UnreachableError
from app.model.json import JSONObject, as_object

_log: Final = logging.getLogger(__name__)

_API_VERSION: Final = "coordination.k8s.io/v1"


def identity() -> str:
    """Return a name of this process that no other has, and that tells a person which one it is."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


class LeaseName(NamedTuple):
    """Where the Lease is."""

    namespace: str
    name: str

    @property
    def collection(self) -> str:
        """The path of the namespace's Leases."""
        return f"/apis/{_API_VERSION}/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        """The path of the Lease."""
        return f"{self.collection}/{self.name}"


class Timing(NamedTuple):
    """Seconds; ``duration`` > ``deadline`` > ``retry``. client-go's defaults."""

    duration: float = 15.0
    """Without a renewal, others take over after this."""
    deadline: float = 10.0
    """Without a renewal, the holder itself stops after this."""
    retry: float = 2.0
    """Between attempts to acquire or to renew."""

    @classmethod
    def of(cls, duration: float) -> "Timing":
        """Return the timing of a Lease of that duration, in client-go's proportions."""
        return cls(duration, duration * 2 / 3, duration * 2 / 15)


class Elector:
    """One candidate.

    Attributes:
        leading: Whether it holds the Lease.
    """

    def __init__(
        self,
        connection: Connection,
        lease: LeaseName,
        identity: str,
        *,
        timing: Timing = Timing(),  # noqa: B008 - immutable
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare a candidate; ``identity`` is unique to it."""
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
        """Stand for election until cancelled; run ``lead`` while the Lease is held, and cancel it when it is lost.

        Raises:
            Exception: What ``lead`` raised; it is not started again.
        """
        try:
            while True:
                while not await self._attempt():
                    await self._pause()
                _log.info("leading", extra={"fields": {"lease": self._lease.path, "identity": self._identity}})
                await self._hold(lead)
        finally:
            await self._release()

    async def _pause(self) -> None:
        await asyncio.sleep(self._timing.retry * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load

    async def _hold(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        work = asyncio.create_task(lead(), name="leader's work")
        self.leading = True
        try:
            renewed = self._clock()
            while True:
                await asyncio.wait([work], timeout=self._timing.retry)
                if work.done():
                    work.result()
                    return
                if await self._attempt():
                    renewed = self._clock()
                elif self._holder() != self._identity or self._clock() - renewed > self._timing.deadline:
                    _log.warning("no longer leading", extra={"fields": {"lease": self._lease.path}})
                    return
        finally:
            self.leading = False
            work.cancel()
            await asyncio.wait([work])

    async def _attempt(self) -> bool:
        """Acquire or renew; return whether the Lease is held now."""
        try:
            held = await self._take()
        except (APIError, UnreachableError) as error:
            if self._problem != str(error):
                _log.warning("lease %s: %s", self._lease.path, error)
            self._problem = str(error)
            return False
        self._problem = ""
        return held

    async def _take(self) -> bool:
        present = await self._read()
        if present is None:
            body = {
                "apiVersion": _API_VERSION,
                "kind": "Lease",
                "metadata": {"name": self._lease.name, "namespace": self._lease.namespace},
                "spec": self._spec({}),
            }
            return await self._write("POST", self._lease.collection, body)
        self._observe(present)
        if not self._may_take():
            return False
        spec = self._spec(as_object(present.get("spec")))
        return await self._write("PUT", self._lease.path, {**present, "spec": spec})

    async def _read(self) -> JSONObject | None:
        try:
            present: JSONObject = await self._connection.json("GET", self._lease.path, timeout=self._patience)
        except APIError as error:
            if error.code == 404:
                return None
            raise
        return present

    async def _write(self, method: str, path: str, body: JSONObject) -> bool:
        try:
            written = await self._connection.json(method, path, body=body, timeout=self._patience)
        except APIError as error:
            if error.code == 409:
                return False  # Somebody was faster; the next look shows who.
            raise
        self._observe(written)
        return True

    @property
    def _patience(self) -> float:
        """Seconds for one request: two of them fit between the deadline and the end of the Lease."""
        return (self._timing.duration - self._timing.deadline) / 2

    def _observe(self, lease: JSONObject) -> None:
        spec = as_object(lease.get("spec"))
        if spec != self._observed:
            self._observed, self._observed_at = spec, self._clock()

    @staticmethod
    def _held_by(lease: JSONObject) -> str:
        return str(as_object(lease.get("spec")).get("holderIdentity") or "")

    def _holder(self) -> str:
        return str((self._observed or {}).get("holderIdentity") or "")

    def _may_take(self) -> bool:
        if self._holder() in ("", self._identity):
            return True
        seconds = float((self._observed or {}).get("leaseDurationSeconds") or self._timing.duration)
        return self._clock() - self._observed_at > seconds

    def _spec(self, former: Mapping[str, Any]) -> JSONObject:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = former.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            # Of whole seconds, and of at least one: the API wants it so.
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "acquireTime": former.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": int(former.get("leaseTransitions") or 0) + (0 if mine else 1),
        }

    async def _release(self) -> None:
        """Give the Lease back, if it is held: the next one need not wait."""
        if self._holder() != self._identity:
            return
        with contextlib.suppress(APIError, UnreachableError):
            present = await self._read()
            if present is None or self._held_by(present) != self._identity:
                return
            spec = {**present["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._write("PUT", self._lease.path, {**present, "spec": spec})
