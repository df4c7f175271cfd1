"""Kinds that follow the conventions: the operations that they answer, and the answers."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

import msgspec

from fleethook.engines.interpret.conventions.dependencies import Reference, find_pod_templates, list_dependencies
from fleethook.engines.interpret.conventions.status import (
    STANDARD,
    HealthRule,
    aggregate_status,
    judge_health,
    reflect_status,
)
from fleethook.engines.interpret.native.pod_templates import requirements
from fleethook.interpret.interpreter import Answer, Question
from fleethook.interpret.typed_members import InterpretError, with_member
from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import Operation


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
        counters: Names of integers to sum over the clusters, besides those whose names say so.
        operations: The only operations to answer; None for all that apply.
    """

    versions: tuple[str, ...]
    health: HealthRule = STANDARD
    replicas: Scale | None = None
    pods: tuple[str, ...] | None = None
    references: tuple[Reference, ...] | None = None
    counters: frozenset[str] = frozenset()
    operations: frozenset[Operation] | None = None

    @cached_property
    def answered(self) -> frozenset[Operation]:
        """The operations that the kind answers."""
        found = {Operation.STATUS, Operation.AGGREGATE_STATUS, Operation.HEALTH}
        if self.replicas is not None:
            found |= {Operation.REPLICA, Operation.REVISE_REPLICA}
        if self.pods is not None or self.references is not None:
            found.add(Operation.DEPENDENCY)
        return frozenset(found if self.operations is None else found & self.operations)

    def answer(self, question: Question) -> Answer:
        """Return the answer of the conventions; raises InterpretError for a number of replicas that is none."""
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
    found = _find_member(document, scale.path)
    if found is not None and type(found) is not int:
        raise InterpretError(f"{scale.spec} is not an integer")
    return found


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
