"""A subject with its workloads and its overrider, and their state for tests."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.builders import image, overrider, pool, yurt_app_set
from tests.e2e.cluster import Api
from tests.e2e.fleet import OPENYURT
from tests.e2e.workloads import images, path_of, workload_of


class Subject:
    """A YurtAppSet, an overrider, and workloads as OpenYurt's controller creates them."""

    def __init__(self, admin: Api, namespace: str, pools: list[str], *, kind: str = "Deployment") -> None:
        self.admin, self.namespace = admin, namespace
        made = yurt_app_set(pools=[pool(name) for name in pools], kind=kind)
        made["metadata"] = {"name": "demo", "namespace": namespace}
        self.stored = admin.create(f"{OPENYURT}/namespaces/{namespace}/yurtappsets", made)
        self.paths: dict[str, str] = {}
        with ThreadPoolExecutor(16) as executor:
            list(executor.map(self._create, pools))

    def _create(self, name: str) -> None:
        made = workload_of(self.stored, name)
        answer = self.admin.create(path_of(made), made)
        self.paths[name] = path_of(answer)

    @property
    def rule(self) -> str:
        return f"{OPENYURT}/namespaces/{self.namespace}/yurtappoverriders/demo1"

    def override(self, *entries: dict[str, Any]) -> None:
        rule = overrider(*entries)
        rule["metadata"]["namespace"] = self.namespace
        self.admin.apply(self.rule, rule)

    def delete_override(self) -> None:
        self.admin.delete(self.rule)

    def workload(self, name: str) -> dict[str, Any]:
        return dict(self.admin[self.paths[name]])

    def images(self) -> dict[str, str]:
        return {name: images(self.workload(name))["nginx"] for name in self.paths}

    def versions(self) -> dict[str, str]:
        return {name: self.workload(name)["metadata"]["resourceVersion"] for name in self.paths}

    def status(self) -> dict[str, Any]:
        return dict(self.admin[self.rule].get("status") or {})

    def condition(self, kind: str) -> tuple[str, str, str]:
        for condition in self.status().get("conditions", []):
            if condition["type"] == kind:
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    def observed(self) -> bool:
        """Return whether the controller has observed the current generation of the overrider."""
        stored = self.admin[self.rule]
        return bool((stored.get("status") or {}).get("observedGeneration") == stored["metadata"]["generation"])

    def events(self) -> list[tuple[str, str, str]]:
        found = self.admin[f"/api/v1/namespaces/{self.namespace}/events"]["items"]
        return [(event["involvedObject"]["kind"], event["reason"], event["message"]) for event in found]


TO_2 = [image("nginx", "nginx:2.0")]
TO_3 = [image("nginx", "nginx:3.0")]
