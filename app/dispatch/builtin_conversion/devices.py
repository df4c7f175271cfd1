"""Converts ResourceClaims and ResourceSlices (pkg/apis/resource/v1beta1/conversion.go).

``resource.k8s.io/v1`` and ``v1beta2`` have the same members. ``v1beta1`` has flat requests and nested devices; the
later versions have nested requests and flat devices.
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
    """Convert a ResourceClaim to another version."""
    made = {**claim, "apiVersion": api_version}
    part = _select_conversion(claim, api_version, flat=_flatten_request, nested=_nest_request)
    return made if part is None else {**made, "spec": _convert_claim_spec(claim.get("spec"), part)}


def convert_template(template: JSONObject, api_version: str) -> JSONObject:
    """Convert a ResourceClaimTemplate to another version."""
    made = {**template, "apiVersion": api_version}
    part = _select_conversion(template, api_version, flat=_flatten_request, nested=_nest_request)
    if part is None:
        return made
    spec = as_struct(template.get("spec"))
    return {**made, "spec": {**spec, "spec": _convert_claim_spec(spec.get("spec"), part)}}


def convert_slice(found: JSONObject, api_version: str) -> JSONObject:
    """Convert a ResourceSlice to another version."""
    made = {**found, "apiVersion": api_version}
    part = _select_conversion(found, api_version, flat=_nest_device, nested=_flatten_device)
    if part is None:
        return made
    spec = dict(as_struct(found.get("spec")))
    if spec.get("devices"):
        spec["devices"] = [part(device) for device in as_structs(spec["devices"])]
    # In v1beta1 these are not pointers, so false and the empty name are omitted.
    for name in ("nodeName", "allNodes"):
        if name in spec and not spec[name]:
            del spec[name]
    return {**made, "spec": spec}


def _select_conversion(document: JSONObject, api_version: str, *, flat: _Part, nested: _Part) -> _Part | None:
    """Return the conversion of the parts that differ between the versions, None if none differ."""
    if api_version == _V1BETA1:
        return flat
    return nested if document.get("apiVersion") == _V1BETA1 else None


def _convert_claim_spec(value: JSON, part: _Part) -> JSONObject:
    spec = as_struct(value)
    devices = as_struct(spec.get("devices"))
    requests = devices.get("requests")
    made = requests if requests is None else [part(request) for request in as_structs(requests)]
    return {**spec, "devices": {**devices, "requests": made}}


def _flatten_request(request: Mapping[str, JSON]) -> JSONObject:
    exact = as_struct(request.get("exactly"))
    made = {"name": request.get("name", ""), "deviceClassName": exact.get("deviceClassName", "")}
    made |= {name: exact[name] for name in _EXACT if name in exact}
    return made | omit_empty(firstAvailable=request.get("firstAvailable"))


def _nest_request(request: Mapping[str, JSON]) -> JSONObject:
    exact = {name: request[name] for name in _EXACT if name in request}
    made: JSONObject = {"name": request.get("name", "")}
    if exact.get("deviceClassName") or exact.keys() - {"deviceClassName"}:
        made["exactly"] = {"deviceClassName": "", **exact}
    return made | omit_empty(firstAvailable=request.get("firstAvailable"))


def _nest_device(device: Mapping[str, JSON]) -> JSONObject:
    return {"name": device.get("name", ""), "basic": {name: device[name] for name in _BASIC if name in device}}


def _flatten_device(device: Mapping[str, JSON]) -> JSONObject:
    basic = as_struct(device.get("basic"))
    return {"name": device.get("name", ""), **{name: basic[name] for name in _BASIC if name in basic}}
