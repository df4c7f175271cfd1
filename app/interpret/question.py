"""What is asked, and what is answered."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from app.model.gvk import GroupVersionKind
from app.model.json import JSON, JSONObject
from app.model.karmada import Operation


class Question(NamedTuple):
    """One operation on one object."""

    operation: Operation
    kind: GroupVersionKind
    object: JSONObject
    observed: JSONObject | None = None
    """Retain: the object as it is in the member cluster."""
    replicas: int = 0
    """ReviseReplica: how many."""
    items: Sequence[JSONObject] = ()
    """AggregateStatus: AggregatedStatusItems, as they were sent."""


class Answer(NamedTuple):
    """What an interpreter says; the member of the operation is set."""

    object: JSONObject | None = None
    """The object as it should be."""
    replicas: int | None = None
    requirements: JSON = None
    components: list[JSONObject] | None = None
    status: JSON = None
    healthy: bool | None = None
    dependencies: list[JSONObject] | None = None


Function = Callable[..., Any]
"""An interpreter of one operation: `ask` says what it is given and what it returns."""


def ask(function: Function, question: Question) -> Answer:  # noqa: PLR0911 - one line an operation
    """Return what a function answers.

    What it is given and what it returns, by operation: Replica(object) -> count, or count and requirements;
    Component(object) -> components; ReviseReplica(object, replicas), Retain(desired, observed),
    AggregateStatus(object, items) and Prune(object) -> the object; Status(object) -> status; Health(object) -> bool;
    Dependency(object) -> references.
    """
    match question.operation:
        case Operation.REPLICA:
            found = function(question.object)
            replicas, requirements = found if isinstance(found, tuple) else (found, None)
            return Answer(replicas=replicas, requirements=requirements)
        case Operation.COMPONENT:
            return Answer(components=function(question.object))
        case Operation.REVISE_REPLICA:
            return Answer(object=function(question.object, question.replicas))
        case Operation.RETAIN:
            return Answer(object=function(question.object, question.observed or {}))
        case Operation.AGGREGATE_STATUS:
            return Answer(object=function(question.object, list(question.items)))
        case Operation.PRUNE:
            return Answer(object=function(question.object))
        case Operation.STATUS:
            return Answer(status=function(question.object))
        case Operation.HEALTH:
            return Answer(healthy=function(question.object))
        case Operation.DEPENDENCY:
            return Answer(dependencies=function(question.object))
