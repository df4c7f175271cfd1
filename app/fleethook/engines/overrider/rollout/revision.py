"""The content of a subject's revision: the part from which OpenYurt computes it, as OpenYurt's Go types encode it.

The controllers compare the bytes of a revision with those of the present one (getYurtAppSetPatch and EqualRevision).
So unknown members, nulls and the empty values that Go omits change nothing, and another text of a quantity does.

Sources: pkg/yurtmanager/controller/yurtappset/revision.go of OpenYurt v1.5 to v1.7 for YurtAppSets v1beta1, of v1.4 for
v1alpha1; pkg/yurtmanager/controller/yurtappdaemon/revision.go (v1.4 to v1.6). In v1alpha1, OpenYurt's webhook fills
defaults into the template before it is stored (pkg/apis/apps/v1alpha1/default.go).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from fleethook.engines.overrider.subject.subject_members import is_v1beta1, templates_of
from fleethook.model.json import JSON, JSONObject, as_list, as_object, list_objects
from fleethook.workload_schema.defaults import set_defaults
from fleethook.workload_schema.go_structs import Kind, print_workload
from fleethook.workload_schema.normalize import encode_workload, normalize_struct

_KINDS: Final[Mapping[Kind, str]] = {"Deployment": "deploymentTemplate", "StatefulSet": "statefulSetTemplate"}
_SELECTOR: Final = "meta.v1.LabelSelector"
_IMAGE: Final = {"name": "", "targetImage": ""}
_MAX_NUMBER: Final = 2**1000
"""No number of an API object, and not beyond a float64."""
_PATCH: Final = {"path": "", "operation": "", "value": None}


def encode_revision(subject: JSONObject) -> bytes:
    """Return the content of the revision of a YurtAppSet or YurtAppDaemon; equal for equal revisions."""
    templates = as_object(templates_of(subject))
    spec = as_object(subject.get("spec"))
    selector = None if is_v1beta1(subject) else as_object(spec.get("selector"))
    made: JSONObject = {
        member: _encode_template(as_object(templates[member]), kind, selector)
        for kind, member in _KINDS.items()
        if isinstance(templates.get(member), dict)
    }
    tweaks = as_list(as_object(spec.get("workload")).get("workloadTweaks")) if selector is None else ()
    content = [made, [_encode_tweak(as_object(tweak)) for tweak in tweaks]]
    return msgspec.json.encode(_round_numbers(content), order="deterministic")


def _encode_template(template: Mapping[str, JSON], kind: Kind, selector: Mapping[str, JSON] | None) -> JSONObject:
    """Return a template as Go encodes it.

    Args:
        template: The template.
        kind: The kind of its workloads.
        selector: The selector of a subject of v1alpha1, which OpenYurt's webhook copies into the template. It marks
            that the webhook has filled in defaults.
    """
    spec = as_object(template.get("spec"))
    if selector is not None:
        spec = {**spec, "selector": selector, "template": _fill_defaults(as_object(spec.get("template")))}
    typed: JSONObject = {"metadata": as_object(template.get("metadata")), "spec": dict(spec)}
    encoded = print_workload(encode_workload(typed, kind), kind)
    return {name: encoded[name] for name in ("metadata", "spec")}


def _fill_defaults(template: Mapping[str, JSON]) -> JSONObject:
    """Return a pod template with the defaults of OpenYurt's webhook. Its default of the pull policy is Always."""
    pod = as_object(template.get("spec"))
    containers = [
        {**one, "imagePullPolicy": one.get("imagePullPolicy") or "Always"}
        for one in list_objects(pod.get("containers"))
    ]
    pod_template = {**template, "spec": {**pod, "containers": containers}}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": pod_template}}
    filled: JSONObject = set_defaults(workload)["spec"]["template"]
    return filled


def _encode_tweak(tweak: Mapping[str, JSON]) -> JSONObject:
    changes = as_object(tweak.get("tweaks"))
    selector = tweak.get("nodepoolSelector")
    made = {
        "nodepoolSelector": normalize_struct(_SELECTOR, selector) if isinstance(selector, dict) else selector,
        "pools": tweak.get("pools") or None,
        "replicas": changes.get("replicas"),
        "containerImages": _encode_list(changes.get("containerImages"), _IMAGE),
        "patches": _encode_list(changes.get("patches"), _PATCH),
    }
    return {name: value for name, value in made.items() if value is not None}


def _encode_list(elements: JSON, members: Mapping[str, JSON]) -> JSON:
    """Return a list of structs, None if Go omits it."""
    return [_encode_element(as_object(one), members) for one in as_list(elements)] or None


def _encode_element(element: Mapping[str, JSON], members: Mapping[str, JSON]) -> JSONObject:
    """Return a struct with these members and their zero values, without others. Null is zero, too."""
    return {name: zero if element.get(name) is None else element[name] for name, zero in members.items()}


def _round_numbers(value: JSON) -> JSON:
    """Return a value with each number as Go decodes it into an interface: as float64, so that 1 and 1.0 are equal."""
    if type(value) is int:
        return float(value) if abs(value) < _MAX_NUMBER else value
    if isinstance(value, dict):
        return {name: _round_numbers(inner) for name, inner in value.items()}
    return [_round_numbers(inner) for inner in value] if isinstance(value, list) else value
