"""Claims and slices of devices (pkg/apis/resource/v1beta1/conversion.go).

``resource.k8s.io/v1`` and ``v1beta2`` are the same. ``v1beta1`` is flat where these nest, and nests where they are
flat.
"""

from collections.abc import Callable, Mapping
from typing import Final

from app.dispatch.builtin_conversion.go_json import as_struct, as_structs, omit_empty
from app.model.json import JSON, JSONObject

_V1BETA1: Final = "resource.k8s.io/v1beta1"
_EXACT: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
)  # fmt: skip
_BASIC: Final = (
    "attributes", "capacity", "consumesCounters", "nodeName", "nodeSelector", "allNodes", "taints", "bindsToNode",
    "bindingConditions", "bindingFailureConditions", "allowMultipleAllocations", "nodeAllocatableResourceMappings",
)  # fmt: skip
_Part = Callable[[Mapping[str, JSON]], JSONObject]


def convert_claim(claim: JSONObject, api_version: str) -> JSONObject:
    """Return a ResourceClaim in another version."""
    made = {**claim, "apiVersion": api_version}
    part = _part(claim, api_version, flat=_flat_request, nested=_nested_request)
    return made if part is None else {**made, "spec": _claim_spec(claim.get("spec"), part)}


def convert_template(template: JSONObject, api_version: str) -> JSONObject:
    """Return a ResourceClaimTemplate in another version."""
    made = {**template, "apiVersion": api_version}
    part = _part(template, api_version, flat=_flat_request, nested=_nested_request)
    if part is None:
        return made
    spec = as_struct(template.get("spec"))
    return {**made, "spec": {**spec, "spec": _claim_spec(spec.get("spec"), part)}}


def convert_slice(found: JSONObject, api_version: str) -> JSONObject:
    """Return a ResourceSlice in another version."""
    made = {**found, "apiVersion": api_version}
    part = _part(found, api_version, flat=_nested_device, nested=_flat_device)
    if part is None:
        return made
    spec = dict(as_struct(found.get("spec")))
    if spec.get("devices"):
        spec["devices"] = [part(device) for device in as_structs(spec["devices"])]
    # Of v1beta1 these are no pointers: there is no false and no empty name.
    for name in ("nodeName", "allNodes"):
        if name in spec and not spec[name]:
            del spec[name]
    return {**made, "spec": spec}


def _part(document: JSONObject, api_version: str, *, flat: _Part, nested: _Part) -> _Part | None:
    """Return how the parts are converted that differ, None if none do."""
    if api_version == _V1BETA1:
        return flat
    return nested if document.get("apiVersion") == _V1BETA1 else None


def _claim_spec(value: JSON, part: _Part) -> JSONObject:
    spec = as_struct(value)
    devices = as_struct(spec.get("devices"))
    requests = devices.get("requests")
    made = requests if requests is None else [part(request) for request in as_structs(requests)]
    return {**spec, "devices": {**devices, "requests": made}}


def _flat_request(request: Mapping[str, JSON]) -> JSONObject:
    exact = as_struct(request.get("exactly"))
    made = {"name": request.get("name", ""), "deviceClassName": exact.get("deviceClassName", "")}
    made |= {name: exact[name] for name in _EXACT if name in exact}
    return made | omit_empty(firstAvailable=request.get("firstAvailable"))


def _nested_request(request: Mapping[str, JSON]) -> JSONObject:
    exact = {name: request[name] for name in _EXACT if name in request}
    made: JSONObject = {"name": request.get("name", "")}
    if exact.get("deviceClassName") or exact.keys() - {"deviceClassName"}:
        made["exactly"] = {"deviceClassName": "", **exact}
    return made | omit_empty(firstAvailable=request.get("firstAvailable"))


def _nested_device(device: Mapping[str, JSON]) -> JSONObject:
    return {"name": device.get("name", ""), "basic": {name: device[name] for name in _BASIC if name in device}}


def _flat_device(device: Mapping[str, JSON]) -> JSONObject:
    basic = as_struct(device.get("basic"))
    return {"name": device.get("name", ""), **{name: basic[name] for name in _BASIC if name in basic}}
