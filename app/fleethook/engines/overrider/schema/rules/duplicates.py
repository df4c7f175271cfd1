"""Finds elements of a pod spec that kube-apiserver refuses because an earlier one has the same identity.

Source: pkg/apis/core/validation of k8s.io/kubernetes v1.36. Other lists with merge keys may repeat a key: ``env``,
``ports`` (except names), ``hostAliases`` and ``imagePullSecrets``.
"""

import json
from collections.abc import Iterator
from typing import Final

from fleethook.engines.overrider.schema.findings import Finding
from fleethook.model.json import JSON, JSONObject, as_object

_POD_SPEC: Final = "/spec/template/spec"
_CONTAINER_LISTS: Final = ("initContainers", "containers")
_IN_POD: Final = (
    ("volumes", ("name",)),
    ("resourceClaims", ("name",)),
    ("schedulingGates", ("name",)),
    ("topologySpreadConstraints", ("topologyKey", "whenUnsatisfiable")),
)
_IN_CONTAINER: Final = (
    ("ports", ("name",)),
    ("resizePolicy", ("resourceName",)),
    ("volumeDevices", ("devicePath",)),
    ("volumeMounts", ("mountPath",)),
)


def find_duplicates(workload: JSONObject) -> Iterator[Finding]:
    """Yield a finding for each element of the pod template whose identity an earlier element has."""
    pod_spec = as_object(as_object(as_object(workload.get("spec")).get("template")).get("spec"))
    yield from _find_repeated([(_POD_SPEC, pod_spec, name) for name in _CONTAINER_LISTS], ("name",))
    for name, keys in _IN_POD:
        yield from _find_repeated([(_POD_SPEC, pod_spec, name)], keys)
    for list_name in _CONTAINER_LISTS:
        for pointer, container in _list_elements(_POD_SPEC, pod_spec, list_name):
            for name, keys in _IN_CONTAINER:
                yield from _find_repeated([(pointer, container, name)], keys)


_List = tuple[str, JSON, str]
"""The pointer of an object, the object, and the name of a list in it."""


def _find_repeated(lists: list[_List], keys: tuple[str, ...]) -> Iterator[Finding]:
    first: dict[tuple[JSON, ...], str] = {}
    for pointer, element in (found for where in lists for found in _list_elements(*where)):
        identity = tuple(element.get(key) for key in keys)
        if not all(isinstance(value, str) for value in identity):
            continue  # An optional member, or one with a wrong type, which has its own finding.
        earlier = first.setdefault(identity, pointer)
        if earlier != pointer:
            identifying = ", ".join(f"{key} {json.dumps(value)}" for key, value in zip(keys, identity, strict=True))
            yield Finding(pointer, "duplicate", f"{earlier} has the same {identifying}: rename or remove one of them")


def _list_elements(pointer: str, node: JSON, name: str) -> Iterator[tuple[str, JSONObject]]:
    elements = as_object(node).get(name)
    for index, element in enumerate(elements if isinstance(elements, list) else ()):
        if isinstance(element, dict):
            yield f"{pointer}/{name}/{index}", element
