"""The pod templates that workloads have had, and the number of ReplicaSets that a real controller made."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.e2e.cluster import Api
from tests.e2e.openyurt import POOL_LABEL
from tests.e2e.watch import Watch
from tests.e2e.workloads import APPS


class Rollouts:
    """Follows the Deployments of a namespace.

    A slow Deployment controller may miss a template that is replaced at once. The watch delivers every stored
    template, so that a count does not depend on the machine's speed.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._path = f"{APPS}/namespaces/{namespace}/deployments"
        self._templates: dict[str, list[str]] = {}
        self._watch = Watch(api, self._path, self._changed)

    def _changed(self, event: str, workload: dict[str, Any]) -> None:
        pool = workload["metadata"].get("labels", {}).get(POOL_LABEL, "")
        subject = next((owner["name"] for owner in workload["metadata"].get("ownerReferences", [])), "")
        seen = self._templates.setdefault(f"{subject}/{pool}", [])
        text = json.dumps(workload["spec"]["template"], sort_keys=True)
        if event != "DELETED" and seen[-1:] != [text]:
            seen.append(text)

    def templates(self, subject: str, pool: str) -> list[dict[str, Any]]:
        """Return the stored pod templates in order; neighbours differ."""
        assert not self._watch.problem, self._watch.problem
        return [json.loads(text) for text in self._templates.get(f"{subject}/{pool}", [])]

    def replica_sets(self, subject: str) -> dict[str, int]:
        """Return the number of ReplicaSets by pool."""
        deployments = {
            item["metadata"]["uid"]: item["metadata"]["labels"].get(POOL_LABEL, "")
            for item in self._api[self._path]["items"]
            if any(owner["name"] == subject for owner in item["metadata"].get("ownerReferences", []))
        }
        found = self._api[f"{APPS}/namespaces/{self._namespace}/replicasets"]["items"]
        owners = (item["metadata"]["ownerReferences"][0]["uid"] for item in found)
        return dict(Counter(deployments[uid] for uid in owners if uid in deployments))

    def has_followed(self) -> bool:
        """Return whether the Deployment controller has observed the current generation of every Deployment."""
        return all(
            item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"]
            for item in self._api[self._path]["items"]
        )

    def stop(self) -> None:
        self._watch.stop()


@contextlib.contextmanager
def follow_rollouts(api: Api, namespace: str) -> Iterator[Rollouts]:
    made = Rollouts(api, namespace)
    try:
        yield made
    finally:
        made.stop()
