"""The question that a user asks a script in the playground, and the answer."""

from typing import Literal, NamedTuple

from fleethook.model.json import JSON

Reason = Literal["", "input", "script"]
"""The cause of a missing result: an input that is no question, or the script."""


class PlaygroundQuestion(NamedTuple):
    """A script, and the question to it."""

    code: str
    operation: str
    """The released or the proposed name of an operation."""
    desired: JSON = None
    """The object to ask about."""
    observed: JSON = None
    """The object as observed in a member cluster."""
    items: JSON = None
    """AggregateStatus: the AggregatedStatusItems."""
    replicas: int = 0
    """ReviseReplica: the desired number of replicas."""


class PlaygroundAnswer(NamedTuple):
    """The results by their names in fixtures, or the error."""

    results: dict[str, JSON] | None = None
    reason: Reason = ""
    error: str = ""
    line: int = 0
    """The line of the script that the error names, 0 if it names none."""
    seconds: float = 0
    instructions: int = 0
    memory: int = 0
    """Bytes."""
    printed: tuple[str, ...] = ()
    """Lines that the script printed."""
    warnings: tuple[str, ...] = ()
    """Suspicious code in the script, each with its line."""


def refuse(reason: Reason, error: str, *, line: int = 0) -> PlaygroundAnswer:
    """Return the answer for an error."""
    return PlaygroundAnswer(reason=reason, error=error, line=line)
