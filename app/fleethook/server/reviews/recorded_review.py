"""The types of recorded reviews: each endpoint offers its reviews, with the calls they depended on, to a recording."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from fleethook.model.json import JSON

CallKind = Literal["webhook", "script", "read"]


class AskedCall(NamedTuple):
    """The answer of a webhook or a script, or a live read, on which a decision depended.

    Attributes:
        kind: The kind of the source.
        name: The name of the webhook or the script, or the kind of the object or question that was read.
        key: Identifies a call of the review. Calls of one kind with equal keys are in their order.
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


class AnsweredReview(NamedTuple):
    """A review and its answer.

    Attributes:
        time: The time of the answer, in seconds since the epoch.
        route: The route's template.
        path: The path as requested, percent-encoded.
        query: The query as requested, ``b""`` without one.
        cluster: The logical cluster in which the review was decided, ``""`` for a plain cluster.
        seconds: From the review to its answer.
        status: The HTTP status.
        caller: Facts about the HTTP request that the answer depends on.
        uid: The uid of the review, ``""`` if it has none.
        body: The body as received.
        answer: The body as sent.
        calls: The answers of webhooks and scripts, and the live reads, that the answer depended on.
    """

    time: float
    route: str
    path: bytes
    query: bytes
    cluster: str
    seconds: float
    status: int
    caller: Mapping[str, JSON]
    uid: str
    body: bytes
    answer: bytes
    calls: Sequence[AskedCall]


RecordReview = Callable[[AnsweredReview], None]
"""Takes answered reviews. It returns at once and raises nothing: it is called on the event loop."""


class RecordSettingError(ValueError):
    """A setting of the recorder cannot be used."""
