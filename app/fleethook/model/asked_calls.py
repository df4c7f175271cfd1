"""Answers from outside a decision: engines return them beside it, if they are asked to, so that it can be repeated."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from fleethook.model.json import JSON

CallKind = Literal["webhook", "script", "read"]


class AskedCall(NamedTuple):
    """The answer of a webhook or a script, or a live read, on which a decision depended.

    Attributes:
        kind: The kind of the source.
        name: The name of the webhook or the script, or the kind of the object or question that was read.
        key: Tells the calls of one review apart. Calls of one kind with equal keys are in their order.
        configuration: The configuration or customization of the webhook or script.
        cluster: The logical cluster of the configuration, or of the object that was read.
        digest: The SHA-256 digest of a script.
        answer: The answer, as a value that `msgspec.json.encode` accepts; None if the call failed.
        error: The reason why there is no answer, ``""`` if there is one.
        failure: The facts about an error that decide how it is handled.
    """

    kind: CallKind
    name: str
    key: str
    configuration: str = ""
    cluster: str = ""
    digest: str = ""
    answer: Any = None
    error: str = ""
    failure: Mapping[str, JSON] | None = None
