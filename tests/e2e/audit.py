"""The writes of fleethook, read from the apiserver's audit log."""

import json
from collections import Counter
from typing import NamedTuple

from tests.e2e.cluster import ControlPlane
from tests.e2e.fleet import ACCOUNT, NAMESPACE

_WRITES = frozenset({"create", "update", "patch", "delete"})
WORKLOADS = frozenset({"deployments", "statefulsets"})


class Write(NamedTuple):
    """A request that writes."""

    resource: str
    namespace: str
    name: str
    code: int


class Audit:
    """Reads the requests of a service account from the apiserver's audit log, from the creation of this object on.

    The apiserver writes an entry before it sends the response (--audit-log-mode=blocking), so the log has every request
    whose effect a test has seen.
    """

    def __init__(self, plane: ControlPlane, user: str = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}") -> None:
        self._path = plane.directory / "audit.log"
        self._user = user
        self._offset = self._path.stat().st_size if self._path.exists() else 0
        self._writes: list[Write] = []

    def writes(self) -> list[Write]:
        """Return every write of a workload so far, including refused ones."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # Being written; read at the next call.
                self._offset += len(line)
                self._learn(json.loads(line))
        return self._writes

    def _learn(self, event: dict) -> None:
        about = event.get("objectRef", {})
        if event["user"]["username"] != self._user or event["verb"] not in _WRITES or about.get("subresource"):
            return
        if "dryRun=" in event["requestURI"]:
            return  # Stores nothing.
        if about.get("apiGroup") == "apps" and about["resource"] in WORKLOADS:
            code = event.get("responseStatus", {}).get("code", 0)
            self._writes.append(Write(about["resource"], about["namespace"], about.get("name", ""), code))

    def counts(self, namespace: str) -> Counter[str]:
        """Return how often each workload of a namespace was written."""
        return Counter(write.name for write in self.writes() if write.namespace == namespace)
