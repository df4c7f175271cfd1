"""Many instances on an apiserver in memory, and the controller that looks after them."""

import asyncio
import contextlib
import copy
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from fleethook.cluster.kubernetes.watched_resources import KARMADAS
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller.crds_metrics import FetchMetrics
from fleethook.engines.crds.controller.instance_fetches import FetchOptions
from fleethook.engines.crds.controller.karmada_controller import KarmadaController
from fleethook.model.crd_tarball import KARMADA
from tests.apiserver_rules import parse_path
from tests.cluster.object_server import ObjectServer
from tests.engines.crds.controller.test_karmada_controller import INSTANCE

PREPARED = "CRDsPrepared"


class Crowd(ObjectServer):
    """An apiserver with instances, and the controller beside Karmada's operator."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.seconds: dict[tuple[str, str], float] = {}
        self._begun: dict[tuple[str, str], float] = {}
        self.controller = KarmadaController(
            self,  # type: ignore[arg-type]
            Cache(root),
            FetchOptions(beside=True, env_proxies=False),
            FetchMetrics(CollectorRegistry()),
        )

    def add(self, namespace: str, name: str, url: str) -> None:
        """Create an instance that wants the tarball of a URL."""
        spec = {"crdTarball": {"crdDownloadPolicy": "IfNotPresent", "httpSource": {"url": url}}}
        path = KARMADAS.in_namespace(namespace, name)
        self.store(path, {**INSTANCE, "metadata": {"name": name, "namespace": namespace}, "spec": spec})
        self._begun[namespace, name] = time.monotonic()
        self.controller.source.informer(KARMADA).learn(copy.deepcopy(self.objects[path]))

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work through the queue beside the block."""
        work = asyncio.create_task(self.controller.queue.run(self.controller.reconcile))
        try:
            yield
        finally:
            work.cancel()
            await asyncio.wait([work])

    def reason(self, namespace: str, name: str) -> str:
        """Return the reason of ``CRDsPrepared``, ``""`` without that condition."""
        status = self.objects[KARMADAS.in_namespace(namespace, name)].get("status", {})
        return next((one["reason"] for one in status.get("conditions", []) if one["type"] == PREPARED), "")

    def reasons(self) -> dict[str, int]:
        """Return how many instances have each reason."""
        found = [self.reason(*key) for key in self._begun]
        return {reason: found.count(reason) for reason in sorted(set(found))}

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        answer = await super().request(method, path, **rest)
        if method == "PATCH" and "/karmadas/" in path:
            at = parse_path(path)
            key = at.namespace, at.name
            if self.reason(*key) not in ("", "Downloading"):
                self.seconds.setdefault(key, time.monotonic() - self._begun[key])
        return answer
