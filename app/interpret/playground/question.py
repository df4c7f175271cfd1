"""The question that a user asks a script in the playground, and the answer."""

from typing import Literal

import msgspec

from app.model.json import JSON

Language = Literal["lua", "python"]

Reason = Literal["", "input", "script", "limit", "isolation", "busy"]
"""The cause of a missing result: an input that is no question, the script, a limit, a machine that cannot isolate the
process, or too many running scripts."""


class PlaygroundQuestion(msgspec.Struct, frozen=True):
    """A script, and the question to it."""

    language: Language
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


class PlaygroundAnswer(msgspec.Struct, frozen=True):
    """The results by their names in fixtures, or the error."""

    results: dict[str, JSON] | None = None
    reason: Reason = ""
    error: str = ""
    line: int = 0
    """The line of the script that the error names, 0 if it names none."""
    seconds: float = 0
    instructions: int | None = None
    """Lua only."""
    memory: int | None = None
    """Bytes; Lua only."""
    printed: tuple[str, ...] = ()
    """Lines that a Lua script printed."""
    warnings: tuple[str, ...] = ()
    """Suspicious code in a Lua script, each with its line."""


def refuse(reason: Reason, error: str, *, line: int = 0) -> PlaygroundAnswer:
    """Return the answer for an error."""
    return PlaygroundAnswer(reason=reason, error=error, line=line)
