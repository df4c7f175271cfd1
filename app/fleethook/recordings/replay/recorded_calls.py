"""Answers the calls of a replayed review from its record, instead of asking webhooks and apiservers."""

from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Final, NamedTuple

import msgspec

from fleethook.model.formats.text import shorten
from fleethook.model.json import JSON
from fleethook.recordings.recording_format import RecordedCall

UNRECORDED: Final = "the call was not recorded"

_MAX_TITLE: Final = 200


class CallName(NamedTuple):
    """A webhook or a read, for people: ``webhook widgets-policy/audit.example.org``."""

    kind: str
    configuration: str
    name: str

    def __str__(self) -> str:
        place = f"{self.configuration}/{self.name}" if self.configuration else self.name
        return f"{self.kind} {place}"


class ReviewCalls:
    """The recorded answers of one review, and the calls that a replay of the review makes.

    Attributes:
        missing: Calls without a recorded answer, in their order, each with the reason. The review is undecidable then.
        asked: Names of the webhooks that the replay asked.
        after: Functions to call after the review.
    """

    def __init__(self, calls: Sequence[RecordedCall] = ()) -> None:
        """Prepare; ``calls`` are those of the record."""
        self.missing: Final[dict[CallName, str]] = {}
        self.asked: Final[dict[CallName, None]] = {}
        self.after: Final[list[Callable[[], None]]] = []
        # Calls by kind, cluster, name and key. The queue of a call whose answers are all used stays.
        self._left: Final[dict[tuple[str, str, str, str], deque[RecordedCall]]] = {}
        for call in calls:
            self._left.setdefault((call.kind, call.cluster, call.name, call.key), deque()).append(call)

    def take(self, kind: str, name: str, key: str, *, cluster: str, configuration: str = "") -> RecordedCall | None:
        """Return the next recorded answer of a call, None if there is none; the call then counts as missing.

        Args:
            kind: As in `fleethook.recordings.recording_format.RecordedCall`, and so are the other arguments.
            name: The name.
            key: The key.
            cluster: The logical cluster.
            configuration: The configuration, for people.
        """
        # A read has no name of its own: its key is the name of the object, or the question.
        title = CallName(kind, configuration, shorten(f"{name} {key}", _MAX_TITLE) if kind == "read" else name)
        if kind == "webhook":
            self.note_asked(title)
        found = self._left.get((kind, cluster, name, key))
        if found:
            return found.popleft()
        self.note_missing(title, "no recorded answer" if found is None else "too few recorded answers")
        return None

    def note_asked(self, title: CallName) -> None:
        """Note a webhook that the replay asks."""
        self.asked[title] = None

    def note_missing(self, title: CallName, reason: str) -> None:
        """Note a call that a replay cannot answer; the first reason is kept."""
        self.missing.setdefault(title, reason)

    def list_unasked(self) -> list[CallName]:
        """Return the webhooks that the recorded review asked and the replay did not."""
        recorded = {CallName(call.kind, call.configuration, call.name) for each in self._left.values() for call in each}
        return sorted(one for one in recorded if one.kind == "webhook" and one not in self.asked)


current_calls: Final[ContextVar[ReviewCalls | None]] = ContextVar("current_calls", default=None)
"""The calls of the review that is being replayed."""


def find_current() -> ReviewCalls:
    """Return the calls of the review that is being replayed; without one, no call has a recorded answer."""
    return current_calls.get() or ReviewCalls()


def read_answer(call: RecordedCall) -> JSON:
    """Return the answer of a call; raises ValueError."""
    if call.answer is msgspec.UNSET:
        raise ValueError("it has neither an answer nor an error")
    return msgspec.json.decode(call.answer)
