"""What is asked, and what is answered."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

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
    items: Sequence[JSONObject] | None = None
    """AggregateStatus: AggregatedStatusItems, as they were sent; None, which scripts tell from none, if not at all."""
    large: bool = False
    """Whether the review is so large that no work on it may run on the event loop."""
    built_in: bool = False
    """Whether only the native layer can be asked. Then ``object`` may lack members that this layer does not read."""


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


def _replica(function: Function, question: Question) -> Answer:
    found = function(question.object)
    replicas, requirements = found if isinstance(found, tuple) else (found, None)
    return Answer(replicas=replicas, requirements=requirements)


# A table and not a match: the operations are texts, and the last of nine would be compared with all of them.
_ASK: Final[Mapping[Operation, Callable[[Function, Question], Answer]]] = {
    Operation.REPLICA: _replica,
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
    """Return what a function answers.

    What it is given and what it returns, by operation: Replica(object) -> count, or count and requirements;
    Component(object) -> components; ReviseReplica(object, replicas), Retain(desired, observed),
    AggregateStatus(object, items) and Prune(object) -> the object; Status(object) -> status; Health(object) -> bool;
    Dependency(object) -> references.
    """
    return _ASK[question.operation](function, question)
