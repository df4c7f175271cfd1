"""The question to an interpreter, and its answer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import Operation


class Question(NamedTuple):
    """One operation on one object."""

    operation: Operation
    kind: GroupVersionKind
    object: JSONObject
    observed: JSONObject | None = None
    """Retain: the object as observed in the member cluster."""
    replicas: int = 0
    """ReviseReplica: the desired number of replicas."""
    items: Sequence[JSONObject] | None = None
    """AggregateStatus: the AggregatedStatusItems of the review. Scripts get nil for None, an empty list for ``[]``."""
    large: bool = False
    """Whether the review is so large that no work on it may run on the event loop."""
    built_in: bool = False
    """Whether only the native layer can be asked. Then ``object`` may lack members that this layer does not read."""


class Answer(NamedTuple):
    """The answer of an interpreter; only the members of the operation are set."""

    object: JSONObject | None = None
    """The changed object."""
    replicas: int | None = None
    requirements: JSON = None
    components: list[JSONObject] | None = None
    status: JSON = None
    healthy: bool | None = None
    dependencies: list[JSONObject] | None = None
    rule: str | None = None
    """The rule that decided, for explanations."""


Function = Callable[..., Any]
"""Interprets one operation; `ask` lists the arguments and the results."""


def _ask_replicas(function: Function, question: Question) -> Answer:
    found = function(question.object)
    replicas, requirements = found if isinstance(found, tuple) else (found, None)
    return Answer(replicas=replicas, requirements=requirements)


# A table is faster than a match statement: operations are strings, and the ninth case would take nine comparisons.
_ASK: Final[Mapping[Operation, Callable[[Function, Question], Answer]]] = {
    Operation.REPLICA: _ask_replicas,
    Operation.COMPONENT: lambda function, question: Answer(components=function(question.object)),
    Operation.REVISE_REPLICA: lambda function, question: Answer(object=function(question.object, question.replicas)),
    Operation.RETAIN: lambda function, question: Answer(object=function(question.object, question.observed or {})),
    Operation.AGGREGATE_STATUS: lambda function, question: Answer(
        object=function(question.object, list(question.items or ()))
    ),
    Operation.PRUNE: lambda function, question: Answer(object=function(question.object)),
    Operation.STATUS: lambda function, question: Answer(status=function(question.object)),
    Operation.HEALTH: lambda function, question: Answer(healthy=function(question.object)),
    Operation.DEPENDENCY: lambda function, question: Answer(dependencies=function(question.object)),
}


def ask(function: Function, question: Question) -> Answer:
    """Return the answer of a function.

    Arguments and results by operation: Replica(object) -> count, or count and requirements;
    Component(object) -> components; ReviseReplica(object, replicas), Retain(desired, observed),
    AggregateStatus(object, items) and Prune(object) -> the object; Status(object) -> status; Health(object) -> bool;
    Dependency(object) -> references.
    """
    return _ASK[question.operation](function, question)
