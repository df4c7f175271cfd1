"""Encodes answered reviews as the lines of a recording."""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from time import gmtime, strftime
from typing import Any, Final, NamedTuple

import msgspec

from fleethook.model.json import JSON
from fleethook.recordings.quoted_values import Hasher, WorkLimitError
from fleethook.recordings.redaction import RecordValues, RedactionError, Redactor
from fleethook.recordings.suspicion import Suspicion
from fleethook.server.reviews.recording import AnsweredReview, AskedCall

_log: Final = logging.getLogger(__name__)

_ANSWER: Final = b',"answer":'
_END: Final = b"}\n"
_STATUS_200: Final = b'"status":200,'
_REVIEW: Final = b'"review":'
_FORMS: Final = ({"text"}, {"base64"})
_encode: Final = msgspec.json.Encoder().encode


class _Call(msgspec.Struct, omit_defaults=True):
    """A call as `fleethook.recordings.recording_format.Call` describes it, with a value in place of JSON text."""

    kind: str
    name: str
    key: str
    configuration: str = ""
    cluster: str = ""
    digest: str = ""
    answer: Any = msgspec.UNSET
    error: str = ""
    failure: Any = None


class Parts(NamedTuple):
    """The parts of a line: the review, the answer, and the JSON text before and after them."""

    head: bytes
    review: bytes
    answer: bytes
    tail: bytes


class Lines(NamedTuple):
    """Encoded lines.

    Attributes:
        text: The lines.
        written: The number of lines.
        refused: The number of reviews that could not be encoded.
    """

    text: bytes
    written: int
    refused: int


class LineEncoder:
    """Encodes reviews. The text of most reviews goes into the line as it is; a few are decoded and redacted."""

    def __init__(self, redactor: Redactor, suspicion: Suspicion, hasher: Hasher) -> None:
        """Initialize the encoder.

        Args:
            redactor: Redacts decoded records.
            suspicion: Finds the reviews that have to be decoded.
            hasher: Hashes bodies that may have secrets and cannot be decoded.
        """
        self._redactor: Final = redactor
        self._suspicion: Final = suspicion
        self._hasher: Final = hasher

    def encode(self, reviews: Sequence[AnsweredReview]) -> Lines:
        """Return the lines of reviews, in their order."""
        # A flat list and two sums, because a tuple for each review would take 20 % of this function's time.
        pieces: list[bytes] = []
        others: list[bytes] = []
        starts, other_starts, place, other_place = list[int](), list[int](), 0, 0
        for review in reviews:
            head, body, answer, tail = split_line(review)
            pieces += (head, body, _ANSWER, answer, tail)
            others += (answer, tail)
            starts.append(place)
            other_starts.append(other_place)
            other_place += len(answer) + len(tail)
            place += len(head) + len(body) + len(_ANSWER) + len(answer) + len(tail)
        text = b"".join(pieces)
        suspects = self._suspicion.find_records(text, starts)
        suspects |= self._suspicion.find_patches(b"".join(others), other_starts)
        # The body of a refused review, or a body that is not UTF-8, cannot be in the line as JSON text.
        suspects.update([number for number, review in enumerate(reviews) if review.status != 200])
        if not text.isascii():
            suspects.update(number for number, review in enumerate(reviews) if not is_utf8(review.body))
        if not suspects:
            return Lines(text, len(reviews), 0)
        return self._encode_each(reviews, suspects)

    def _encode_each(self, reviews: Sequence[AnsweredReview], suspects: set[int]) -> Lines:
        """Return the lines of reviews, of which some may have secrets."""
        lines: list[bytes] = []
        for number, review in enumerate(reviews):
            line = Parts(*split_line(review))
            encoded = _join(line) if number not in suspects else self._try_suspect(review, line)
            if encoded is not None:
                lines.append(encoded)
        return Lines(b"".join(lines), len(lines), len(reviews) - len(lines))

    def _try_suspect(self, review: AnsweredReview, line: Parts) -> bytes | None:
        """Return the line of a review that is redacted if necessary, None if that is impossible."""
        try:
            return self._encode_suspect(review, line)
        except (RedactionError, WorkLimitError):
            return None
        except Exception:  # noqa: BLE001 - one review must not keep the others of its block from being recorded
            _log.exception("a review cannot be redacted", extra={"fields": {"route": review.route, "uid": review.uid}})
            return None

    def _encode_suspect(self, review: AnsweredReview, line: Parts) -> bytes:
        """Return the line of a review that is redacted if necessary; raises RedactionError, WorkLimitError."""
        try:
            document: JSON = msgspec.json.decode(review.body)
            is_json = not (isinstance(document, dict) and set(document) in _FORMS) and is_utf8(review.body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            document, is_json = None, False
        if not is_json:
            shown, is_hash = self._show_text(review.body)
            return _join(line._replace(head=_mark(line.head, redacted=is_hash), review=_encode(shown)))
        calls = msgspec.json.decode(_encode_calls(review.calls))
        values = RecordValues(document, msgspec.json.decode(review.answer), calls)
        redacted = self._redactor.redact(values)
        if redacted is None:
            return _join(line)
        tail = _make_tail(_encode(redacted.calls) if review.calls else b"")
        head = _mark(line.head, redacted=True)
        return _join(Parts(head, _encode(redacted.review), _encode(redacted.answer), tail))

    def _show_text(self, body: bytes) -> tuple[JSON, bool]:
        """Return the recorded form of a body that is no JSON, and whether a hash replaces the body."""
        if self._suspicion.find_records(body, [0]) or b"ecret" in body or b"\0" in body or b"\\u" in body:
            return {"text": self._hasher.hash_bytes(body)}, True
        return ({"text": body.decode()} if is_utf8(body) else {"base64": body}), False


def split_line(review: AnsweredReview) -> tuple[bytes, bytes, bytes, bytes]:
    """Return the parts of the line of a review whose body is JSON text, as `Parts` has them."""
    body = review.body
    # A raw line feed is whitespace in JSON. Most bodies have one at their end.
    if b"\n" in body:
        body = body.replace(b"\n", b" ")
    second = int(review.time)
    micros = int((review.time - second) * 1_000_000)
    # Formatting an integer takes a third of the time of a float.
    head = b'{"time":"%b.%06dZ",%b"seconds":%de-6,%b%b"review":' % (
        _format_second(second), micros, _describe_path(review.route, review.path, review.query, review.cluster),
        int(review.seconds * 1_000_000), _STATUS_200 if review.status == 200 else b'"status":%d,' % review.status,
        b'"caller":%b,' % _encode(review.caller) if review.caller else b"",
    )  # fmt: skip
    tail = _make_tail(_encode_calls(review.calls)) if review.calls else _END
    return head, body, review.answer, tail


def _join(line: Parts) -> bytes:
    return b"".join((line.head, line.review, _ANSWER, line.answer, line.tail))


def _make_tail(calls: bytes) -> bytes:
    return b',"calls":%b}\n' % calls if calls else _END


def _mark(head: bytes, *, redacted: bool) -> bytes:
    """Return the head of a line with the mark of a redacted record."""
    return head.removesuffix(_REVIEW) + b'"redacted":true,' + _REVIEW if redacted else head


def _encode_calls(calls: Iterable[AskedCall]) -> bytes:
    return _encode([_to_struct(call) for call in calls])


def _to_struct(call: AskedCall) -> _Call:
    return _Call(
        call.kind, call.name, call.key, call.configuration, call.cluster, call.digest,
        msgspec.UNSET if call.error else call.answer, call.error, call.failure,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _describe_path(route: str, path: bytes, query: bytes, cluster: str) -> bytes:
    asked = b"%b?%b" % (path, query) if query else path
    members = {"route": route, "path": asked.decode("latin-1"), "cluster": cluster}
    return _encode(members)[1:-1] + b","


@lru_cache(maxsize=4)
def _format_second(second: int) -> bytes:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(second)).encode("ascii")


def is_utf8(text: bytes) -> bool:
    """Return whether bytes are UTF-8 text."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


EncodeLines = Callable[[Sequence[AnsweredReview]], Lines]
"""Encodes reviews, as `LineEncoder.encode` does."""
