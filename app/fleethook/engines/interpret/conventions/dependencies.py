"""Finds the objects that an object refers to: those of its Pod templates, and those that rules point to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fleethook.engines.interpret.native import pod_templates
from fleethook.interpret.typed_members import InterpretError, find_values, walk
from fleethook.model.json import JSON, JSONObject, as_object, enumerate_objects

_CONTAINER: Final = frozenset({"name", "image"})


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule that finds references to other objects of one kind.

    Attributes:
        at: JSON pointer of the references, with ``*`` and ``**``. A reference is an object, or the name as a string.
        kind: The kind that is referred to.
        api_version: Its apiVersion.
        name: The member of a reference with the name.
        namespace: The member of a reference with the namespace. Without it, the namespace is that of the object.
        cluster_scoped: Whether the kind has no namespace.
        when: The values that members of a reference must have; ``""`` in a list accepts a missing member.
    """

    at: str
    kind: str
    api_version: str = msgspec.field(name="apiVersion", default="v1")
    name: str = "name"
    namespace: str = "namespace"
    cluster_scoped: bool = False
    when: Mapping[str, tuple[str, ...]] = {}


def list_dependencies(
    document: JSONObject, references: Sequence[Reference] = (), pods: Sequence[str] = ()
) -> list[JSONObject]:
    """Return the references of Pod templates anywhere in the object, and those of rules.

    Args:
        document: The object.
        references: The rules.
        pods: JSON pointers of objects that have members of a Pod spec, such as ``volumes`` or ``imagePullSecrets``,
            or of a container, such as ``env``.
    """
    own = as_object(document.get("metadata")).get("namespace")
    namespace = own if isinstance(own, str) else ""
    templates = find_pod_templates(document)
    for pointer in pods:
        templates += [_complete_template(one) for one in find_values(document, pointer) if isinstance(one, dict)]
    claims = set(_list_claim_templates(document))
    found = [
        reference
        for template in templates
        for reference in _list_pod_dependencies(template, namespace)
        if reference["kind"] != "PersistentVolumeClaim" or reference["name"] not in claims
    ]
    for rule in references:
        found += _follow(document, rule, namespace)
    return found


def find_pod_templates(document: JSONObject) -> list[JSONObject]:
    """Return the Pod templates anywhere in the spec: objects whose ``spec`` has containers, and other Pod specs."""
    found: list[JSONObject] = []
    known: set[int] = set()
    for one in walk({name: value for name, value in document.items() if name not in ("metadata", "status")}):
        if not isinstance(one, dict):
            continue
        spec = one.get("spec")
        if isinstance(spec, dict) and _is_pod_spec(spec):
            known.add(id(spec))
            found.append(one)
        elif id(one) not in known and _is_pod_spec(one):
            found.append({"spec": one})
    return found


def _is_pod_spec(value: JSONObject) -> bool:
    containers = value.get("containers")
    return (
        isinstance(containers, list)
        and bool(containers)
        and all(isinstance(one, dict) and not _CONTAINER.isdisjoint(one) for one in containers)
    )


def _complete_template(value: JSONObject) -> JSONObject:
    containers = value.get("containers")
    return {"spec": {**value, "containers": [*(containers if isinstance(containers, list) else ()), value]}}


def _list_pod_dependencies(template: JSONObject, namespace: str) -> list[JSONObject]:
    try:
        return pod_templates.dependencies(template, namespace) if namespace else []
    except InterpretError:
        return []  # it only looks like a Pod template


def _list_claim_templates(document: JSONObject) -> Iterator[JSON]:
    """Yield the names of claims that a controller creates itself."""
    for templates in find_values(document, "/spec/**/volumeClaimTemplates"):
        for _, one in enumerate_objects(templates):
            yield as_object(one.get("metadata")).get("name")


def _follow(document: JSONObject, rule: Reference, namespace: str) -> Iterator[JSONObject]:
    for value in find_values(document, rule.at):
        members: Mapping[str, JSON] = {rule.name: value} if isinstance(value, str) else as_object(value)
        name, given = members.get(rule.name), members.get(rule.namespace)
        if not isinstance(name, str) or not name:
            continue
        if any((members.get(member) or "") not in values for member, values in rule.when.items()):
            continue
        found: JSONObject = {"apiVersion": rule.api_version, "kind": rule.kind, "name": name}
        if rule.cluster_scoped:
            yield found
        elif place := (given if isinstance(given, str) and given else namespace):
            yield {**found, "namespace": place}
