"""Kinds that follow the conventions: the operations that they answer, and the answers.

Dependencies are the objects to which Pod templates and rules of a kind point.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from fleethook.cluster.store import Stored, StoreView
from fleethook.engines.interpret.conventions.health_and_aggregated_status import (
    STANDARD,
    HealthRule,
    aggregate_status,
    judge_health,
    reflect_status,
)
from fleethook.engines.interpret.interpreter_chain import Handler
from fleethook.engines.interpret.native.dependencies import list_template_dependencies
from fleethook.engines.interpret.native.native_kinds import find_native
from fleethook.engines.interpret.native.replicas import requirements
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import DEFINITIONS_BY_KIND
from fleethook.interpret.interpreter import Answer, InterpretError, Question
from fleethook.interpret.typed_fields import find_values, walk, with_member
from fleethook.model.gvk import GroupVersionKind, list_served_kinds
from fleethook.model.json import JSON, JSONObject, as_list, as_object, as_text, enumerate_objects
from fleethook.model.karmada import ConventionsMode, Operation

_CONTAINER: Final = frozenset({"name", "image"})


class ReferenceRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    document: JSONObject, references: Sequence[ReferenceRule] = (), pods: Sequence[str] = ()
) -> list[JSONObject]:
    """Return the references of Pod templates anywhere in the object, and those of rules.

    Args:
        document: The object.
        references: The rules.
        pods: JSON pointers of objects that have members of a Pod spec, such as ``volumes`` or ``imagePullSecrets``,
            or of a container, such as ``env``.
    """
    namespace = as_text(as_object(document.get("metadata")).get("namespace"))
    templates = find_pod_templates(document)
    for pointer in pods:
        templates += [_complete_template(value) for value in find_values(document, pointer) if isinstance(value, dict)]
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
        and all(isinstance(container, dict) and not _CONTAINER.isdisjoint(container) for container in containers)
    )


def _complete_template(value: JSONObject) -> JSONObject:
    return {"spec": {**value, "containers": [*as_list(value.get("containers")), value]}}


def _list_pod_dependencies(template: JSONObject, namespace: str) -> list[JSONObject]:
    try:
        return list_template_dependencies(template, namespace) if namespace else []
    except InterpretError:
        return []  # this only looks like a Pod template


def _list_claim_templates(document: JSONObject) -> Iterator[JSON]:
    """Yield the names of claims that a controller creates itself."""
    for templates in find_values(document, "/spec/**/volumeClaimTemplates"):
        for _, one in enumerate_objects(templates):
            yield as_object(one.get("metadata")).get("name")


def _follow(document: JSONObject, rule: ReferenceRule, namespace: str) -> Iterator[JSONObject]:
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


class Scale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The paths of the scale subresource, as a CustomResourceDefinition writes them.

    Attributes:
        spec: ``specReplicasPath``, such as ``.spec.replicas``.
        status: ``statusReplicasPath``.
    """

    spec: str
    status: str = ""

    @property
    def path(self) -> list[str]:
        """The names of the members that lead to the desired number."""
        return self.spec.removeprefix(".").split(".")


class ConventionalKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A kind without a script.

    Attributes:
        versions: The versions of its API.
        health: The conditions that decide, if the standard ones do not.
        replicas: The paths of the scale subresource. With it, the kind answers InterpretReplica and ReviseReplica.
        pods: JSON pointers of objects with members of a Pod spec or of a container. With it, even if it is empty, the
            kind answers InterpretDependency by its Pod templates.
        references: Further dependencies.
        counters: Names of integers to sum over the clusters, besides the usual names of counters.
        operations: The only operations to answer; None for all that apply.
    """

    versions: tuple[str, ...]
    health: HealthRule = STANDARD
    replicas: Scale | None = None
    pods: tuple[str, ...] | None = None
    references: tuple[ReferenceRule, ...] | None = None
    counters: frozenset[str] = frozenset()
    operations: frozenset[Operation] | None = None

    @cached_property
    def answered(self) -> frozenset[Operation]:
        """The operations that the kind answers."""
        operations = {Operation.STATUS, Operation.AGGREGATE_STATUS, Operation.HEALTH}
        if self.replicas is not None:
            operations |= {Operation.REPLICA, Operation.REVISE_REPLICA}
        if self.pods is not None or self.references is not None:
            operations.add(Operation.DEPENDENCY)
        return frozenset(operations if self.operations is None else operations & self.operations)

    def answer(self, question: Question) -> Answer:
        """Return the answer of the conventions; raises InterpretError if the number of replicas is not an integer."""
        return _ANSWERS[question.operation](self, question)


def _answer_health(kind: ConventionalKind, question: Question) -> Answer:
    verdict = judge_health(question.object, kind.health)
    return Answer(healthy=verdict.healthy, rule=verdict.reason)


def _answer_replicas(kind: ConventionalKind, question: Question) -> Answer:
    assert kind.replicas is not None
    replicas = _find_count(question.object, kind.replicas)
    return Answer(replicas=replicas or 0, requirements=_find_requirements(question.object, kind.replicas))


def _revise_replicas(kind: ConventionalKind, question: Question) -> Answer:
    """Set the number of replicas. Without one, the object is not divided between the clusters, and does not change."""
    assert kind.replicas is not None
    if _find_count(question.object, kind.replicas) in (None, question.replicas):
        return Answer(object=question.object)
    if question.replicas < 0:
        raise InterpretError(f"the replica count {question.replicas} is negative")
    return Answer(object=with_member(question.object, question.replicas, *kind.replicas.path))


def _find_count(document: JSONObject, scale: Scale) -> int | None:
    """Return the desired number of replicas, None if there is none; raises InterpretError if it is not an integer."""
    member = _find_member(document, scale.path)
    if member is not None and type(member) is not int:
        raise InterpretError(f"{scale.spec} is not an integer")
    return member


def _find_member(document: JSON, path: list[str]) -> JSON:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _find_requirements(document: JSONObject, scale: Scale) -> JSONObject | None:
    """Return the requirements of a replica: of the template beside the number, or of the only Pod template."""
    templates = find_pod_templates(document)
    beside = _find_member(document, [*scale.path[:-1], "template"])
    template = next((one for one in templates if one is beside), templates[0] if len(templates) == 1 else None)
    return None if template is None else requirements(template)


_ANSWERS: Final[Mapping[Operation, Callable[[ConventionalKind, Question], Answer]]] = {
    Operation.HEALTH: _answer_health,
    Operation.STATUS: lambda _, question: Answer(status=reflect_status(question.object)),
    Operation.AGGREGATE_STATUS: lambda kind, question: Answer(
        object=aggregate_status(question.object, question.items or (), kind.health, kind.counters)
    ),
    Operation.DEPENDENCY: lambda kind, question: Answer(
        dependencies=list_dependencies(question.object, kind.references or (), kind.pods or ())
    ),
    Operation.REPLICA: _answer_replicas,
    Operation.REVISE_REPLICA: _revise_replicas,
}


_RULES: Final[Mapping[Operation, str]] = {
    Operation.HEALTH: "standard conditions",
    Operation.REPLICA: "scale subresource",
    Operation.REVISE_REPLICA: "scale subresource",
    Operation.DEPENDENCY: "Pod templates",
}
"""The names of the rules in explanations. InterpretStatus has none: the native layer reports the status of any kind."""


_OPERATIONS: Final[Mapping[ConventionsMode, frozenset[Operation]]] = {
    ConventionsMode.OFF: frozenset(),
    ConventionsMode.HEALTH: frozenset({Operation.HEALTH}),
    ConventionsMode.ALL: frozenset(_RULES),
}


_OWN: Final = ("karmada.io", "fleethook.io")
"""The groups of control planes, whose objects no cluster gets; their subgroups, too."""


class ConventionsLayer:
    """Answers for each kind; for replicas only if a CustomResourceDefinition has a scale subresource."""

    name = "conventions"

    def __init__(self, store: StoreView, mode: ConventionsMode) -> None:
        """Prepare.

        Args:
            store: CustomResourceDefinitions; indexed by `DEFINITIONS_BY_KIND`.
            mode: The operations to answer.
        """
        self._store: Final = store
        self._operations: Final = _OPERATIONS[mode]

    def find(self, question: Question) -> Handler | None:
        """Return the rule of an operation, None if the kind has no scale subresource for it."""
        # The native layer answers first.
        if question.operation not in self._operations or find_native(question.kind, question.operation) is not None:
            return None
        found = self._store.find(DEFINITIONS_BY_KIND, "", tuple(question.kind.group_kind))
        kind = _read_kind(question.kind, found[0] if found else None)
        if question.operation not in kind.answered:
            return None
        return Handler(_RULES[question.operation], kind.answer, in_thread=True)

    def answers(self) -> Iterator[tuple[GroupVersionKind, Operation]]:
        """Return the kinds of all CustomResourceDefinitions, except those of Karmada itself."""
        for definition in self._store.each("", DEFINITIONS_BY_KIND.group_kind) if self._operations else ():
            for kind in list_served_kinds(definition):
                answered = () if _is_own(kind.group) else _read_kind(kind, definition).answered
                yield from ((kind, operation) for operation in self._operations.intersection(answered))


def _is_own(group: str) -> bool:
    return group.endswith(tuple(f".{one}" for one in _OWN)) or group in _OWN


def _read_kind(kind: GroupVersionKind, definition: Stored | None) -> ConventionalKind:
    """Return the rules of a kind, with the scale subresource of its version in the definition."""
    scale, spec = None, {} if definition is None else as_object(definition.get("spec"))
    for _, version in enumerate_objects(spec.get("versions")):
        if version.get("name") == kind.version:
            paths = as_object(as_object(version.get("subresources")).get("scale"))
            desired, current = paths.get("specReplicasPath"), paths.get("statusReplicasPath")
            if isinstance(desired, str) and desired:
                scale = Scale(desired, current if isinstance(current, str) else "")
    return ConventionalKind((kind.version,), replicas=scale, pods=())
