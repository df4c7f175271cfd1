"""Objects with fields that are absent in one version and set in another."""

import json
from collections.abc import Iterator
from typing import Any

_META = {"name": "a", "namespace": "default"}


def _events() -> Iterator[dict[str, Any]]:
    for count in (0, 2):
        series = {"count": count, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}
        reference = {"kind": "Pod", "name": "p"}
        old = {"involvedObject": reference, "message": "m", "source": {"host": "h"}, "count": count}
        yield {"apiVersion": "v1", "kind": "Event", "metadata": _META, "series": series, **old}
        new = {"regarding": reference, "note": "n", "reportingController": "c", "deprecatedCount": count}
        yield {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": _META, "series": series, **new}
    yield {"apiVersion": "v1", "kind": "Event", "metadata": _META}
    yield {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": _META}


def _requests() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield requests for devices in a version."""
    first = [{"name": "f", "deviceClassName": "c", "count": 1}]
    flat = ({}, {"deviceClassName": "c"}, {"count": 2}, {"adminAccess": False}, {"firstAvailable": first})
    yield "v1beta1", [{"name": f"r{number}", **one} for number, one in enumerate(flat)]
    exact = ({}, {"deviceClassName": "c", "allocationMode": "All"}, {"capacity": {}})
    nested = [{"name": f"r{number}", "exactly": one} for number, one in enumerate(exact)]
    yield "v1", [*nested, {"name": "none"}, {"name": "first", "firstAvailable": first}]
    yield "v1beta2", nested
    yield "v1beta1", []


def _claims() -> Iterator[dict[str, Any]]:
    for version, requests in _requests():
        named = {"apiVersion": f"resource.k8s.io/{version}", "metadata": _META}
        spec = {"devices": {"requests": requests}}
        yield {**named, "kind": "ResourceClaim", "spec": spec}
        yield {**named, "kind": "ResourceClaimTemplate", "spec": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}


def _slices() -> Iterator[dict[str, Any]]:
    for version in ("v1", "v1beta2", "v1beta1"):
        for where in ({"nodeName": "", "allNodes": False}, {"nodeName": "n"}, {"allNodes": True}, {}):
            parts = {
                "attributes": {"a": {"bool": False}},
                "allNodes": False,
                "nodeName": "",
                "taints": [{"key": "k", "effect": "None"}],
            }
            device = {"name": "d", "basic": parts} if version == "v1beta1" else {"name": "d", **parts}
            pool = {"name": "p", "generation": 0, "resourceSliceCount": 1}
            spec = {"driver": "d", "pool": pool, "devices": [device, {"name": "e"}], **where}
            yield {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice", "metadata": _META, "spec": spec}


def lines() -> str:
    """Return all of them as JSON lines."""
    return "".join(f"{json.dumps(one)}\n" for part in (_events, _claims, _slices) for one in part())
