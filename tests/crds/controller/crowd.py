"""Many instances on an apiserver in memory, and the controller that looks after them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from app.crds.cache.cache import Cache
from app.crds.controller import controller as module
from app.crds.controller.controller import KarmadaController
from app.crds.controller.metrics import FetchMetrics
from app.crds.controller.options import Options
from app.kube.errors import APIError
from app.model.json import JSONObject
from app.model.operator import KARMADA
from tests.apiserver_rules import check_event
from tests.crds.controller.test_controller import merge

PREPARED = "CRDsPrepared"


class Crowd:
    """Instances by namespace and name, as an apiserver keeps them, and the controller beside Karmada's operator."""

    def __init__(self, root: Path) -> None:
        self.stored: dict[tuple[str, str], JSONObject] = {}
        self.seconds: dict[tuple[str, str], float] = {}
        self._begun: dict[tuple[str, str], float] = {}
        self.controller = KarmadaController(
            self,  # type: ignore[arg-type]
            Cache(root),
            Options(beside=True, env_proxies=False),
            FetchMetrics(CollectorRegistry()),
        )

    def add(self, namespace: str, name: str, url: str) -> None:
        """Create an instance that wants the tarball of a URL."""
        karmada = self.stored[namespace, name] = {
            "metadata": {
                "name": name, "namespace": namespace, "generation": 1, "resourceVersion": "1", "uid": f"{namespace} {name}",
            },
            "spec": {"crdTarball": {"crdDownloadPolicy": "IfNotPresent", "httpSource": {"url": url}}},
        }  # fmt: skip
        self._begun[namespace, name] = time.monotonic()
        document = msgspec.json.decode(msgspec.json.encode(karmada))
        self.controller.source.informer(KARMADA).learn(document)

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work through the queue beside the block."""
        work = asyncio.create_task(self.controller.queue.run(self.controller.reconcile, workers=module.WORKERS))
        try:
            yield
        finally:
            work.cancel()
            self.controller._fetcher.close()
            self.controller._verifier.close()
            await asyncio.wait([work])

    def reason(self, namespace: str, name: str) -> str:
        """Return the reason of ``CRDsPrepared``, ``""`` without that condition."""
        status = self.stored[namespace, name].get("status", {})
        return next((one["reason"] for one in status.get("conditions", []) if one["type"] == PREPARED), "")

    def reasons(self) -> dict[str, int]:
        """Return how many instances have each reason."""
        found = [self.reason(*key) for key in self.stored]
        return {reason: found.count(reason) for reason in sorted(set(found))}

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> bytes:
        """Answer as the apiserver does."""
        if "/events" in path:
            if method == "POST":
                check_event(path, body)
            return b"{}"
        parts = path.split("/")
        key = parts[parts.index("namespaces") + 1], parts[parts.index("karmadas") + 1]
        karmada = self.stored[key]
        version = karmada["metadata"]["resourceVersion"]
        if method == "PATCH":
            if body.get("metadata", {}).pop("resourceVersion", version) != version:
                raise APIError(409, "Conflict", "the object has been modified")
            merge(karmada, body)
            karmada["metadata"]["resourceVersion"] = str(int(version) + 1)
            if self.reason(*key) not in ("", "Downloading"):
                self.seconds.setdefault(key, time.monotonic() - self._begun[key])
        return msgspec.json.encode(karmada)
