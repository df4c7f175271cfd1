"""Creates and updates Deployments through kube-apiserver, one request after the other."""

import http.client
from collections.abc import Iterable
from typing import Any

from benchmarks.engines.admission_planes import workloads_path
from tests.e2e.cluster import Api, decode

Write = tuple[str, str, dict[str, Any]]
"""Method, path and body."""


def delete(api: Api, connection: http.client.HTTPSConnection, stored: Iterable[dict[str, Any]]) -> None:
    for document in stored:
        path = f"{workloads_path(document)}/{document['metadata']['name']}"
        decode(api.send(connection, "DELETE", path))


def put(stored: dict[str, Any], spec: dict[str, Any]) -> Write:
    """Return the update of a spec."""
    document = {**stored, "spec": spec}
    # Another controller may have written the status or an annotation since.
    document["metadata"] = {name: one for name, one in stored["metadata"].items() if name != "resourceVersion"}
    return "PUT", f"{workloads_path(document)}/{document['metadata']['name']}", document
