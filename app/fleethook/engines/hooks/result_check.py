"""The faults of an object that a rule has changed: the parts that kube-apiserver refuses or drops.

Built-in kinds: Deployments, StatefulSets and Pods. Custom resources: the structural schema of their
CustomResourceDefinition. All kinds: ``metadata``. Nothing else is known about other kinds.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, get_args

import msgspec
from jsonschema_rs import Draft4Validator, ValidationError

from fleethook.admission.named_members import lacks
from fleethook.model.admission import AdmissionRequest
from fleethook.model.gvk import GroupKind, GroupVersionKind
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch import format_pointer
from fleethook.workload_schema.change_check import adds_no_finding, find_conditions
from fleethook.workload_schema.check import MAX_FINDINGS, check_workload
from fleethook.workload_schema.go_structs import Kind

POD: Final = GroupKind("", "Pod")
_TEMPLATE: Final = "/spec/template"
_DEPLOYMENT: Final[JSONObject] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
_EVERY_POD: Final[JSONObject] = {}
# Members of a Pod that a template of a Deployment may not have, or not with these values.
_RESTARTS: Final = ("Never", "OnFailure")
_ONLY_PODS: Final = ("activeDeadlineSeconds", "ephemeralContainers")

# pkg/apis/apps/validation and pkg/apis/core/validation of k8s.io/kubernetes v1.36: ValidateDeploymentUpdate,
# ValidateStatefulSetUpdate and ValidatePodUpdate. Members of ``spec`` that an UPDATE may change; None for all others.
_IMMUTABLE: Final[Mapping[GroupKind, frozenset[str]]] = {GroupKind("apps", "Deployment"): frozenset({"selector"})}
_MUTABLE: Final[Mapping[GroupKind, frozenset[str]]] = {
    GroupKind("apps", "StatefulSet"): frozenset(
        {
            "minReadySeconds",
            "ordinals",
            "persistentVolumeClaimRetentionPolicy",
            "replicas",
            "revisionHistoryLimit",
            "template",
            "updateStrategy",
        }
    ),
    POD: frozenset(
        {
            "activeDeadlineSeconds",
            "containers",
            "ephemeralContainers",
            "initContainers",
            "schedulingGates",
            "terminationGracePeriodSeconds",
            "tolerations",
        }
    ),
}
_GATED: Final = frozenset({"affinity", "nodeSelector"})
"""Members of a Pod that may change as long as it has scheduling gates."""
_MAX_CACHED: Final = 256
"""Bytes of the largest value whose check is cached: the constants of rules."""
_CONTAINERS: Final = ("containers", "initContainers")


def find_faults(kind: GroupKind, document: JSONObject, old: JSONObject | None) -> list[str]:
    """Return the faults of an object of a built-in kind, with their JSON pointers.

    Args:
        kind: The kind; others than those of this module have faults of ``metadata`` alone.
        document: The object.
        old: The stored object, for an UPDATE.
    """
    found = [str(one) for one in _check_built_in(kind, document)]
    return found if old is None else [*found, *_find_immutable(kind, document, old)]


def _check_built_in(kind: GroupKind, document: JSONObject) -> Iterator[Any]:
    if kind == POD:
        yield from _check_pod(document)
    elif kind.group == "apps" and kind.kind in get_args(Kind):
        name: Any = kind.kind
        yield from check_workload(document, name)
    else:
        found = check_workload({**_DEPLOYMENT, "metadata": document.get("metadata")}, "Deployment")
        yield from (one for one in found if one.pointer.startswith("/metadata"))


def adds_no_fault(kind: GroupKind, before: JSONObject, after: JSONObject, old: JSONObject | None) -> bool:
    """Return True if `find_faults` certainly finds nothing in a changed object that it does not find in the former.

    Args:
        kind: The kind.
        before: The object as kube-apiserver sends it.
        after: The changed object, whose unchanged parts are the same Python objects.
        old: The stored object, for an UPDATE.
    """
    if old is not None and any(_find_immutable(kind, after, old)):
        return False
    if kind == POD and not any(map(_is_no_template, (before, after))):
        return adds_no_finding(before, after, None)
    if kind == POD:
        return adds_no_finding(_wrap_pod(before), _wrap_pod(after), "Deployment")
    name: Any = kind.kind
    if kind.group == "apps" and name in get_args(Kind):
        return adds_no_finding(before, after, name)
    return before.get("metadata") is after.get("metadata")


def is_harmless(kind: GroupKind, patch: Sequence[JSONObject], document: Any) -> bool:
    """Return True if a patch certainly adds no fault to an object that is created.

    Args:
        kind: The kind.
        patch: The operations.
        document: The object, with the members that `fleethook.admission.named_members` decodes.
    """
    name: Any = kind.kind
    is_workload = kind.group == "apps" and name in get_args(Kind)
    checked: Any = name if is_workload else None if kind == POD else "Deployment"
    for one in patch:
        if checked == "Deployment" and not is_workload and not one["path"].startswith("/metadata"):
            continue  # Nothing is known about other members of other kinds.
        value = msgspec.json.encode(one.get("value"))
        if one["op"] != "add" or len(value) > _MAX_CACHED:
            return False
        conditions = find_conditions(checked, one["path"], value)
        if conditions is None or not all(lacks(document, path, member) for path, member in conditions):
            return False
    return True


def _check_pod(pod: JSONObject) -> Iterator[Any]:
    """Yield the findings about a Pod as those about the template of a Deployment."""
    for one in check_workload(_wrap_pod(pod), "Deployment"):
        if one.pointer.startswith(_TEMPLATE):
            yield one._replace(pointer=one.pointer.removeprefix(_TEMPLATE))


def _is_no_template(pod: JSONObject) -> bool:
    """Return whether a pod has members that the template of a Deployment may not have, or not with their values."""
    spec = as_object(pod.get("spec"))
    return spec.get("restartPolicy") in _RESTARTS or any(name in spec for name in _ONLY_PODS)


def _wrap_pod(pod: JSONObject) -> JSONObject:
    """Return a Deployment with the template that describes a Pod."""
    template: JSONObject = {"spec": {}, **pod}
    for name in ("apiVersion", "kind", "status"):
        template.pop(name, None)
    spec = template["spec"]
    if _is_no_template(pod) and isinstance(spec, dict):
        template["spec"] = {name: value for name, value in spec.items() if name not in _ONLY_PODS}
        if spec.get("restartPolicy") in _RESTARTS:
            template["spec"]["restartPolicy"] = "Always"
    return {**_DEPLOYMENT, "spec": {"selector": _EVERY_POD, "template": template}}


def _find_immutable(kind: GroupKind, document: JSONObject, old: JSONObject) -> Iterator[str]:
    after, before = as_object(document.get("spec")), as_object(old.get("spec"))
    changed = sorted(name for name in after.keys() | before.keys() if after.get(name) != before.get(name))
    if kind in _IMMUTABLE:
        fixed = [name for name in changed if name in _IMMUTABLE[kind]]
    elif kind in _MUTABLE:
        allowed = _MUTABLE[kind] | (_GATED if kind == POD and before.get("schedulingGates") else frozenset())
        fixed = [name for name in changed if name not in allowed]
    else:
        return
    for name in fixed:
        yield f"/spec/{name}: may not change in an UPDATE"
    if kind == POD:
        yield from _find_immutable_containers(after, before)


def _find_immutable_containers(after: Mapping[str, JSON], before: Mapping[str, JSON]) -> Iterator[str]:
    """Yield the members of containers that an UPDATE may not change: all except the image."""
    for list_name in _CONTAINERS:
        new, former = ([*map(as_object, one.get(list_name) or ())] for one in (after, before))
        if len(new) != len(former):
            yield f"/spec/{list_name}: an UPDATE may neither add nor remove a container"
            continue
        for number, (one, other) in enumerate(zip(new, former, strict=True)):
            for name in sorted(one.keys() | other.keys()):
                if name != "image" and one.get(name) != other.get(name):
                    yield f"/spec/{list_name}/{number}/{name}: may not change in an UPDATE"


_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_KEPT: Final = (
    "type", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "multipleOf", "required", "uniqueItems", "allOf",
    "anyOf", "oneOf", "not",
)  # fmt: skip
_EVERY_OBJECT: Final = ("apiVersion", "kind", "metadata")


class Schema(NamedTuple):
    """The schema of one version of a custom resource."""

    kind: GroupVersionKind
    validator: Draft4Validator


def read_schemas(definition: JSONObject) -> Iterator[Schema]:
    """Yield the schemas of the versions of a CustomResourceDefinition, except those that cannot be compiled.

    CEL rules, formats and defaults are left out: kube-apiserver alone checks them.
    """
    spec = as_object(definition.get("spec"))
    kind = str(as_object(spec.get("names")).get("kind"))
    versions: Any = spec.get("versions") or ()
    for one in map(as_object, versions):
        schema = as_object(as_object(one.get("schema")).get("openAPIV3Schema"))
        if not schema:
            continue
        converted = _convert(schema)
        for name in _EVERY_OBJECT:
            converted.setdefault("properties", {})[name] = {}
        try:
            validator = Draft4Validator(converted, validate_formats=False, offline=True)
        except (ValidationError, ValueError):
            continue  # Go's regular expressions are others, for example.
        yield Schema(GroupVersionKind(str(spec.get("group")), str(one.get("name")), kind), validator)


def _convert(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node of a structural schema as JSON Schema (draft 4) that forbids the fields that are pruned."""
    made = {word: schema[word] for word in _KEPT if word in schema}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            made[word] = _convert(schema[word])
    if "properties" in schema:
        made["properties"] = {name: _convert(one) for name, one in schema["properties"].items()}
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if schema.get("x-kubernetes-embedded-resource"):
        made["properties"] = {**{name: {} for name in _EVERY_OBJECT}, **made.get("properties", {})}
    prunes = schema.get("type") == "object" and not schema.get(_PRESERVE) and "additionalProperties" not in schema
    if prunes:
        made.setdefault("properties", {})
        made["additionalProperties"] = False
    if schema.get("nullable") and "type" in made:
        return {"anyOf": [{"type": "null"}, made]}
    return made


def find_custom_faults(schemas: Sequence[Schema], request: AdmissionRequest, document: JSONObject) -> list[str]:
    """Return the faults of a custom resource, with their JSON pointers; none without a schema of its version."""
    kind = GroupVersionKind(request.kind.group, request.kind.version, request.kind.kind)
    validator = next((one.validator for one in schemas if one.kind == kind), None)
    if validator is None:
        return []
    try:
        errors = list(islice(validator.iter_errors(document), MAX_FINDINGS))
    except ValueError:
        return []  # The document is nested too deeply for the validator.
    return sorted(text for error in errors for text in _describe(error))


def _describe(error: ValidationError) -> Iterator[str]:
    path = [*map(str, error.instance_path)]
    if error.kind.name == "additionalProperties":
        for name in error.kind.as_dict()["unexpected"]:
            yield f"{format_pointer([*path, name])}: the CustomResourceDefinition has no such field"
    else:
        yield f"{format_pointer(path) or 'the object'}: {error.message}"
